//! A disk that fails in the middle of a start, and a start that is killed.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use alluvium_log_manager::{
    BrokerConfig, LogConfig, LogError, LogManager, ManagerError, NewLog, StartProgress,
};
use alluvium_record_format::Offset;
use alluvium_recovery::CleanShutdown;
use alluvium_segment::{Io, IoCall, IoVerdict};

use crate::batches::{NOW, batch};
use crate::cluster::{Cluster, t};
use crate::disk::append;

const EPOCHS: &str = "leader-epoch-checkpoint";
const MARKER: &str = ".kafka_cleanshutdown";

/// FR-059 (b): the disk is full when recovery writes down the epochs of the leaders.
#[test]
fn a_disk_that_is_full_during_recovery_goes_offline_alone_and_gets_no_marker() {
    let cluster = Cluster::new(3);
    let (manager, _) = cluster.start();
    for number in 0..3 {
        let log = manager.get_or_create(&t(number), &NewLog::new().is_new()).unwrap();
        append(&log, &batch(&[(None, NOW.get())]));
    }
    cluster.tasks.run_due();
    drop(manager);
    // The crash has cost the epochs.
    for name in ["d1/t-0", "d2/t-1", "d3/t-2"] {
        fs::remove_file(cluster.path(name).join(EPOCHS)).unwrap();
    }
    let d2 = cluster.path("d2");
    cluster.faults.set(move |call| match call {
        IoCall::Write { path, .. } if path.starts_with(&d2) && is_epochs(path) => {
            IoVerdict::Fail(io::Error::from(ErrorKind::StorageFull))
        }
        _ => IoVerdict::Proceed,
    });
    let (manager, _) = cluster.start();
    cluster.tasks.run_due();
    manager.tick();
    assert_eq!(manager.live_dirs(), [cluster.path("d1"), cluster.path("d3")]);
    assert!(manager.offline_dirs()[0].1.contains(EPOCHS), "{:?}", manager.offline_dirs());
    assert!(matches!(manager.log(&t(1)), Err(ManagerError::Offline { .. })));
    for number in [0, 2] {
        append(&manager.log(&t(number)).unwrap(), &batch(&[(None, NOW.get())]));
    }
    let stopped = manager.stop(None).unwrap();
    assert_eq!(
        stopped.dirs.iter().map(|dir| dir.is_clean).collect::<Vec<_>>(),
        [true, false, true]
    );
    for (name, is_marked) in [("d1", true), ("d2", false), ("d3", true)] {
        assert_eq!(cluster.list(name).contains(&MARKER.to_owned()), is_marked, "{name}");
    }
}

fn is_epochs(path: &std::path::Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(EPOCHS))
}

/// FR-059: nothing is left to serve from, and whoever runs the broker is told so, once.
#[test]
fn when_the_last_disk_has_failed_in_service_that_is_told_once() {
    let cluster = Cluster::new(2);
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let tell = move || {
        count.fetch_add(1, Ordering::Relaxed);
    };
    let (manager, _) = cluster.options().when_all_offline(tell).start().unwrap();
    let logs = [0, 1].map(|number| manager.get_or_create(&t(number), &NewLog::new().is_new()));
    for (log, expected) in logs.iter().zip([0, 1]) {
        assert_eq!(told.load(Ordering::Relaxed), 0);
        drop(log.as_ref().unwrap().dir_failed(LogError::NotDeletable));
        manager.tick();
        assert_eq!(told.load(Ordering::Relaxed), expected);
    }
    let refused = manager.get_or_create(&t(2), &NewLog::new().is_new()).unwrap_err();
    assert!(matches!(refused, ManagerError::AllOffline), "{refused:?}");
    manager.tick();
    assert_eq!(told.load(Ordering::Relaxed), 1);
}

/// Tells the process that is to be killed which directory to load.
const CHILD: &str = "ALLUVIUM_TEST_LOAD";

/// What that process says in the middle of loading.
const HALF: &str = "half of the logs are loaded";

const LOGS: i32 = 100;

/// FR-072, first input: SIGKILL in the middle of loading 100 logs. The test starts itself again as
/// the process that is killed.
#[test]
fn a_start_that_was_killed_half_way_counts_as_unclean() {
    if let Some(dir) = env::var_os(CHILD) {
        load_half(dir.into());
    }
    let root = tempfile::tempdir().unwrap();
    let dir = fs::canonicalize(root.path()).unwrap();
    let manager = LogManager::start(config(dir.clone())).unwrap();
    for number in 0..LOGS {
        let log = manager.get_or_create(&t(number), &NewLog::new().is_new()).unwrap();
        append(&log, &batch(&[(None, NOW.get())]));
    }
    assert!(manager.stop(None).unwrap().dirs[0].is_clean);
    drop(manager);
    assert!(CleanShutdown::read(&Io::new(), &dir).unwrap().is_some());

    let test = "one_bad_disk::a_start_that_was_killed_half_way_counts_as_unclean";
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, &dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(HALF)), "it ended before");
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());

    let (manager, report) = LogManager::options(config(dir)).start().unwrap();
    assert!(!report.dirs[0].was_clean);
    assert_eq!(report.dirs[0].loaded.len(), usize::try_from(LOGS).unwrap());
    assert!(report.dirs[0].loaded.iter().all(|(_, report)| report.recovered.len() == 1));
    for number in 0..LOGS {
        assert_eq!(manager.log(&t(number)).unwrap().log_end_offset(), Offset::new(1));
    }
}

/// Loads until half is done, says so, and waits to be killed.
fn load_half(dir: std::path::PathBuf) -> ! {
    let loaded = AtomicUsize::new(0);
    let on_progress = move |progress| {
        if matches!(progress, StartProgress::Loaded { .. })
            && loaded.fetch_add(1, Ordering::Relaxed) >= usize::try_from(LOGS).unwrap() / 2
        {
            let mut stdout = io::stdout();
            writeln!(stdout, "{HALF}").unwrap();
            loop {
                thread::park();
            }
        }
    };
    let _never = LogManager::options(config(dir)).on_progress(on_progress).start();
    unreachable!("the start goes on only when all logs are loaded");
}

fn config(dir: std::path::PathBuf) -> BrokerConfig {
    let defaults = LogConfig::builder().retention_ms(None).build().unwrap();
    BrokerConfig::builder().log_dirs(vec![dir]).log_defaults(defaults).build().unwrap()
}
