//! Blocks on disk ahead of the writer: no byte and no length shows them.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use alluvium_record_format::{Offset, Timestamp};
use alluvium_segment::{ActiveSegment, SegmentConfig};

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

/// Bytes that a file takes on the disk beyond its length.
fn bytes_ahead(path: &Path) -> u64 {
    let metadata = fs::metadata(path).unwrap();
    (metadata.blocks() * 512).saturating_sub(metadata.len())
}

fn is_ext4(path: &Path) -> bool {
    rustix::fs::fstatfs(File::open(path).unwrap()).unwrap().f_type == 0xef53
}

/// A block at the end, and those of a tree of extents.
const FEW: u64 = 64 << 10;

#[test]
fn a_log_that_grows_has_blocks_ahead_and_a_sealed_one_has_none() {
    let fixture = Fixture::on_disk();
    let (path, mut bytes) = (fixture.path(LOG), Vec::new());
    let mut active = fixture.create(0, SegmentConfig::new());
    append(&mut active, &mut bytes);
    assert_eq!(bytes_ahead(&path) > FEW, is_ext4(&path));
    assert_eq!(fixture.bytes(LOG), bytes);
    drop(active.seal().unwrap());
    assert!(bytes_ahead(&path) <= FEW, "{}", bytes_ahead(&path));
    assert_eq!(fixture.bytes(LOG), bytes);
}

#[test]
fn a_log_without_a_writer_has_no_blocks_ahead() {
    let fixture = Fixture::on_disk();
    let (path, mut bytes) = (fixture.path(LOG), Vec::new());
    let mut active = fixture.create(0, SegmentConfig::new());
    append(&mut active, &mut bytes);
    drop(active);
    assert!(bytes_ahead(&path) <= FEW, "{}", bytes_ahead(&path));
    let mut active =
        ActiveSegment::open(&fixture.dir, Offset::new(0), SegmentConfig::new(), birth()).unwrap();
    append(&mut active, &mut bytes);
    assert_eq!(fixture.bytes(LOG), bytes);
}

#[test]
fn a_cut_log_goes_on_with_blocks_ahead() {
    let fixture = Fixture::on_disk();
    let (path, mut bytes) = (fixture.path(LOG), Vec::new());
    let mut active = fixture.create(0, SegmentConfig::new());
    append(&mut active, &mut bytes);
    active.truncate_to(Offset::new(20), Timestamp::new(0)).unwrap();
    bytes.truncate(bytes.len() / 2);
    assert!(bytes_ahead(&path) <= FEW, "{}", bytes_ahead(&path));
    assert_eq!(fixture.bytes(LOG), bytes);
    append(&mut active, &mut bytes);
    assert_eq!(bytes_ahead(&path) > FEW, is_ext4(&path));
    assert_eq!(fixture.bytes(LOG), bytes);
}

#[test]
fn a_short_log_has_no_blocks_ahead() {
    let fixture = Fixture::on_disk();
    let mut active = fixture.create(0, SegmentConfig::new());
    for base in 0..9 {
        active.append(&batch_at(base, &[1000], 100_000)).unwrap();
    }
    assert!(bytes_ahead(&fixture.path(LOG)) <= FEW);
}
