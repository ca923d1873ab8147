//! Counts what the crate reports, on one thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// Counters by name and labels, as `name{label=value}`.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Counts {
    /// All names that were registered.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }

    pub(crate) fn of(&self, name: &str) -> u64 {
        let counts = self.0.lock().unwrap();
        counts.get(name).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<_> =
            key.labels().map(|label| format!("{{{}={}}}", label.key(), label.value())).collect();
        let name = format!("{}{}", key.name(), labels.concat());
        Counter::from_arc(Arc::clone(self.0.lock().unwrap().entry(name).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn every_counter_shows_before_it_counts() {
    let counts = Counts::default();
    metrics::with_local_recorder(&counts, alluvium_zerocopy_net::describe_metrics);
    let expected = [
        "net_bytes_copied_total",
        "net_bytes_inline_total",
        "net_bytes_zero_copy_total",
        "net_cold_reads_total",
        "net_fallbacks_total{reason=asked}",
        "net_fallbacks_total{reason=refused}",
        "net_fallbacks_total{reason=wrapped}",
        "net_truncated_total",
    ];
    assert_eq!(counts.names(), expected);
    assert!(expected.iter().all(|name| counts.of(name) == 0));
}
