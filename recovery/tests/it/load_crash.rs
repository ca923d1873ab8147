//! A load that is stopped at any of its system calls, and run again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;

use alluvium_record_format::Offset;
use alluvium_recovery::{LoadConfig, LoadError, Progress, load};
use alluvium_segment::{Io, IoCall, IoHook, IoVerdict};

use crate::directory::Disk;
use crate::logs::{HEX_A, all_l3, at_offset, bytes, clean, epochs, l3, segments, unclean};

/// Lets so many changes through, then fails every call, as a process that is gone.
#[derive(Default)]
struct Crash(Mutex<State>);

#[derive(Default)]
struct State {
    /// Changes that go through; `None` for all.
    left: Option<usize>,
    changes: usize,
    /// Files with bytes that were not synced.
    unsynced: BTreeSet<PathBuf>,
}

impl Crash {
    fn after(&self, changes: Option<usize>) {
        *self.0.lock().unwrap() = State { left: changes, ..State::default() };
    }

    fn changes(&self) -> usize {
        self.0.lock().unwrap().changes
    }

    fn has_unsynced(&self) -> bool {
        !self.0.lock().unwrap().unsynced.is_empty()
    }

    /// A power loss: bytes that were not synced are zeros, or gone.
    fn lose_unsynced(&self, are_gone: bool) {
        for path in std::mem::take(&mut self.0.lock().unwrap().unsynced) {
            let Ok(metadata) = std::fs::metadata(&path) else { continue };
            let len = if are_gone { 0 } else { usize::try_from(metadata.len()).unwrap() };
            std::fs::write(path, vec![0; len]).unwrap();
        }
    }
}

impl IoHook for Crash {
    fn before(&self, call: &IoCall<'_>) -> IoVerdict {
        let mut state = self.0.lock().unwrap();
        let is_change = !matches!(call, IoCall::Read { .. } | IoCall::Open { create: false, .. });
        if state.left.is_some_and(|left| state.changes >= left && is_change) {
            return IoVerdict::Fail(std::io::Error::other("the process is gone"));
        }
        state.changes += usize::from(is_change);
        match call {
            IoCall::Write { path, .. } => drop(state.unsynced.insert(path.to_path_buf())),
            IoCall::Sync { path, .. } => drop(state.unsynced.remove(*path)),
            IoCall::Rename { from, to, .. } if state.unsynced.remove(*from) => {
                state.unsynced.insert(to.to_path_buf());
            }
            _ => {}
        }
        IoVerdict::Proceed
    }
}

/// What a load has made of a directory, left-overs of its own deletions aside.
type Outcome = (BTreeMap<String, Vec<u8>>, Vec<(i64, u32)>, [Offset; 3], Vec<(i32, i64)>);

fn finish(disk: &Disk, config: &LoadConfig) -> Outcome {
    let mut log = load(disk.dir(), config, &mut |_| ControlFlow::Continue(())).unwrap();
    log.epochs.flush(&Io::new(), &disk.path()).unwrap();
    let mut files = disk.files();
    files.retain(|name, _| !name.ends_with(".deleted"));
    let offsets = [log.log_start_offset, log.recovery_point, log.log_end_offset];
    (files, segments(&log), offsets, epochs(&log))
}

/// Crashes at each change of the load in turn, then loads again: the outcome must be that of a
/// load that nobody stopped. After a crash the stop was not clean, whatever it was before.
fn crash_everywhere(make: &dyn Fn(&Disk), config: &LoadConfig) {
    let disk = Disk::new();
    make(&disk);
    finish(&disk, config);
    let expected = finish(&disk, &config.clean_shutdown(false));
    for crash_at in 0.. {
        let (is_through, has_unsynced) = crash_once(make, config, crash_at, None, &expected);
        if has_unsynced {
            for are_gone in [true, false] {
                crash_once(make, config, crash_at, Some(are_gone), &expected);
            }
        }
        if is_through {
            assert!(crash_at > 0, "the load has nothing to do");
            break;
        }
    }
}

/// Returns whether the load came to its end, and whether a power loss would have cost bytes.
fn crash_once(
    make: &dyn Fn(&Disk),
    config: &LoadConfig,
    crash_at: usize,
    loss: Option<bool>,
    expected: &Outcome,
) -> (bool, bool) {
    let hook = Arc::new(Crash::default());
    let disk = Disk::with_io(Io::with_hook(Arc::clone(&hook) as Arc<dyn IoHook>));
    make(&disk);
    hook.after(Some(crash_at));
    let stopped = load(disk.dir(), config, &mut |_| ControlFlow::Continue(()));
    let is_through = stopped.is_ok();
    assert!(is_through || hook.changes() == crash_at);
    drop(stopped);
    let has_unsynced = hook.has_unsynced();
    if let Some(are_gone) = loss {
        hook.lose_unsynced(are_gone);
    }
    hook.after(None);
    let found = finish(&disk, &config.clean_shutdown(false));
    assert_eq!(found, *expected, "crash at change {crash_at}, loss {loss:?}");
    (is_through, has_unsynced)
}

#[test]
fn a_torn_tail() {
    crash_everywhere(&|disk| disk.segment_with_indexes(0, &all_l3()[..340]), &unclean());
    crash_everywhere(&|disk| disk.segment_with_indexes(0, &all_l3()[..340]), &clean(9));
}

#[test]
fn damage_in_the_middle() {
    let make = |disk: &Disk| {
        let mut damaged = all_l3();
        damaged[118 + 100] ^= 1;
        disk.segment_with_indexes(0, &damaged);
        disk.segment_with_indexes(9, &at_offset(l3(0), 9));
        disk.segment_with_indexes(12, &at_offset(l3(1), 12));
        disk.write("00000000000000000009.snapshot", &alluvium_recovery::encode_snapshot([]));
        disk.write("leader-epoch-checkpoint", b"0\n2\n0 0\n1 9\n");
    };
    crash_everywhere(&make, &unclean());
}

#[test]
fn an_interrupted_replacement() {
    let make = |disk: &Disk| {
        disk.segment_with_indexes(0, &l3(0));
        disk.segment_with_indexes(3, &l3(1));
        disk.segment_with_indexes(6, &l3(2));
        disk.write("00000000000000000000.log.swap", &[l3(0), l3(1)].concat());
        disk.write("00000000000000000000.index.swap", b"");
        disk.write("00000000000000000000.timeindex.swap", b"");
        disk.write("00000000000000000050.index", b"");
        disk.write("00000000000000000060.log.deleted", b"");
    };
    crash_everywhere(&make, &unclean());
    crash_everywhere(&make, &clean(9));
    let unfinished = |disk: &Disk| {
        make(disk);
        disk.write("00000000000000000000.log.cleaned", &l3(0));
        disk.write("00000000000000000006.log.swap", &l3(2));
    };
    crash_everywhere(&unfinished, &unclean());
    crash_everywhere(&unfinished, &clean(9));
}

/// FR-075.
#[test]
fn an_overflow() {
    const FAR: i64 = 2_147_483_648;
    let make = |disk: &Disk| {
        let far = at_offset(bytes(HEX_A), FAR);
        disk.segment_with_indexes(0, &[l3(0), far].concat());
        disk.segment_with_indexes(FAR + 1, &at_offset(l3(1), FAR + 1));
    };
    crash_everywhere(&make, &unclean());
    crash_everywhere(&make, &clean(FAR + 4));
}

/// FR-074.
#[test]
fn a_log_start_beyond_the_end() {
    let make = |disk: &Disk| {
        disk.segment_with_indexes(0, &l3(0));
        disk.segment_with_indexes(3, &l3(1));
        disk.write("leader-epoch-checkpoint", b"0\n1\n0 0\n");
    };
    crash_everywhere(&make, &unclean().log_start_offset(Offset::new(50)));
}

#[test]
fn a_missing_index_of_a_sealed_segment() {
    let make = |disk: &Disk| {
        disk.segment(0, &all_l3());
        disk.segment_with_indexes(9, &at_offset(l3(0), 9));
    };
    crash_everywhere(&make, &clean(12));
    crash_everywhere(&make, &unclean().recovery_point(Offset::new(9)));
}

#[test]
fn an_interrupted_load_says_so_and_can_be_run_again() {
    let disk = Disk::new();
    disk.segment_with_indexes(0, &all_l3()[..340]);
    disk.segment_with_indexes(9, &at_offset(l3(0), 9));
    let mut told = Vec::new();
    let error = load(disk.dir(), &unclean(), &mut |progress| {
        told.push(progress);
        let is_scanning = matches!(progress, Progress::Scanning { .. });
        if is_scanning { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(error, Err(LoadError::Interrupted { .. })), "{error:?}");
    assert!(matches!(told[0], Progress::Started { segments: 2, bytes: 458, .. }), "{told:?}");
    let log = load(disk.dir(), &unclean(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(log.log_end_offset.get(), 6);
}

/// FR-045: no call moves more than seven bytes, and every third is interrupted.
#[test]
fn short_and_interrupted_calls_make_no_difference() {
    struct Short(Mutex<u64>);
    impl IoHook for Short {
        fn before(&self, call: &IoCall<'_>) -> IoVerdict {
            if !matches!(call, IoCall::Read { .. } | IoCall::Write { .. }) {
                return IoVerdict::Proceed;
            }
            let mut count = self.0.lock().unwrap();
            *count += 1;
            if count.is_multiple_of(3) {
                IoVerdict::Fail(std::io::ErrorKind::Interrupted.into())
            } else {
                IoVerdict::Limit(7)
            }
        }
    }
    let make = |disk: &Disk| {
        disk.segment_with_indexes(0, &all_l3()[..340]);
        disk.write("leader-epoch-checkpoint", b"0\n1\n0 0\n");
    };
    let plain = Disk::new();
    make(&plain);
    let short = Disk::with_io(Io::with_hook(Arc::new(Short(Mutex::default()))));
    make(&short);
    let scan = alluvium_recovery::ScanConfig::new().threads(2).chunk_bytes(100);
    assert_eq!(finish(&short, &unclean().scan(scan)), finish(&plain, &unclean()));
}
