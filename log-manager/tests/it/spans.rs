//! What a subscriber of `tracing` sees.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use alluvium_record_format::Offset;
use alluvium_segment::IoCall;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::batches::{NOW, batch, l3, sequenced};
use crate::disk::{Disk, append, follow};

/// Writes down, for the thread that asks, every span with its fields when it closes, and every
/// event's fields. One for the process: while several come and go, `tracing` may take a place in
/// the code for one that nobody listens to.
#[derive(Default)]
struct Spans {
    next: AtomicU64,
}

#[derive(Default)]
struct Seen {
    open: Vec<(u64, String)>,
    lines: Vec<String>,
}

thread_local! {
    static SEEN: RefCell<Option<Seen>> = const { RefCell::new(None) };
}

/// Notes something where this thread asks for it.
fn note(work: impl FnOnce(&mut Seen)) {
    SEEN.with_borrow_mut(|seen| seen.as_mut().map(work));
}

struct Text<'a>(&'a mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        write!(self.0, " {}={value}", field.name()).unwrap();
    }
}

impl Subscriber for Spans {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut text = attributes.metadata().name().to_owned();
        attributes.record(&mut Text(&mut text));
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        note(|seen| seen.open.push((id, text)));
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        note(|seen| {
            let found = seen.open.iter_mut().find(|(id, _)| *id == span.into_u64()).unwrap();
            values.record(&mut Text(&mut found.1));
        });
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut Text(&mut text));
        note(|seen| seen.lines.push(text));
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}

    fn try_close(&self, span: Id) -> bool {
        note(|seen| {
            let index = seen.open.iter().position(|(id, _)| *id == span.into_u64()).unwrap();
            let (_, line) = seen.open.remove(index);
            seen.lines.push(line);
        });
        true
    }
}

/// What `work` lets a subscriber see, a line for each span and event.
fn seen(work: impl FnOnce()) -> Vec<String> {
    static SUBSCRIBER: Once = Once::new();
    SUBSCRIBER.call_once(|| tracing::subscriber::set_global_default(Spans::default()).unwrap());
    SEEN.set(Some(Seen::default()));
    work();
    let seen = SEEN.take().unwrap();
    assert_eq!(seen.open.len(), 0, "a span stays open");
    seen.lines
}

fn has(seen: &[String], parts: &[&str]) -> bool {
    seen.iter().any(|line| parts.iter().all(|part| line.contains(part)))
}

#[test]
fn roll_flush_retention_and_deletion_are_spans_with_log_offsets_and_bytes() {
    let disk = Disk::with(|config| config.retention_bytes(Some(0)));
    let log = disk.open_clean();
    let lines = seen(|| {
        follow(&log, &l3()[0]);
        log.roll().unwrap();
        follow(&log, &l3()[1]);
        disk.tasks.run_due();
        log.commit(Offset::new(6)).unwrap();
        log.update_high_watermark(Offset::new(6)).unwrap();
        log.delete_old_segments().unwrap();
        disk.clock.advance_ms(1000);
        disk.tasks.run_due();
        log.truncate_to(Offset::new(6)).unwrap();
        log.truncate_fully_and_start_at(Offset::new(9), None).unwrap();
    });
    let expected: [&[&str]; 6] = [
        &["roll ", "log=orders-0", "base=3"],
        &["flush ", "log=orders-0", "from=0", "to=3", "segments=1", "bytes=118"],
        &["commit ", "log=orders-0", "from=3", "to=6"],
        &["retention ", "log=orders-0", "segments=2", "bytes=236"],
        &["delete_files ", "log=orders-0", "segments=2", "bytes=236"],
        &["truncate ", "log=orders-0", "to=9"],
    ];
    for parts in expected {
        assert!(has(&lines, parts), "{parts:?} is missing in {lines:#?}");
    }
}

#[test]
fn recovery_is_a_span_and_keeps_the_phrases_that_operators_look_for() {
    let disk = Disk::new();
    let [first, second, _] = l3();
    disk.put(&[("00000000000000000000.log", &[&first[..], &second[..50]].concat())]);
    let lines = seen(|| drop(disk.open_unclean()));
    let expected: [&[&str]; 4] = [
        &["load_log ", "orders-0", "clean=false", "end=3", "cut_bytes=50"],
        &["recover_segment ", "base_offset=0", "kept_bytes=118"],
        &["Recovering unflushed segment"],
        &["Truncating segment"],
    ];
    for parts in expected {
        assert!(has(&lines, parts), "{parts:?} is missing in {lines:#?}");
    }
}

#[test]
fn the_failure_of_a_directory_is_a_span_once() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3()[0]);
    disk.faults.fail_once(std::io::ErrorKind::Other, |call| matches!(call, IoCall::Sync { .. }));
    let lines = seen(|| {
        log.flush(false).unwrap_err();
        log.flush(false).unwrap_err();
    });
    let failures = lines.iter().filter(|line| line.starts_with("dir_failure "));
    assert_eq!(failures.count(), 1, "{lines:#?}");
    assert!(has(&lines, &["log directory goes offline"]), "{lines:#?}");
}

/// FR-054: however many segments it keeps.
#[test]
fn a_record_from_the_future_is_warned_of_once_in_a_pass() {
    const FAR: i64 = 75 * 365 * 86_400_000;
    let disk = Disk::with(|config| {
        config.retention_ms(Some(1000)).message_timestamp_after_max_ms(FAR.unsigned_abs())
    });
    let log = disk.open_clean();
    for time in [NOW.get() + FAR, NOW.get() + FAR, NOW.get() - 1001] {
        append(&log, &batch(&[(None, time)]));
        log.roll().unwrap();
    }
    log.update_high_watermark(Offset::new(3)).unwrap();
    let lines = seen(|| assert_eq!(log.delete_old_segments().unwrap(), 0));
    let warnings = lines.iter().filter(|line| line.contains("a record from the future"));
    assert_eq!(warnings.count(), 1, "{lines:#?}");
}

/// FR-082: the rule is kept as Kafka has it, so that it is told where it costs a producer.
#[test]
fn a_start_that_forgets_producers_of_old_records_says_so_once() {
    let disk = Disk::new();
    let log = disk.open_clean();
    for producer in [7, 8, 9] {
        append(&log, &sequenced(producer, 0, &[1000]));
    }
    let closed = log.close().unwrap();
    drop(log);
    let lines = seen(|| drop(disk.options().after_close(&closed).open(disk.dir()).unwrap()));
    let told = lines.iter().filter(|line| line.contains("left out producers"));
    assert_eq!(told.collect::<Vec<_>>().len(), 1, "{lines:#?}");
    assert!(has(&lines, &["left out producers", "expired=3"]), "{lines:#?}");
}
