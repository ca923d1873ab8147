//! The page cache after a cleaning. The files lie below the build directory: a file system in
//! memory lets no page go.

use std::fs;
use std::sync::Arc;

use alluvium_cleaner::{CleanError, CleanHost, Cleaner, CleanerConfig, Progress};
use alluvium_record_format::Position;
use alluvium_segment::page_cache::drop_pages;
use alluvium_segment::replace::Replacement;
use alluvium_segment::{Io, Segment};

use crate::support::{Fixture, batch, options};

/// Leaves the old files, and keeps the new segments.
#[derive(Default)]
struct Keep(Vec<Arc<Segment>>);

impl CleanHost for Keep {
    fn progress(&mut self, _progress: Progress) -> Result<(), CleanError> {
        Ok(())
    }

    fn replace(&mut self, mut replacement: Replacement) -> Result<(), CleanError> {
        replacement.to_swap().map_err(CleanError::segment)?;
        replacement.retire().map_err(CleanError::segment)?;
        self.0.extend(replacement.new_segments().iter().cloned());
        Ok(())
    }
}

const SEGMENTS: i64 = 3;
const BATCHES: i64 = 40;

/// Segments of half a MiB each, of which half the batches go, and the active one.
fn fill(fixture: &Fixture) -> Vec<Arc<Segment>> {
    let value = "v".repeat(12_000);
    let mut segments = Vec::new();
    for number in 0..SEGMENTS {
        let base = number * BATCHES;
        let batches = (base..base + BATCHES).map(|offset| {
            let key = if offset % 2 == 0 { "old".to_owned() } else { format!("k{offset}") };
            batch(offset, &[(&key, Some(&value))])
        });
        let segment = fixture.sealed(base, &batches.collect::<Vec<_>>());
        segment.flush().unwrap();
        drop_pages(&segment.log_file().unwrap(), &(0..segment.size_bytes().into())).unwrap();
        segments.push(segment);
    }
    segments.push(fixture.sealed(SEGMENTS * BATCHES, &[]));
    segments
}

fn resident(segment: &Segment) -> (u64, u64) {
    let found = segment.residency().unwrap();
    (found.resident_count(), found.page_count)
}

/// Cleans a log of which the first `cached` segments are in memory. The pages in memory and all
/// pages, of every old segment and of the new one.
fn clean(cached: usize) -> (Vec<(u64, u64)>, (u64, u64)) {
    let log_dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::create_dir(log_dir.path().join("t-0")).unwrap();
    let fixture = Fixture::at(log_dir.path(), Io::new());
    let segments = fill(&fixture);
    let old = &segments[..segments.len() - 1];
    for segment in &old[..cached] {
        let mut walker = segment.walk(Position::new(0)).unwrap();
        while walker.next_entry().unwrap().is_some() {}
    }
    for (index, segment) in old.iter().enumerate() {
        let (found, all) = resident(segment);
        assert_eq!(found, if index < cached { all } else { 0 }, "before the cleaning");
    }
    let mut host = Keep::default();
    let mut cleaner = Cleaner::new(CleanerConfig::new().map_bytes(1 << 16));
    let report =
        cleaner.clean(&segments, &options(0, SEGMENTS * BATCHES).segment_bytes(1 << 30), &mut host);
    let dropped = report.unwrap().counts;
    assert!(dropped.records_written < dropped.records_read);
    let [new] = &host.0[..] else { panic!("one new segment") };
    (old.iter().map(|segment| resident(segment)).collect(), resident(new))
}

#[test]
fn what_was_not_in_memory_is_not_there_afterwards_nor_is_what_came_of_it() {
    let (old, new) = clean(0);
    for (found, all) in old {
        // What says where the segment ends is looked up with a plain read.
        assert!(found <= all / 10, "{found} of {all} pages");
    }
    assert!(new.0 <= new.1 / 10, "{} of {} pages", new.0, new.1);
}

#[test]
fn what_was_in_memory_stays_there_and_so_does_what_came_of_it() {
    let (old, new) = clean(3);
    for (found, all) in old {
        assert_eq!(found, all);
    }
    assert_eq!(new.0, new.1);
}

#[test]
fn each_part_of_the_new_segment_goes_the_way_of_its_source() {
    let (old, new) = clean(1);
    assert_eq!(old[0].0, old[0].1);
    assert!(old[1].0 <= old[1].1 / 10);
    // A third of the records came from memory.
    assert!(new.0 >= new.1 / 5 && new.0 <= new.1 / 2, "{} of {} pages", new.0, new.1);
}
