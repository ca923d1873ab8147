//! Batches built with every codec.

use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, BuildError, Codec, CompressError, Offset, Position,
    SimpleRecord,
};

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
const LIMIT: usize = 1 << 20;

/// The values of the batch, decompressed.
fn values(bytes: &[u8]) -> Vec<Vec<u8>> {
    let batch = Batch::parse(bytes, Position::new(0)).unwrap();
    batch.verify_crc().unwrap();
    let mut buffer = Vec::new();
    let records = batch.inflate(LIMIT, &mut buffer).unwrap();
    records.map(|record| record.unwrap().value().unwrap().to_vec()).collect()
}

#[test]
fn one_builder_serves_all_codecs_in_turn() {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    for round in 0..3_u8 {
        for codec in CODECS {
            builder.reset(BatchSettings::new(Offset::new(9)).codec(codec));
            let value = vec![b'a' + round; 5000];
            builder.append(&SimpleRecord::new().value(&value)).unwrap();
            builder.append(&SimpleRecord::new().value(b"last")).unwrap();
            let bytes = builder.finish().unwrap();
            assert_eq!(bytes.len() < 1000, codec != Codec::None, "{codec}: {}", bytes.len());
            assert_eq!(values(bytes), [value, b"last".to_vec()], "{codec}");
            let header = *Batch::parse(bytes, Position::new(0)).unwrap().header();
            assert_eq!(header.attributes().codec(), Some(codec));
        }
    }
}

#[test]
fn a_compressed_batch_stays_open_after_it_was_finished() {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)).codec(Codec::Lz4));
    builder.append(&SimpleRecord::new().value(b"one")).unwrap();
    assert_eq!(values(builder.finish().unwrap()), [b"one"]);
    builder.append(&SimpleRecord::new().value(b"two")).unwrap();
    assert_eq!(values(builder.finish().unwrap()), [b"one", b"two"]);
}

#[test]
fn the_level_is_the_one_that_was_set_last() {
    let value: Vec<u8> = (0..60_000_u32).flat_map(|i| (i * i % 251).to_be_bytes()).collect();
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    let mut size = |level| {
        let settings = BatchSettings::new(Offset::new(0)).codec(Codec::Gzip).level(Some(level));
        builder.reset(settings);
        builder.append(&SimpleRecord::new().value(&value)).unwrap();
        builder.finish().unwrap().len()
    };
    let (fast, small) = (size(1), size(9));
    assert!(small < fast, "{small} < {fast}");
    assert_eq!(size(1), fast);
}

#[test]
fn a_level_that_the_codec_does_not_have_is_refused() {
    let settings = BatchSettings::new(Offset::new(0)).codec(Codec::Gzip).level(Some(77));
    let mut builder = BatchBuilder::new(settings);
    builder.append(&SimpleRecord::new()).unwrap();
    let refused = builder.finish();
    let source = match refused {
        Err(BuildError::Compress { source, .. }) => source,
        other => panic!("{other:?}"),
    };
    assert!(matches!(source, CompressError::Level { codec: Codec::Gzip, level: 77, .. }));
}
