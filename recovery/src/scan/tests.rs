//! One thread and many see the same batches, whatever the bytes are.

#![expect(clippy::arithmetic_side_effects, reason = "a test that overflows fails")]

use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use alluvium_record_format::{
    BatchBuilder, BatchSettings, Corruption, Offset, SimpleRecord, Timestamp, crc32_append,
};
use alluvium_segment::{Io, IoCall, IoHook, IoVerdict};
use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;

use super::stitch::Visit;
use super::{LogFile, ScanConfig, ScanEnd, Step, Walk, scan};
use crate::FileError;

/// What a scan saw: position, last offset and damage of each batch, where it ended and why.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    batches: Vec<(u32, i64, Option<Corruption>)>,
    valid_bytes: u32,
    damage: Option<Corruption>,
}

fn see(path: &Path, config: ScanConfig) -> Seen {
    let len = u32::try_from(std::fs::metadata(path).unwrap().len()).unwrap();
    let file = LogFile::open(&Io::new(), path, 0, len).unwrap();
    let mut batches = Vec::new();
    let end = scan(&file, Offset::new(0), config, &mut |batch, damage| {
        batches.push((batch.position.get(), batch.last_offset().get(), damage));
        ControlFlow::Continue(())
    })
    .unwrap();
    Seen { batches, valid_bytes: end.valid_bytes, damage: end.damage }
}

/// Scans with 1, 2 and 7 chunks and one to three threads, and compares all.
fn see_all(bytes: &[u8]) -> Seen {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log");
    std::fs::write(&path, bytes).unwrap();
    let in_order = see(&path, ScanConfig::new());
    let len = u32::try_from(bytes.len()).unwrap();
    for chunks in [1, 2, 7] {
        for threads in [1, 2, 3] {
            let config = ScanConfig::new().threads(threads).chunk_bytes(len.div_ceil(chunks));
            assert_eq!(see(&path, config), in_order, "{chunks} chunks, {threads} threads");
        }
    }
    in_order
}

fn batch(base_offset: i64, values: &[&[u8]]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(base_offset)));
    for value in values {
        let record = SimpleRecord::new().timestamp(Timestamp::new(1)).value(value);
        builder.append(&record).unwrap();
    }
    builder.finish().unwrap().to_vec()
}

/// A log in which every value is itself a log: whole batches with right checksums, at the place
/// where a thread that starts in the middle looks first.
fn nested(depth: u32, base_offset: i64) -> Vec<u8> {
    if depth == 0 {
        return batch(base_offset, &[&b"innermost"[..]; 3]);
    }
    let inner = [nested(depth - 1, base_offset), nested(depth - 1, base_offset + 50)].concat();
    let one = batch(base_offset, &[&inner]);
    [one.clone(), batch(base_offset + 1, &[b"small", &inner]), one].concat()
}

#[test]
fn values_that_hold_whole_batches_do_not_mislead_threads() {
    let seen = see_all(&nested(3, 0));
    assert_eq!(seen.batches.len(), 3);
    assert_eq!(seen.damage, None);
}

#[test]
fn a_large_batch_over_all_chunks_is_one_batch() {
    let value = vec![2_u8; 700_000];
    let log = [batch(0, &[b"a"]), batch(1, &[&value]), batch(2, &[b"b"])].concat();
    let seen = see_all(&log);
    assert_eq!(seen.batches.len(), 3);
    assert_eq!(usize::try_from(seen.valid_bytes).unwrap(), log.len());
}

#[test]
fn a_wrong_checksum_is_told_and_the_scan_goes_on_behind_it() {
    let mut log: Vec<u8> = (0..40).flat_map(|n| batch(n, &[b"some value or other"])).collect();
    let size = log.len() / 40;
    log[size * 17 + 70] ^= 1;
    let seen = see_all(&log);
    assert_eq!(seen.batches.len(), 40);
    let damaged: Vec<_> = seen.batches.iter().filter(|(_, _, damage)| damage.is_some()).collect();
    assert_eq!(damaged.len(), 1);
    assert_eq!(damaged[0].1, 17);
}

#[test]
fn a_torn_tail_ends_the_scan_at_its_batch() {
    let whole = (0..5).flat_map(|n| batch(n, &[b"value"])).collect::<Vec<_>>();
    let size = whole.len() / 5;
    for cut in [1, 17, 18, size - 1] {
        let seen = see_all(&whole[..whole.len() - cut]);
        assert_eq!(usize::try_from(seen.valid_bytes).unwrap(), 4 * size, "{cut}");
        assert!(seen.damage.is_some(), "{cut}");
    }
    let zeros = see_all(&[&whole[..], &[0; 4096]].concat());
    assert_eq!(usize::try_from(zeros.valid_bytes).unwrap(), whole.len());
    assert!(zeros.damage.is_some());
}

#[test]
fn a_visitor_that_stops_is_not_called_again() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log");
    let log: Vec<u8> = (0..100).flat_map(|n| batch(n, &[b"value"])).collect();
    std::fs::write(&path, &log).unwrap();
    let len = u32::try_from(log.len()).unwrap();
    let file = LogFile::open(&Io::new(), &path, 0, len).unwrap();
    for threads in [1, 3] {
        let config = ScanConfig::new().threads(threads).chunk_bytes(200);
        let mut left = 10;
        let end = scan(&file, Offset::new(0), config, &mut |_, _| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
        assert_eq!((left, end.valid_bytes), (0, len / 100 * 9));
        assert_eq!(end.damage, None);
    }
}

/// Bytes 0 to 17 of a message of magic 1 that claims all of a file of 1 GiB, which is a hole.
#[test]
fn a_message_of_an_old_format_is_never_held_whatever_length_it_claims() {
    const LEN: u32 = 1 << 30;
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log");
    let mut head = vec![0; 17];
    head[8..12].copy_from_slice(&(LEN - 12).to_be_bytes());
    head[16] = 1;
    std::fs::write(&path, &head).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(LEN.into()).unwrap();
    let file = LogFile::open(&Io::new(), &path, 0, LEN).unwrap();

    let mut walk = Walk::headers(&file, 0);
    assert!(matches!(walk.step().unwrap(), Step::Batch(batch) if batch.size_bytes == LEN));
    assert!(walk.window().held_bytes() < 1 << 20);

    let mut walk = Walk::content(&file, 0);
    let Step::Bad(batch, damage) = walk.step().unwrap() else { panic!("the checksum is 0") };
    assert_eq!((batch.end().get(), damage.position().get()), (LEN, 12));
    assert!(walk.window().held_bytes() < 1 << 20);
    assert!(matches!(walk.step().unwrap(), Step::End));
}

/// A message of magic 1 without a key.
fn message(offset: i64, timestamp: i64, value: &[u8]) -> Vec<u8> {
    let mut body = vec![1, 0];
    body.extend(timestamp.to_be_bytes());
    body.extend((-1_i32).to_be_bytes());
    body.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
    body.extend(value);
    let crc = crc32_append(0, &body);
    let length = u32::try_from(body.len() + 4).unwrap();
    [&offset.to_be_bytes()[..], &length.to_be_bytes(), &crc.to_be_bytes(), &body].concat()
}

#[test]
fn messages_of_an_old_format_give_offset_time_and_checksum_at_any_size() {
    let large = vec![7; 700_000];
    let values = [&b""[..], b"small", &large];
    let log: Vec<u8> = (0..3).zip(values).flat_map(|(n, value)| message(n, n - 1, value)).collect();
    assert_eq!(see_all(&log).damage, None);
    let mut flipped = log.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let seen = see_all(&flipped);
    assert_eq!(seen.batches.iter().filter(|(_, _, damage)| damage.is_some()).count(), 1);
    assert_eq!(seen.batches[2].2.unwrap().position().get(), seen.batches[2].0 + 12);

    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log");
    std::fs::write(&path, &log).unwrap();
    let file = LogFile::open(&Io::new(), &path, 0, u32::try_from(log.len()).unwrap()).unwrap();
    for mut walk in [Walk::headers(&file, 0), Walk::content(&file, 0)] {
        for (offset, time) in [(0, None), (1, Some(0)), (2, Some(1))] {
            let Step::Batch(batch) = walk.step().unwrap() else { panic!("{offset} is sound") };
            assert_eq!(batch.last_offset().get(), offset);
            assert_eq!(batch.index_info().max_timestamp.map(Timestamp::get), time);
        }
    }
}

/// 100 batches in chunks of two.
fn many_chunks(io: &Io, visit: &mut Visit<'_>) -> Result<ScanEnd, FileError> {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log");
    let log: Vec<u8> = (0..100).flat_map(|n| batch(n, &[b"value"])).collect();
    std::fs::write(&path, &log).unwrap();
    let len = u32::try_from(log.len()).unwrap();
    let file = LogFile::open(io, &path, 0, len).unwrap();
    scan(&file, Offset::new(0), ScanConfig::new().threads(2).chunk_bytes(len / 50), visit)
}

#[test]
fn a_visitor_that_panics_ends_the_scan_and_its_threads() {
    let result = std::panic::catch_unwind(|| {
        let mut left = 10;
        many_chunks(&Io::new(), &mut |_, _| {
            left -= 1;
            assert!(left > 0, "the visitor's own panic");
            ControlFlow::Continue(())
        })
    });
    let panic = result.unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the visitor's own panic"));
}

/// Panics in reads of all threads but its own.
struct Foreign(std::thread::ThreadId);

impl IoHook for Foreign {
    fn before(&self, call: &IoCall<'_>) -> IoVerdict {
        let is_own = std::thread::current().id() == self.0;
        assert!(is_own || !matches!(call, IoCall::Read { .. }), "a thread's own panic");
        IoVerdict::Proceed
    }
}

#[test]
fn a_thread_that_panics_leaves_nobody_waiting() {
    let io = Io::with_hook(Arc::new(Foreign(std::thread::current().id())));
    let mut seen = 0;
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| {
        many_chunks(&io, &mut |_, _| {
            seen += 1;
            ControlFlow::Continue(())
        })
    }));
    assert!(result.is_err(), "the panic is passed on");
    assert_eq!(seen, 100, "the walk in order needs no other thread");
}

#[test]
fn candidates_that_cost_too_much_are_given_up_and_the_scan_is_right_nevertheless() {
    // Headers that promise the rest of the file as their batch, none with a right checksum.
    let mut decoy = batch(0, &[b"x"]);
    decoy[8..12].copy_from_slice(&30_000_u32.to_be_bytes());
    let value = decoy.repeat(2000);
    let log: Vec<u8> = (0..3).flat_map(|n| batch(n, &[&value])).collect();
    assert_eq!(see_all(&log).batches.len(), 3);
}

proptest! {
    #[test]
    fn any_bytes_give_every_number_of_threads_the_same(
        sizes in vec((0_usize..400, any::<u8>()), 1..30),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in 0_usize..40,
    ) {
        let mut log: Vec<u8> = Vec::new();
        for (offset, (size, byte)) in (0_i64..).zip(sizes) {
            log.extend(batch(offset, &[&vec![byte; size]]));
        }
        log.truncate(log.len().saturating_sub(cut));
        for (index, mask) in flips {
            let at = index.index(log.len());
            log[at] ^= mask;
        }
        see_all(&log);
    }

    #[test]
    fn no_bytes_make_a_scan_panic(bytes in vec(prop_oneof![any::<u8>(), Just(0), Just(2)], 0..600)) {
        see_all(&bytes);
    }
}
