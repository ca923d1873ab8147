//! Blocks on disk ahead of the writer: no byte and no length shows them.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alluvium_record_format::{Offset, Timestamp};
use alluvium_segment::{ActiveSegment, FilePool, Io, IoCall, IoHook, IoVerdict, SegmentConfig};

use crate::support::{Fixture, batch_at, birth};

const LOG: &str = "00000000000000000000.log";

/// Appends 4 MB, in 40 batches.
fn append(active: &mut ActiveSegment, bytes: &mut Vec<u8>) {
    for _ in 0..40 {
        let batch = batch_at(active.next_offset().get(), &[1000], 100_000);
        active.append(&batch).unwrap();
        bytes.extend_from_slice(&batch);
    }
}

/// The writer of a log that has grown so, with its path and bytes.
fn grown(fixture: &Fixture) -> (PathBuf, Vec<u8>, ActiveSegment) {
    let mut bytes = Vec::new();
    let mut active = fixture.create(0, SegmentConfig::new());
    append(&mut active, &mut bytes);
    (fixture.path(LOG), bytes, active)
}

/// Bytes that a file takes on the disk beyond its length.
fn bytes_ahead(path: &Path) -> u64 {
    let metadata = fs::metadata(path).unwrap();
    (metadata.blocks() * 512).saturating_sub(metadata.len())
}

/// Whether the test says something here. Where it does not, it says why.
#[expect(clippy::print_stderr, reason = "why nothing is compared")]
fn is_ext4(path: &Path) -> bool {
    let f_type = rustix::fs::fstatfs(File::open(path).unwrap()).unwrap().f_type;
    let is_it = f_type == 0xef53;
    if !is_it {
        eprintln!("not compared: blocks ahead are for ext4, and this file system is {f_type:#x}");
    }
    is_it
}

fn assert_some_ahead(path: &Path) {
    let ahead = bytes_ahead(path);
    assert!(!is_ext4(path) || (ahead > FEW && ahead <= MOST), "{ahead}");
}

/// XFS gives blocks ahead by itself, and takes them back when it likes.
fn assert_none_ahead(path: &Path) {
    let ahead = bytes_ahead(path);
    assert!(!is_ext4(path) || ahead <= FEW, "{ahead}");
}

/// A block at the end, and those of a tree of extents.
const FEW: u64 = 64 << 10;

/// What a log gets at most, and the few beside.
const MOST: u64 = (4 << 20) + FEW;

#[test]
fn a_log_that_grows_has_blocks_ahead_and_a_sealed_one_has_none() {
    let fixture = Fixture::on_disk();
    let (path, bytes, active) = grown(&fixture);
    assert_some_ahead(&path);
    assert!(!is_ext4(&path) || bytes_ahead(&path) <= bytes.len() as u64 / 4 + FEW);
    assert_eq!(fixture.bytes(LOG), bytes);
    drop(active.seal().unwrap());
    assert_none_ahead(&path);
    assert_eq!(fixture.bytes(LOG), bytes);
}

#[test]
fn a_writer_that_is_dropped_leaves_blocks_ahead_and_the_next_seal_gives_them_back() {
    let fixture = Fixture::on_disk();
    let (path, mut bytes, active) = grown(&fixture);
    drop(active);
    assert_some_ahead(&path);
    assert_eq!(fixture.bytes(LOG), bytes);
    let active = reopen(&fixture);
    assert_some_ahead(&path);
    drop(active.seal().unwrap());
    assert_none_ahead(&path);
    let mut active = reopen(&fixture);
    append(&mut active, &mut bytes);
    assert_eq!(fixture.bytes(LOG), bytes);
}

#[test]
fn a_log_that_was_left_with_blocks_ahead_and_without_a_byte_gives_them_back() {
    let fixture = Fixture::on_disk();
    let path = fixture.path(LOG);
    drop(fixture.create(0, SegmentConfig::new()));
    let file = File::options().write(true).open(&path).unwrap();
    if !is_ext4(&path) {
        return;
    }
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
    assert_some_ahead(&path);
    drop(reopen(&fixture).seal().unwrap());
    assert_none_ahead(&path);
}

#[test]
fn recovery_gives_back_what_a_crash_left_ahead() {
    let fixture = Fixture::on_disk();
    let (path, bytes, active) = grown(&fixture);
    drop(active);
    assert_some_ahead(&path);
    let scan = fixture.open(0).recover(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(scan.truncated_bytes(), 0);
    assert_none_ahead(&path);
    assert_eq!(fixture.bytes(LOG), bytes);
}

/// A cut to the length costs a call for nothing, and a sync after it.
#[test]
fn a_log_that_has_no_blocks_ahead_is_not_cut_when_it_is_sealed() {
    let cuts = Arc::new(Cuts::default());
    let io = Io::with_hook(Arc::<Cuts>::clone(&cuts));
    let fixture = Fixture::on_disk_with(&FilePool::with_io(100, io));
    let mut active = fixture.create(0, SegmentConfig::new());
    append(&mut active, &mut Vec::new());
    let before = cuts.0.load(Ordering::Relaxed);
    drop(active.seal().unwrap());
    let first = cuts.0.load(Ordering::Relaxed) - before;
    assert_eq!(first > 0, is_ext4(&fixture.path(LOG)));
    let before = cuts.0.load(Ordering::Relaxed);
    drop(reopen(&fixture).seal().unwrap());
    if is_ext4(&fixture.path(LOG)) {
        assert_eq!(cuts.0.load(Ordering::Relaxed), before);
    }
}

/// Counts cuts of the log.
#[derive(Default)]
struct Cuts(AtomicUsize);

impl IoHook for Cuts {
    fn before(&self, call: &IoCall<'_>) -> IoVerdict {
        if matches!(call, IoCall::SetLen { path, .. } if path.ends_with(LOG)) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        IoVerdict::Proceed
    }
}

fn reopen(fixture: &Fixture) -> ActiveSegment {
    ActiveSegment::open(&fixture.dir, Offset::new(0), SegmentConfig::new(), birth()).unwrap()
}

#[test]
fn a_cut_log_goes_on_with_blocks_ahead() {
    let fixture = Fixture::on_disk();
    let (path, mut bytes, mut active) = grown(&fixture);
    active.truncate_to(Offset::new(20), Timestamp::new(0)).unwrap();
    bytes.truncate(bytes.len() / 2);
    assert_none_ahead(&path);
    assert_eq!(fixture.bytes(LOG), bytes);
    append(&mut active, &mut bytes);
    assert_some_ahead(&path);
    assert_eq!(fixture.bytes(LOG), bytes);
}

#[test]
fn a_short_log_has_no_blocks_ahead() {
    let fixture = Fixture::on_disk();
    let mut active = fixture.create(0, SegmentConfig::new());
    for base in 0..9 {
        active.append(&batch_at(base, &[1000], 100_000)).unwrap();
    }
    assert_none_ahead(&fixture.path(LOG));
}
