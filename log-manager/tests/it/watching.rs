//! What metrics tell of logs.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::num::NonZeroU64;
use std::process::Command;
use std::sync::{Arc, Mutex};

use alluvium_log_manager::metrics::{
    BYTES_IN, BYTES_OUT, DAMAGES_FOUND, DISK_READ_BYTES, FLUSH_SECONDS, LOGS, LOGS_TO_LOAD,
    OFFLINE_DIRS, OFFLINE_LOGS, ROLLS, SCRUBBED_BYTES, SEGMENTS, SEGMENTS_DELETED, SIZE_BYTES,
    describe_metrics,
};
use alluvium_log_manager::{
    LogManager, ManagerError, ManualClock, NewLog, StartProgress, TaskQueue,
};
use alluvium_segment::{FilePool, Io, IoCall, IoVerdict};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use crate::batches::{NOW, batch};
use crate::cluster::{Cluster, t};
use crate::disk::{Faults, append, follow, read};

/// The last value of each metric by name; of a histogram, how many values it has.
#[derive(Clone, Default)]
struct Values(Arc<Mutex<BTreeMap<String, i64>>>);

impl Values {
    /// -1 where nothing is known.
    fn of(&self, name: &str) -> i64 {
        self.0.lock().unwrap().get(name).copied().unwrap_or(-1)
    }

    fn all<const N: usize>(&self, names: [&str; N]) -> [i64; N] {
        names.map(|name| self.of(name))
    }

    fn change(&self, name: &str, change: impl FnOnce(i64) -> i64) {
        let mut values = self.0.lock().unwrap();
        let value = values.entry(name.to_owned()).or_default();
        *value = change(*value);
    }
}

struct One(Values, String);

impl One {
    fn of(values: &Values, key: &Key) -> Arc<Self> {
        Arc::new(Self(values.clone(), key.name().to_owned()))
    }
}

impl CounterFn for One {
    fn increment(&self, value: u64) {
        self.0.change(&self.1, |sum| sum + i64::try_from(value).unwrap());
    }

    fn absolute(&self, value: u64) {
        self.0.change(&self.1, |_| i64::try_from(value).unwrap());
    }
}

impl GaugeFn for One {
    fn increment(&self, value: f64) {
        self.0.change(&self.1, |sum| sum + whole(value));
    }

    fn decrement(&self, value: f64) {
        self.0.change(&self.1, |sum| sum - whole(value));
    }

    fn set(&self, value: f64) {
        self.0.change(&self.1, |_| whole(value));
    }
}

impl HistogramFn for One {
    fn record(&self, value: f64) {
        assert!(value >= 0.0);
        self.0.change(&self.1, |count| count + 1);
    }
}

impl Recorder for Values {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(One::of(self, key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(One::of(self, key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(One::of(self, key))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "far below 2^53")]
fn whole(value: f64) -> i64 {
    assert_eq!(value.fract().abs().to_bits(), 0);
    value as i64
}

fn one() -> Vec<u8> {
    batch(&[(Some(b"key"), NOW.get())])
}

fn bytes(batches: i64) -> i64 {
    batches * i64::try_from(one().len()).unwrap()
}

#[test]
fn every_counter_shows_before_it_counts() {
    let values = Values::default();
    metrics::with_local_recorder(&values, describe_metrics);
    let shown: Vec<(String, i64)> = values.0.lock().unwrap().clone().into_iter().collect();
    let mut names = [
        BYTES_IN,
        BYTES_OUT,
        ROLLS,
        SEGMENTS_DELETED,
        SCRUBBED_BYTES,
        DAMAGES_FOUND,
        DISK_READ_BYTES,
    ];
    names.sort_unstable();
    assert_eq!(shown, names.map(|name| (name.to_owned(), 0)));
}

#[test]
fn counters_tell_what_was_appended_read_rolled_flushed_and_dropped() {
    let values = Values::default();
    metrics::with_local_recorder(&values, || {
        describe_metrics();
        let cluster = Cluster::new(1);
        let (manager, _) = cluster.start();
        let log = manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap();
        assert_eq!(values.all([BYTES_IN, BYTES_OUT, ROLLS]), [0; 3]);
        append(&log, &one());
        append(&log, &one());
        assert_eq!(values.all([BYTES_IN, BYTES_OUT]), [bytes(2), 0]);
        assert_eq!(read(&log, 1).unwrap().len(), 1);
        assert_eq!(values.all([BYTES_IN, BYTES_OUT]), [bytes(2), bytes(1)]);
        let copy = manager.get_or_create(&t(1), &NewLog::new().is_new()).unwrap();
        follow(&copy, &one());
        assert_eq!(values.of(BYTES_IN), bytes(3));

        log.roll().unwrap();
        assert_eq!(values.of(ROLLS), 1);
        cluster.tasks.run_due();
        append(&log, &one());
        let before = values.of(FLUSH_SECONDS);
        log.flush(false).unwrap();
        assert_eq!(values.of(FLUSH_SECONDS), before + 1);

        log.update_high_watermark(log.log_end_offset()).unwrap();
        assert_eq!(values.of(SEGMENTS_DELETED), 0);
        log.increment_log_start_offset(log.log_end_offset()).unwrap();
        assert_eq!(log.delete_old_segments().unwrap(), 1);
        assert_eq!(values.all([SEGMENTS_DELETED, ROLLS]), [1, 1]);
    });
}

#[test]
fn the_scrubber_counts_what_it_reads_and_each_damage() {
    let values = Values::default();
    metrics::with_local_recorder(&values, || {
        describe_metrics();
        let cluster = Cluster::new(1);
        let (manager, _) = cluster.start();
        let log = manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap();
        append(&log, &one());
        append(&log, &one());
        log.roll().unwrap();
        cluster.tasks.run_due();
        let scrubber = manager.scrubber(NonZeroU64::MIN);
        assert_eq!(scrubber.scrub_all().damages, 0);
        assert_eq!(values.all([SCRUBBED_BYTES, DAMAGES_FOUND]), [bytes(2), 0]);

        let path = cluster.path("d1/t-0/00000000000000000000.log");
        let mut damaged = fs::read(&path).unwrap();
        *damaged.last_mut().unwrap() ^= 1;
        fs::write(&path, damaged).unwrap();
        assert_eq!(scrubber.scrub_all().damages, 1);
        assert_eq!(values.all([SCRUBBED_BYTES, DAMAGES_FOUND]), [bytes(4), 1]);
    });
}

#[test]
fn a_tick_tells_what_there_is_and_what_is_out_of_service() {
    let values = Values::default();
    metrics::with_local_recorder(&values, || {
        let cluster = Cluster::new(2);
        let (manager, _) = cluster.start();
        let logs = [0, 1, 2].map(|number| {
            let log = manager.get_or_create(&t(number), &NewLog::new().is_new()).unwrap();
            append(&log, &one());
            log
        });
        logs[0].roll().unwrap();
        cluster.tasks.run_due();
        let before = from_disk();
        manager.tick();
        assert_eq!(values.all([LOGS, SEGMENTS, SIZE_BYTES]), [3, 4, bytes(3)]);
        assert_eq!(values.all([OFFLINE_DIRS, OFFLINE_LOGS]), [0, 0]);
        assert!((before..=from_disk()).contains(&values.of(DISK_READ_BYTES)));

        // The one log of the second disk.
        let lost = logs.iter().find(|log| log.dir().path().starts_with(cluster.path("d2")));
        append(lost.unwrap(), &one());
        fail_syncs(&cluster.faults);
        lost.unwrap().flush(false).unwrap_err();
        cluster.tasks.run_due();
        manager.tick();
        assert_eq!(values.all([OFFLINE_DIRS, OFFLINE_LOGS]), [1, 1]);
        assert_eq!(values.all([LOGS, SEGMENTS, SIZE_BYTES]), [2, 3, bytes(2)]);
    });
}

fn fail_syncs(faults: &Faults) {
    faults.set(|call| match call {
        IoCall::Sync { .. } => IoVerdict::Fail(io::Error::from(ErrorKind::Other)),
        _ => IoVerdict::Proceed,
    });
}

/// What the kernel counts for this process.
fn from_disk() -> i64 {
    let text = fs::read_to_string("/proc/self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: ")).unwrap();
    line.parse().unwrap()
}

/// Tells the process that is to watch a start.
const CHILD: &str = "ALLUVIUM_TEST_WATCH";

/// Logs are loaded by threads that know no recorder but that of the process: the test starts itself
/// again as a process that has one.
#[test]
fn nothing_is_left_to_load_after_a_start_even_if_a_disk_fails_in_it() {
    if env::var_os(CHILD).is_some() {
        return watch_a_start();
    }
    let test = "watching::nothing_is_left_to_load_after_a_start_even_if_a_disk_fails_in_it";
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}

fn watch_a_start() {
    let values = Values::default();
    metrics::set_global_recorder(values.clone()).unwrap();
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    for number in 0..3 {
        let log = manager.get_or_create(&t(number), &NewLog::new().is_new()).unwrap();
        append(&log, &one());
    }
    cluster.tasks.run_due();
    drop(manager);
    let (seen, started) = start(&cluster, &values);
    drop(started.unwrap());
    assert_eq!(seen, [2, 1, 0]);

    // The first log that is recovered cannot be cut: the others are not begun.
    for number in 0..3 {
        let log = cluster.path("d1").join(format!("t-{number}/00000000000000000000.log"));
        File::options().append(true).open(log).unwrap().write_all(b"torn").unwrap();
    }
    cluster.faults.set(|call| match call {
        IoCall::SetLen { path, .. } if path.extension().is_some_and(|it| it == "log") => {
            IoVerdict::Fail(io::Error::from(ErrorKind::Other))
        }
        _ => IoVerdict::Proceed,
    });
    let (seen, started) = start(&cluster, &values);
    assert!(matches!(started, Err(ManagerError::AllOffline)));
    assert_eq!(seen, [2]);
    assert_eq!(values.of(LOGS_TO_LOAD), 0);
}

/// Starts with one thread; also gives the gauge after each log.
fn start(cluster: &Cluster, values: &Values) -> (Vec<i64>, Result<LogManager, ManagerError>) {
    let config = cluster.config().to_builder().recovery_threads(1).build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (note, values) = (Arc::clone(&seen), values.clone());
    let started = LogManager::options(config)
        .clock(Arc::<ManualClock>::clone(&cluster.clock))
        .background(Arc::<TaskQueue>::clone(&cluster.tasks))
        .pool(FilePool::with_io(64, Io::with_hook(Arc::<Faults>::clone(&cluster.faults))))
        .on_progress(move |progress| {
            if let StartProgress::Loaded { .. } = progress {
                note.lock().unwrap().push(values.of(LOGS_TO_LOAD));
            }
        })
        .start();
    let seen = seen.lock().unwrap().clone();
    (seen, started.map(|(manager, _)| manager))
}
