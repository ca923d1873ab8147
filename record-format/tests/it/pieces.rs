//! Batches that are built of the pieces of another.

use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, BuildError, Codec, Decompressor, Header, Offset, Position,
    Record, RecordPiece, Records, SimpleRecord, Timestamp,
};

use crate::heap::peak_of;

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

fn parse(bytes: &[u8]) -> Batch<'_> {
    Batch::parse(bytes, Position::new(0)).unwrap()
}

/// Forty records, some without a key, a value or a time, with headers, and large ones among them.
fn source(codec: Codec) -> Vec<u8> {
    let settings = BatchSettings::new(Offset::new(1000)).codec(codec);
    let mut builder = BatchBuilder::new(settings);
    let headers = [Header::new(b"trace", Some(b"0123456789")), Header::new(b"n", None)];
    let large: Vec<u8> = (0_u32..50_000).flat_map(u32::to_be_bytes).collect();
    for at in 0..40 {
        let key = format!("key-{at}");
        let mut record = SimpleRecord::new();
        if at % 7 != 0 {
            record = record.timestamp(Timestamp::new(1_700_000_000_000 + at * 1_000_000));
        }
        // Of those that are copied, every third has no key, and every third a large one.
        record = match at / 3 % 3 {
            0 => record,
            1 => record.key(key.as_bytes()),
            _ => record.key(&large[..100_000]),
        };
        record = match at % 4 {
            0 => record,
            1 => record.value(&large),
            _ => record.value(b"value").headers(&headers),
        };
        builder.append_with_offset(Offset::new(1000 + 3 * at), &record).unwrap();
    }
    builder.finish().unwrap().to_vec()
}

/// All that each record tells.
fn facts(records: Records<'_>) -> Vec<String> {
    let fact = |record: Record<'_>| {
        let headers: Vec<_> = record.headers().map(|header| (header.key, header.value)).collect();
        let place = (record.offset(), record.timestamp());
        format!("{place:?} {:?} {:?} {headers:?}", record.key(), record.value())
    };
    records.map(|record| fact(record.unwrap())).collect()
}

/// Every third record of a batch, by its pieces.
fn thinned(source: &[u8], settings: BatchSettings, builder: &mut BatchBuilder) -> Vec<u8> {
    builder.reset(settings);
    let mut decompressor = Decompressor::new();
    let mut records = decompressor.records(&parse(source), usize::MAX).unwrap();
    for at in 0.. {
        let next = records.next_pieces(&mut |piece| {
            if at % 3 == 1 {
                builder.append_piece(piece).unwrap();
            }
        });
        let Some(record) = next else { break };
        record.unwrap();
    }
    builder.set_last_offset(Offset::new(1200)).unwrap();
    builder.finish().unwrap().to_vec()
}

/// Every third record of a batch, each held as a whole.
fn held(source: &[u8], settings: BatchSettings) -> Vec<u8> {
    let mut builder = BatchBuilder::new(settings);
    let mut decompressor = Decompressor::new();
    let mut records = decompressor.records(&parse(source), usize::MAX).unwrap();
    let mut at = 0;
    while let Some(record) = records.next_record() {
        if at % 3 == 1 {
            builder.append_record(&record.unwrap()).unwrap();
        }
        at += 1;
    }
    builder.set_last_offset(Offset::new(1200)).unwrap();
    builder.finish().unwrap().to_vec()
}

#[test]
fn a_batch_of_pieces_holds_what_one_of_whole_records_holds() {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    for codec in CODECS {
        let source = source(codec);
        let plain = BatchSettings::new(Offset::new(1000)).codec(codec);
        for settings in [plain, plain.delete_horizon(Timestamp::new(5))] {
            let expected = held(&source, settings);
            for _ in 0..2 {
                let found = thinned(&source, settings, &mut builder);
                parse(&found).verify_crc().unwrap();
                let (mut left, mut right) = (Vec::new(), Vec::new());
                let found = parse(&found).inflate(1 << 30, &mut left).unwrap();
                let wanted = parse(&expected).inflate(1 << 30, &mut right).unwrap();
                let (found, wanted) = (facts(found), facts(wanted));
                assert_eq!(found.len(), 13);
                assert!(found == wanted, "{codec}");
            }
            let header = *parse(&expected).header();
            let found = *parse(&thinned(&source, settings, &mut builder)).header();
            assert_eq!(found.max_timestamp(), header.max_timestamp());
            assert_eq!(found.delete_horizon(), header.delete_horizon());
            assert_eq!(found.last_offset(), Offset::new(1200));
        }
    }
}

#[test]
fn a_batch_that_was_compressed_as_it_came_ends_when_it_is_finished() {
    let source = source(Codec::Zstd);
    let settings = BatchSettings::new(Offset::new(1000)).codec(Codec::Zstd);
    let mut builder = BatchBuilder::new(settings);
    assert!(!thinned(&source, settings, &mut builder).is_empty());
    assert_eq!((builder.record_count(), builder.finish().unwrap()), (0, &[][..]));
}

#[test]
fn a_record_without_all_its_pieces_is_refused() {
    let start = RecordPiece::Start {
        offset: Offset::new(0),
        timestamp: None,
        key_bytes: Some(2),
        rest_bytes: 2,
    };
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    builder.append_piece(start).unwrap();
    builder.append_piece(RecordPiece::Key(b"k")).unwrap();
    let lacks = |error| matches!(error, BuildError::PieceMissing { missing_bytes: 3, .. });
    assert!(lacks(builder.append_piece(start).unwrap_err()));
    assert!(lacks(builder.append(&SimpleRecord::new()).unwrap_err()));
    let long = builder.append_piece(RecordPiece::Rest(&[0; 4])).unwrap_err();
    assert!(matches!(long, BuildError::PieceTooLong { missing_bytes: 3, found: 4, .. }));
    assert!(lacks(builder.finish().unwrap_err()));
}

/// A record of 256 MiB in some kilobytes.
#[test]
fn a_record_that_is_copied_by_pieces_takes_no_memory_of_its_size() {
    for codec in [Codec::Gzip, Codec::Lz4, Codec::Zstd] {
        let settings = BatchSettings::new(Offset::new(0)).codec(codec);
        let mut builder = BatchBuilder::new(settings);
        let start = RecordPiece::Start {
            offset: Offset::new(0),
            timestamp: None,
            key_bytes: Some(1),
            rest_bytes: (256 << 20) + 6,
        };
        builder.append_piece(start).unwrap();
        builder.append_piece(RecordPiece::Key(b"k")).unwrap();
        let (length, headers) = ([0x80, 0x80, 0x80, 0x80, 0x02], [0]);
        builder.append_piece(RecordPiece::Rest(&length)).unwrap();
        let zeros = vec![0; 1 << 20];
        for _ in 0..256 {
            builder.append_piece(RecordPiece::Rest(&zeros)).unwrap();
        }
        builder.append_piece(RecordPiece::Rest(&headers)).unwrap();
        let bomb = builder.finish().unwrap().to_vec();
        let (peak, copy) = peak_of(|| {
            let mut builder = BatchBuilder::new(settings);
            let mut decompressor = Decompressor::new();
            let mut records = decompressor.records(&parse(&bomb), usize::MAX).unwrap();
            let copied = records.next_pieces(&mut |piece| builder.append_piece(piece).unwrap());
            assert_eq!(copied.unwrap().unwrap().value_bytes, Some(256 << 20));
            builder.finish().unwrap().to_vec()
        });
        assert!(copy.len() <= bomb.len() + 64, "{codec}: {} of {}", copy.len(), bomb.len());
        assert!(peak < 3 * bomb.len() + (16 << 20), "{codec}: {peak} bytes");
    }
}
