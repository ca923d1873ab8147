//! Damage that a disk brings about while nobody looks.

use std::fs;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

use alluvium_log_manager::{LogManager, NewLog, ScrubDamage, ScrubDamageKind, ScrubTick, Scrubber};
use alluvium_record_format::Offset;

use crate::batches::{NOW, batch};
use crate::cluster::{Cluster, t};
use crate::disk::append;

/// Batches of each sealed segment.
const BATCHES: i64 = 20;

/// Where a batch has its checksum.
const CRC_AT: usize = 17;

/// Two partitions with two sealed segments and an active one each, an index entry for each batch.
fn two_logs(cluster: &Cluster) -> LogManager {
    let (manager, _) = cluster.start();
    for number in 0..2 {
        let log = manager.get_or_create(&t(number), &NewLog::new().is_new()).unwrap();
        log.set_config(log.config().to_builder().index_interval_bytes(1).build().unwrap());
        log.roll().unwrap();
        for count in 0..3 * BATCHES {
            if count > 0 && count % BATCHES == 0 {
                log.roll().unwrap();
            }
            append(&log, &batch(&[(Some(b"key"), NOW.get() + count)]));
        }
        log.update_high_watermark(log.log_end_offset()).unwrap();
    }
    cluster.clock.advance_ms(1000);
    cluster.tasks.run_due();
    manager
}

/// A scrubber, and what it has found.
fn scrubber(manager: &LogManager, rate: u64) -> (Scrubber, Arc<Mutex<Vec<String>>>) {
    let found = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&found);
    let note = move |damage: &ScrubDamage| {
        let file = damage.path.file_name().unwrap().to_string_lossy().into_owned();
        let kind = match &damage.kind {
            ScrubDamageKind::Batch(damage) => format!("batch at {}", damage.position()),
            ScrubDamageKind::OffsetEntry { entry, .. } => format!("offset entry {entry}"),
            ScrubDamageKind::TimeEntry { entry, .. } => format!("time entry {entry}"),
            other => format!("{other:?}"),
        };
        assert!(damage.to_string().contains(&file), "{damage}");
        told.lock().unwrap().push(format!("{} {file} {kind}", damage.partition));
    };
    (manager.scrubber(NonZeroU64::new(rate).unwrap()).on_damage(note), found)
}

fn sealed_bytes(manager: &LogManager) -> u64 {
    let of = |number| {
        let segments = manager.log(&t(number)).unwrap().segments();
        segments[..2].iter().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>()
    };
    of(0) + of(1)
}

/// Changes a byte of a file behind the back of the log.
fn flip(cluster: &Cluster, file: &str, at: usize) {
    let path = cluster.path("d1").join(file);
    let mut bytes = fs::read(&path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(&path, bytes).unwrap();
}

#[test]
fn sound_segments_are_read_once_and_the_active_one_is_not() {
    let cluster = Cluster::new(1);
    let manager = two_logs(&cluster);
    flip(&cluster, "t-0/00000000000000000040.log", 90);
    let (scrubber, found) = scrubber(&manager, 1);
    let tick = scrubber.scrub_all();
    assert_eq!((tick.bytes, tick.damages, tick.ended_pass), (sealed_bytes(&manager), 0, true));
    assert_eq!(*found.lock().unwrap(), [""; 0]);
}

#[test]
fn every_kind_of_damage_is_found_with_its_file_and_place() {
    let cluster = Cluster::new(1);
    drop(two_logs(&cluster));
    let size = fs::read(cluster.path("d1/t-0/00000000000000000000.log")).unwrap().len() / 20;
    // A value; the position of the third entry; the time of the fourth; a length.
    flip(&cluster, "t-0/00000000000000000000.log", 5 * size + size - 2);
    flip(&cluster, "t-0/00000000000000000020.index", 2 * 8 + 7);
    flip(&cluster, "t-1/00000000000000000000.timeindex", 3 * 12 + 7);
    flip(&cluster, "t-1/00000000000000000020.log", 7 * size + 10);
    // What counts as synced is not read by a start.
    fs::write(cluster.path("d1/recovery-point-offset-checkpoint"), "0\n2\nt 0 60\nt 1 60\n")
        .unwrap();
    let (manager, _) = cluster.start();
    let (scrubber, found) = scrubber(&manager, 1);
    let tick = scrubber.scrub_all();
    let expected = [
        format!("t-0 00000000000000000000.log batch at {}", 5 * size + CRC_AT),
        "t-0 00000000000000000020.index offset entry 2".to_owned(),
        "t-1 00000000000000000000.timeindex time entry 3".to_owned(),
        format!("t-1 00000000000000000020.log batch at {}", 7 * size),
    ];
    assert_eq!(*found.lock().unwrap(), expected);
    assert_eq!((tick.damages, tick.ended_pass), (4, true));
}

#[test]
fn ticks_read_as_much_as_the_time_allows_and_go_on_where_they_ended() {
    let cluster = Cluster::new(1);
    let manager = two_logs(&cluster);
    let (scrubber, _) = scrubber(&manager, 1000);
    assert_eq!(scrubber.tick(), ScrubTick::default(), "no time has passed yet");
    cluster.clock.advance_ms(500);
    let first = scrubber.tick();
    assert!((500..600).contains(&first.bytes), "{first:?}");
    assert_eq!(scrubber.tick().bytes, 0);
    let (mut bytes, mut seconds) = (first.bytes, 1);
    while seconds < 1000 {
        cluster.clock.advance_ms(1000);
        let tick = scrubber.tick();
        assert!(tick.bytes <= 1100, "{tick:?}");
        bytes += tick.bytes;
        seconds += 1;
        if tick.ended_pass {
            break;
        }
    }
    assert_eq!(bytes, sealed_bytes(&manager));
    assert!((bytes / 1000..=bytes / 900 + 1).contains(&seconds), "{bytes} bytes in {seconds} s");
    cluster.clock.advance_ms(1000);
    assert!(scrubber.tick().bytes > 0, "it begins again");
}

#[test]
fn a_segment_that_goes_in_the_middle_of_it_is_no_damage() {
    let cluster = Cluster::new(1);
    let manager = two_logs(&cluster);
    let (scrubber, found) = scrubber(&manager, 100);
    scrubber.tick();
    cluster.clock.advance_ms(1000);
    assert!(scrubber.tick().bytes > 0);
    let log = manager.log(&t(0)).unwrap();
    log.increment_log_start_offset(Offset::new(40)).unwrap();
    assert_eq!(log.delete_old_segments().unwrap(), 2);
    cluster.clock.advance_ms(100_000);
    cluster.tasks.run_due();
    manager.delete(&t(1)).unwrap();
    for _ in 0..100 {
        cluster.clock.advance_ms(1000);
        scrubber.tick();
    }
    assert_eq!(*found.lock().unwrap(), [""; 0]);
}
