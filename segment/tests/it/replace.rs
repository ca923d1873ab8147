//! Segments that take the place of others, and crashes at every step on the way.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alluvium_record_format::{Offset, Timestamp};
use alluvium_segment::replace::{
    FileStep, ReplaceStep, Replacement, plan_leftovers, split_overflowed,
};
use alluvium_segment::{
    ActiveSegment, FileKind, Io, IoCall, IoHook, IoVerdict, Segment, SegmentError, SegmentFileName,
    Suffix,
};

use crate::support::{Fixture, batch, batch_at, birth, every_batch, moved, one, ranges, three};

/// What a loader does with a directory before it opens segments, and what it then finds.
fn load(fixture: &Fixture) -> Vec<(i64, Vec<(i64, i64)>)> {
    let names: Vec<_> =
        fixture.names().iter().filter_map(|name| SegmentFileName::parse(name)).collect();
    let swap_end = |base| {
        Segment::open_suffixed(&fixture.dir, base, Suffix::Swap, every_batch())?.next_offset()
    };
    for step in plan_leftovers::<SegmentError>(&names, swap_end).unwrap() {
        step.run(&fixture.dir).unwrap();
    }
    let bases: BTreeSet<_> = fixture
        .names()
        .iter()
        .filter_map(|name| SegmentFileName::parse(name))
        .filter(|name| name.kind == FileKind::Log && name.suffix == Suffix::None)
        .map(|name| name.offset.get())
        .collect();
    bases.into_iter().map(|base| (base, ranges(&fixture.open(base)))).collect()
}

/// Three segments of one batch each.
fn three_segments(fixture: &Fixture) -> Vec<Arc<Segment>> {
    let mut old = Vec::new();
    for (base, batch) in (0..).step_by(3).zip(three().chunks(118)) {
        let mut active = fixture.create(base, every_batch());
        active.append(batch).unwrap();
        old.push(active.seal().unwrap());
    }
    old
}

fn cleaned(fixture: &Fixture, base: i64, log: &[u8]) -> Arc<Segment> {
    let suffix = Suffix::Cleaned;
    let base = Offset::new(base);
    let mut active =
        ActiveSegment::create_suffixed(&fixture.dir, base, suffix, every_batch(), birth()).unwrap();
    active.append(log).unwrap();
    active.seal().unwrap()
}

fn replacement() -> (Fixture, Replacement) {
    let fixture = Fixture::new();
    let replacement = replacement_in(&fixture);
    (fixture, replacement)
}

/// Two new segments for the first two of three old ones.
fn replacement_in(fixture: &Fixture) -> Replacement {
    let old = three_segments(fixture);
    let new =
        vec![cleaned(fixture, 0, &batch(0, 3, 5000)), cleaned(fixture, 3, &batch(3, 3, 5000))];
    Replacement::new(&fixture.dir, new, old[..2].to_vec()).unwrap()
}

#[test]
fn new_segments_take_the_place_of_old_ones() {
    let (fixture, mut replacement) = replacement();
    replacement.to_swap().unwrap();
    replacement.retire().unwrap();
    for segment in replacement.new_segments() {
        let found = segment.max_timestamp().unwrap().unwrap();
        assert_eq!(found.timestamp, Timestamp::new(5000));
        assert!(segment.path(FileKind::Log).exists());
    }
    // Those who still read the old ones go on until the files are removed.
    assert_eq!(ranges(&replacement.old_segments()[1]), [(3, 5)]);
    for segment in replacement.old_segments() {
        segment.delete_files().unwrap();
    }
    drop(replacement);
    assert_eq!(fixture.names().len(), 9);
    assert_eq!(load(&fixture).len(), 3);
}

/// A crash after any rename: the old segments or the new ones, never a mixture or a loss.
#[test]
fn a_crash_after_any_step_leaves_all_old_or_all_new_segments() {
    let steps = replacement().1.steps().len();
    assert_eq!(steps, 8 + 2 + 8 + 1 + 8 + 1);
    let mut outcomes = Vec::new();
    for stop in 0..=steps {
        let (fixture, mut replacement) = replacement();
        replacement.run_to(stop).unwrap();
        drop(replacement);
        let found = load(&fixture);
        let expected = [(0, vec![(0, 2)]), (3, vec![(3, 5)]), (6, vec![(6, 8)])];
        assert_eq!(found, expected, "after {stop} steps");
        let is_new = [0, 3].map(|base| {
            let largest = fixture.open(base).max_timestamp().unwrap().unwrap();
            largest.timestamp == Timestamp::new(5000)
        });
        assert_eq!(is_new[0], is_new[1], "a mixture after {stop} steps");
        outcomes.push(is_new[0]);
        let rest = fixture.names();
        assert!(rest.iter().all(|name| !name.contains("swap") && !name.contains("cleaned")));
        assert_eq!(load(&fixture), expected, "a second start changes nothing");
    }
    // The last file on its way to `.swap` decides: step 7 of 8, as there is no `.txnindex`. A sync
    // of the directory comes after the first four.
    let turn = outcomes.iter().position(|is_new| *is_new).unwrap();
    assert_eq!(turn, 7 + 1);
    assert!(outcomes[turn..].iter().all(|is_new| *is_new));
}

/// Counts the syncs of directories.
#[derive(Default)]
struct DirSyncs(AtomicUsize);

impl DirSyncs {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl IoHook for DirSyncs {
    fn before(&self, call: &IoCall<'_>) -> IoVerdict {
        if let IoCall::SyncDir { .. } = call {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        IoVerdict::Proceed
    }
}

/// The sync of the final names waits for the disk, and the caller holds a lock.
#[test]
fn old_segments_retire_without_the_last_sync_and_are_done_with_it() {
    let syncs = Arc::new(DirSyncs::default());
    let fixture = Fixture::with_io(Io::with_hook(syncs.clone()));
    let mut replacement = replacement_in(&fixture);
    replacement.to_swap().unwrap();
    assert!(fixture.names().iter().any(|name| name.ends_with(".log.swap")));
    syncs.take();
    replacement.retire_unsynced().unwrap();
    assert_eq!(syncs.take(), 1, "of the old names");
    assert!(!fixture.names().iter().any(|name| name.contains(".swap")), "all are renamed");
    replacement.retire().unwrap();
    assert_eq!(syncs.take(), 1, "of the final names");
    replacement.retire().unwrap();
    assert_eq!(syncs.take(), 0, "nothing is left to do");
}

/// Found by `cargo xtask crash`: without a sync between them, the new names of old segments could
/// be durable before those of the segments that take their place, and then neither was there.
#[test]
fn no_rename_builds_on_one_that_may_not_be_durable() {
    let (_fixture, replacement) = replacement();
    let kinds = replacement.steps().into_iter().map(|step| match step {
        ReplaceStep::Rename { to, .. } => to.text(),
        ReplaceStep::SyncNames => "sync",
        _ => "other",
    });
    let mut kinds: Vec<_> = kinds.collect();
    kinds.dedup();
    let expected = [".swap", "sync", ".swap", "sync", ".deleted", "sync", "", "sync"];
    assert_eq!(kinds, expected);
}

/// FR-069: what old crashes left, in the three mixtures of the report and with an index alone.
#[test]
fn left_overs_of_a_crash_are_finished_or_undone() {
    let merged = &three()[..236];
    let put_originals = |fixture: &Fixture| {
        for (base, batch) in [0, 3, 6].into_iter().zip(three().chunks(118)) {
            fixture.put(&format!("{base:020}.log"), batch);
        }
    };
    let fixture = Fixture::new();
    put_originals(&fixture);
    fixture.put("00000000000000000000.log.swap", merged);
    fixture.put("00000000000000000060.log.deleted", b"x");
    fixture.put("00000000000000000003.snapshot", b"kept");
    let merged_ranges = [(0, vec![(0, 2), (3, 5)]), (6, vec![(6, 8)])];
    assert_eq!(load(&fixture), merged_ranges);
    assert!(!fixture.path("00000000000000000060.log.deleted").exists());
    assert_eq!(fixture.bytes("00000000000000000003.snapshot"), b"kept");

    let fixture = Fixture::new();
    fixture.put("00000000000000000000.log", &three());
    fixture.put("00000000000000000000.log.cleaned", merged);
    fixture.put("00000000000000000003.log.swap", &three()[118..236]);
    assert_eq!(load(&fixture), [(0, vec![(0, 2), (3, 5), (6, 8)])]);

    let fixture = Fixture::new();
    put_originals(&fixture);
    fixture.put("00000000000000000000.log.swap", merged);
    fixture.put("00000000000000000006.log.cleaned", &three()[236..]);
    assert_eq!(load(&fixture), merged_ranges);

    let fixture = Fixture::new();
    fixture.put("00000000000000000000.log", &three());
    fixture.put("00000000000000000000.index.swap", b"");
    fixture.put("00000000000000000000.timeindex.swap", b"");
    load(&fixture);
    let names = ["index", "log", "timeindex"].map(|end| format!("00000000000000000000.{end}"));
    assert_eq!(fixture.names(), names);
}

#[test]
fn the_plan_for_left_overs_asks_only_for_swaps_that_stay() {
    let name = |text: &str| SegmentFileName::parse(text).unwrap();
    let names = [
        name("00000000000000000007.log.swap"),
        name("00000000000000000005.log.cleaned"),
        name("00000000000000000001.log.swap"),
        name("00000000000000000001.log"),
        name("00000000000000000004.timeindex"),
        name("00000000000000000006.log"),
    ];
    let mut asked = Vec::new();
    let steps = plan_leftovers::<()>(&names, |base| {
        asked.push(base.get());
        Ok(Offset::new(6))
    });
    assert_eq!(asked, [1]);
    let expected = [
        FileStep::Remove(names[0]),
        FileStep::Remove(names[1]),
        FileStep::Remove(names[3]),
        FileStep::Remove(names[4]),
        FileStep::Restore(names[2]),
    ];
    assert_eq!(steps.unwrap(), expected);
}

const FAR: i64 = 2_147_483_648;

/// Offsets 0-2, then one and two beyond what one segment can hold.
fn overflowed(fixture: &Fixture) -> Arc<Segment> {
    let far = [moved(&one(), FAR), batch(FAR + 1, 2, 1000)].concat();
    fixture.put("00000000000000000000.log", &[&three()[..118], &far].concat());
    let segment = fixture.open(0);
    segment.set_modified(Timestamp::new(1_500_000_000_000)).unwrap();
    segment
}

/// FR-075: a segment whose offsets do not fit becomes two, whatever step a crash stops at.
#[test]
fn an_overflowed_segment_is_split_whatever_step_a_crash_stops_at() {
    let expected = [(0, vec![(0, 2)]), (FAR, vec![(FAR, FAR), (FAR + 1, FAR + 2)])];
    let split = |fixture: &Fixture, stop: usize| {
        let old = overflowed(fixture);
        let new = split_overflowed(&old, every_batch()).unwrap();
        let sizes: u32 = new.iter().map(|segment| segment.size_bytes()).sum();
        assert_eq!(sizes, old.size_bytes());
        for segment in &new {
            assert_eq!(segment.modified().unwrap(), Timestamp::new(1_500_000_000_000));
        }
        let mut replacement = Replacement::new(&fixture.dir, new, vec![old]).unwrap();
        let steps = replacement.steps().len();
        replacement.run_to(stop).unwrap();
        steps
    };
    let steps = split(&Fixture::new(), usize::MAX);
    for stop in 0..=steps {
        let fixture = Fixture::new();
        split(&fixture, stop);
        let found = load(&fixture);
        if found.len() == 1 {
            assert!(stop < 8 + 1, "the old segment after {stop} steps");
            let again = fixture.open(0);
            let new = split_overflowed(&again, every_batch()).unwrap();
            let mut replacement = Replacement::new(&fixture.dir, new, vec![again]).unwrap();
            replacement.to_swap().unwrap();
            replacement.retire().unwrap();
            drop(replacement);
        }
        assert_eq!(load(&fixture), expected, "after {stop} steps");
    }
}

/// A part is gathered up to a MiB at a time.
#[test]
fn a_part_that_takes_several_writes_is_whole() {
    let fixture = Fixture::new();
    let far: Vec<u8> = (FAR..FAR + 4).flat_map(|at| batch_at(at, &[1000], 400 * 1024)).collect();
    fixture.put("00000000000000000000.log", &[&three()[..118], &far].concat());
    let new = split_overflowed(&fixture.open(0), every_batch()).unwrap();
    assert!(fs::read(new[1].path(FileKind::Log)).unwrap() == far);
    assert_eq!(new[1].size_bytes() as usize, far.len());
}

/// FR-075: even the first batch does not fit; then the whole segment gets another name.
#[test]
fn a_segment_whose_first_batch_does_not_fit_is_renamed() {
    let fixture = Fixture::new();
    fixture.put("00000000000000000000.log", &moved(&one(), FAR));
    let old = fixture.open(0);
    let new = split_overflowed(&old, every_batch()).unwrap();
    let mut replacement = Replacement::new(&fixture.dir, new, vec![old]).unwrap();
    replacement.to_swap().unwrap();
    replacement.retire().unwrap();
    drop(replacement);
    assert_eq!(load(&fixture), [(FAR, vec![(FAR, FAR)])]);
}

#[test]
fn a_damaged_segment_is_not_split() {
    let fixture = Fixture::new();
    let mut log = [three()[..118].to_vec(), moved(&one(), FAR)].concat();
    log.pop();
    fixture.put("00000000000000000000.log", &log);
    let result = split_overflowed(&fixture.open(0), every_batch());
    assert!(matches!(result, Err(SegmentError::Corrupt { .. })));
    assert_eq!(fs::read(fixture.path("00000000000000000000.log")).unwrap(), log);
}

/// As Kafka does, which copies any magic.
#[test]
fn a_segment_of_an_old_format_is_split_byte_for_byte() {
    let fixture = Fixture::new();
    // Magic 0, without key and value.
    let message = |offset: i64| {
        let mut message = [0; 26];
        message[..8].copy_from_slice(&offset.to_be_bytes());
        message[11] = 14;
        message[18..].fill(0xff);
        message
    };
    let log = [message(0), message(FAR), message(FAR + 1)].concat();
    fs::write(fixture.dir.path().join("00000000000000000000.log"), &log).unwrap();
    let new = split_overflowed(&fixture.open(0), every_batch()).unwrap();
    let bases: Vec<i64> = new.iter().map(|segment| segment.base_offset().get()).collect();
    assert_eq!(bases, [0, FAR]);
    let parts = new.iter().map(|segment| fs::read(segment.path(FileKind::Log)).unwrap());
    assert_eq!(parts.collect::<Vec<_>>().concat(), log);
    assert_eq!(fs::read(new[1].path(FileKind::OffsetIndex)).unwrap(), [0, 0, 0, 1, 0, 0, 0, 26]);
}
