//! Parsers of batches, records, control records and old messages.

use alluvium_record_format::{
    Batch, BatchHeader, BatchMut, Codec, ControlRecord, Decompressor, Entries, Entry, LegacyEntry,
    Position, Record, Walker, compress,
};

/// No payload of a fuzzed input inflates to more.
const LIMIT: usize = 1 << 20;

/// Walks the bytes as a log file: batches and old messages, one after the other.
pub fn batch(data: &[u8]) {
    let start = Position::new(0);
    let mut at = 0;
    let mut decompressor = Decompressor::new();
    for entry in Entries::new(data, start) {
        let Ok(entry) = entry else { break };
        assert_eq!(entry.position().get() as usize, at, "entries lie one behind the other");
        assert_eq!(entry.bytes(), &data[at..at + entry.bytes().len()]);
        at += entry.bytes().len();
        let _magic = (entry.magic(), entry.last_offset(), entry.verify_crc().is_ok());
        match entry {
            Entry::Batch(batch) => read_batch(&batch, &mut decompressor),
            Entry::Legacy(entry) => read_legacy(&entry),
            _ => {}
        }
    }
    let mut walker = Walker::new(start, Position::new(u32::try_from(data.len()).unwrap()));
    let mut steps = 0;
    while let Ok(Some(prefix)) = {
        let from = (walker.position().get() as usize).min(data.len());
        walker.step(&data[from..])
    } {
        assert!(prefix.size_bytes() > 0);
        steps += 1;
        assert!(steps <= data.len(), "the walk ends");
    }
}

/// Every way to read one batch must say the same.
fn read_batch(batch: &Batch<'_>, decompressor: &mut Decompressor) {
    let header = batch.header();
    let _fields = (header.next_offset(), header.last_sequence(), header.delete_horizon());
    let _fields = (header.sequence_of(header.base_offset()), header.attributes().unknown_bits());
    let mut buffer = Vec::new();
    let whole: Option<Vec<String>> =
        decompressor.inflate(batch, LIMIT, &mut buffer).ok().and_then(|records| {
            records.map(|record| record.ok().map(|record| shown(&record))).collect()
        });
    let mut streamed = Some(Vec::new());
    match decompressor.records(batch, LIMIT) {
        Err(_) => streamed = None,
        Ok(mut stream) => {
            while let Some(record) = stream.next_record() {
                match (record, &mut streamed) {
                    (Ok(record), Some(all)) => all.push(shown(&record)),
                    _ => {
                        streamed = None;
                        break;
                    }
                }
            }
        }
    }
    // The two differ in what they bound: all of it, or each record. What both take is the same.
    if let (Some(whole), Some(streamed)) = (&whole, &streamed) {
        assert_eq!(whole, streamed, "the stream and the whole payload hold the same records");
    }
    let mut buffer = Vec::new();
    if let Some(whole) = &whole
        && let Ok(records) = decompressor.inflate(batch, LIMIT, &mut buffer)
    {
        let keys = records.keys().filter(Result::is_ok).count();
        assert_eq!(keys, whole.len(), "keys alone are as many as records");
    }
}

fn shown(record: &Record<'_>) -> String {
    let headers: Vec<_> = record.headers().map(|header| (header.key, header.value)).collect();
    format!(
        "{:?} {:?} {:?} {:?} {headers:?}",
        record.offset(),
        record.timestamp(),
        record.key(),
        record.value()
    )
}

/// A batch of this codec with `data` for its payload, read with a checksum that fits.
pub fn records(codec: Codec, data: &[u8]) {
    let Some((&[count, attributes, delta], payload)) = data.split_first_chunk::<3>() else {
        return;
    };
    let mut bytes = vec![0; BatchHeader::LEN];
    bytes.extend_from_slice(payload);
    let length = i32::try_from(bytes.len() - 12).unwrap();
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[16] = 2;
    bytes[21] = attributes;
    bytes[22] = codec.id() | (attributes & 0x78);
    bytes[26] = delta;
    bytes[60] = count;
    BatchMut::parse(&mut bytes, Position::new(0)).unwrap().rewrite_crc();
    let batch = Batch::parse(&bytes, Position::new(0)).unwrap();
    batch.verify_crc().unwrap();
    let mut decompressor = Decompressor::new();
    read_batch(&batch, &mut decompressor);
    payload_both_ways(codec, payload, &mut decompressor);
}

/// A payload as a whole and piece by piece; what came out goes in again.
fn payload_both_ways(codec: Codec, payload: &[u8], decompressor: &mut Decompressor) {
    let mut whole = Vec::new();
    let is_whole = decompressor.decompress(codec, payload, LIMIT, &mut whole).is_ok();
    let mut pieces = Vec::new();
    let mut is_read = false;
    if let Ok(mut decoder) = decompressor.decoder(codec, payload) {
        is_read = loop {
            match decoder.pull(&mut pieces) {
                Ok(0) => break true,
                Ok(_) if pieces.len() > LIMIT => return,
                Ok(_) => {}
                Err(_) => break false,
            }
        };
    }
    assert_eq!(is_whole, is_read, "a stream is sound as a whole where it is sound in pieces");
    if !is_whole {
        assert!(whole.is_empty());
        return;
    }
    assert_eq!(whole, pieces);
    let mut again = Vec::new();
    compress(codec, None, &whole, &mut again).unwrap();
    let mut back = Vec::new();
    decompressor.decompress(codec, &again, LIMIT, &mut back).unwrap();
    assert_eq!(back, whole, "what is written is read");
}

/// Key and value of a control record: what is read is written and read again.
pub fn control(data: &[u8]) {
    let Some((&cut, rest)) = data.split_first() else { return };
    let (key, value) = rest.split_at(usize::from(cut).min(rest.len()));
    let Ok(record) = ControlRecord::parse(Some(key), Some(value)) else { return };
    if matches!(record, ControlRecord::Unknown { .. }) {
        return;
    }
    let mut written = Vec::new();
    record.write_value(&mut written);
    let again = ControlRecord::parse(Some(&record.key()), Some(&written)).unwrap();
    assert_eq!(again, record, "what is written is read");
}

/// One message of magic 0 or 1.
pub fn legacy(data: &[u8]) {
    if let Ok(entry) = LegacyEntry::parse(data, Position::new(0)) {
        read_legacy(&entry);
    }
}

fn read_legacy(entry: &LegacyEntry<'_>) {
    let _fields =
        (entry.offset(), entry.timestamp(), entry.timestamp_type(), entry.record().is_ok());
    let mut buffer = Vec::new();
    let Ok(records) = entry.inflate(LIMIT, &mut buffer) else { return };
    for record in records {
        let Ok(record) = record else { break };
        let _valid = (record.is_valid(), record.key(), record.value(), record.timestamp());
    }
}
