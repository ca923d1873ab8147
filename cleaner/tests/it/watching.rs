//! What spans and metrics tell of cleanings.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};

use alluvium_cleaner::metrics::{
    BYTES_READ, CLEANINGS, DEAD_THREADS, FAILURES, MAX_DIRTY_PERCENT, RECOPY_PERCENT,
    RECORDS_DROPPED, SINCE_LAST_RUN_MS, UNCLEANABLE,
};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString,
    Unit,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

use crate::broker::Broker;

/// The last value of each metric, by name.
#[derive(Clone, Default)]
struct Values(Arc<Mutex<BTreeMap<String, f64>>>);

impl Values {
    fn of(&self, name: &str) -> f64 {
        self.0.lock().unwrap().get(name).copied().unwrap_or(f64::NAN)
    }

    fn change(&self, name: &str, change: impl FnOnce(f64) -> f64) {
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
        self.0.change(&self.1, |sum| sum + f64::from(u32::try_from(value).unwrap()));
    }

    fn absolute(&self, value: u64) {
        self.0.change(&self.1, |_| f64::from(u32::try_from(value).unwrap()));
    }
}

impl GaugeFn for One {
    fn increment(&self, value: f64) {
        self.0.change(&self.1, |sum| sum + value);
    }

    fn decrement(&self, value: f64) {
        self.0.change(&self.1, |sum| sum - value);
    }

    fn set(&self, value: f64) {
        self.0.change(&self.1, |_| value);
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

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn every_counter_shows_before_it_counts() {
    let values = Values::default();
    metrics::with_local_recorder(&values, alluvium_cleaner::metrics::describe_metrics);
    let shown: Vec<(String, f64)> = values.0.lock().unwrap().clone().into_iter().collect();
    let names = ["cleanings", "dropped_records", "failures", "read_bytes", "written_bytes"];
    assert_eq!(shown, names.map(|name| (format!("log_cleaner_{name}_total"), 0.0)));
}

#[test]
#[expect(clippy::float_cmp, reason = "whole numbers")]
fn metrics_tell_what_was_cleaned_and_what_was_not() {
    let values = Values::default();
    metrics::with_local_recorder(&values, || {
        let broker = Broker::new(1);
        broker.dirty(0, 4);
        let bad = broker.dirty(1, 2);
        let path = bad.dir().path().join("00000000000000000000.log");
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        while !broker.cleaner.tick().is_idle() {}
        assert_eq!((values.of(CLEANINGS), values.of(FAILURES)), (1.0, 1.0));
        assert_eq!((values.of(RECORDS_DROPPED), values.of(UNCLEANABLE)), (3.0, 1.0));
        assert_eq!(values.of(RECOPY_PERCENT), 25.0);
        assert!(values.of(BYTES_READ) > 0.0);
        broker.clock.advance_ms(500);
        broker.dirty(2, 2);
        broker.cleaner.tick();
        assert_eq!(values.of(MAX_DIRTY_PERCENT), 100.0);
        assert_eq!(values.of(SINCE_LAST_RUN_MS), 0.0);
        broker.clock.advance_ms(300);
        broker.cleaner.tick();
        assert_eq!(values.of(SINCE_LAST_RUN_MS), 300.0);
        assert_eq!(values.of(DEAD_THREADS), 0.0);
    });
}

/// Writes down, for the thread that asks, every span with its fields.
struct Spans(AtomicU64);

thread_local! {
    static SEEN: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

fn note(text: Text) {
    SEEN.with_borrow_mut(|seen| seen.as_mut().map(|seen| seen.push(text.0)));
}

impl Subscriber for Spans {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut text = Text(attributes.metadata().name().to_owned());
        attributes.record(&mut text);
        note(text);
        Id::from_u64(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        note(text);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_cleaning_is_a_span_with_its_log_and_range_and_ends_with_its_bytes() {
    static SUBSCRIBER: Once = Once::new();
    SUBSCRIBER.call_once(|| {
        tracing::subscriber::set_global_default(Spans(AtomicU64::new(1))).unwrap();
    });
    let broker = Broker::new(1);
    broker.dirty(0, 3);
    SEEN.set(Some(Vec::new()));
    broker.cleaner.tick();
    let seen = SEEN.take().unwrap();
    let span = "clean partition=t-0 first_dirty=0 first_uncleanable=3 dirty_ratio=1.0";
    assert!(seen.iter().any(|line| line == span), "{seen:?}");
    let is_end = |line: &&String| line.contains("cleaned") && line.contains("next_dirty=3");
    let end = seen.iter().find(is_end).unwrap();
    assert!(end.contains("bytes_read=") && end.contains("bytes_written="), "{end}");
}
