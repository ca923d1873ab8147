//! Many segments under few descriptors.

use std::sync::Arc;
use std::thread;

use alluvium_record_format::Offset;
use alluvium_segment::{ActiveSegment, FilePool, Segment};

use crate::support::{Fixture, base_at, every_batch, moved, one};

fn open_logs(fixture: &Fixture) -> usize {
    let dir = fixture.dir.path();
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .filter(|target| target.starts_with(&dir))
        .count()
}

#[test]
fn segments_are_opened_without_a_descriptor_each() {
    let fixture = Fixture::with_pool(&FilePool::new(20));
    let segments: Vec<Arc<Segment>> = (0..1000)
        .map(|number| {
            fixture.put(&format!("{:020}.log", number * 10), &moved(&one(), number * 10));
            fixture.open(number * 10)
        })
        .collect();
    assert_eq!(open_logs(&fixture), 0, "nothing is open before it is read");
    for round in 0..2 {
        for segment in &segments {
            let base = segment.base_offset().get();
            assert_eq!(base_at(segment, base), Some(base), "round {round}");
        }
        assert!(open_logs(&fixture) <= 20, "{} are open", open_logs(&fixture));
    }
}

#[test]
fn active_segments_share_few_descriptors_too() {
    let fixture = Fixture::with_pool(&FilePool::new(5));
    let mut active: Vec<ActiveSegment> =
        (0..50).map(|number| fixture.create(number * 1000, every_batch())).collect();
    for round in 0..5 {
        for segment in &mut active {
            let next = segment.next_offset().get();
            segment.append(&moved(&one(), next)).unwrap();
        }
        assert!(open_logs(&fixture) <= 5, "{} are open in round {round}", open_logs(&fixture));
    }
    for segment in active {
        let base = segment.segment().base_offset().get();
        let sealed = segment.seal().unwrap();
        assert_eq!(sealed.next_offset().unwrap(), Offset::new(base + 5));
    }
}

#[test]
fn readers_find_their_files_while_the_pool_closes_them() {
    let fixture = Fixture::with_pool(&FilePool::new(2));
    let segments: Vec<Arc<Segment>> = (0..8)
        .map(|number| {
            let mut active = fixture.create(number * 10, every_batch());
            active.append(&moved(&one(), number * 10)).unwrap();
            active.seal().unwrap()
        })
        .collect();
    thread::scope(|scope| {
        for reader in 0..8 {
            let segments = &segments;
            scope.spawn(move || {
                for round in 0..500 {
                    let segment = &segments[(reader * 3 + round) % 8];
                    let base = segment.base_offset().get();
                    assert_eq!(base_at(segment, base), Some(base));
                }
            });
        }
    });
}

/// A segment gets another name while it is read: whoever has to open the file again finds it.
#[test]
fn a_reader_finds_a_renamed_file() {
    let fixture = Fixture::with_pool(&FilePool::new(1));
    fixture.put("00000000000000000000.log", &one());
    fixture.put("00000000000000000010.log", &moved(&one(), 10));
    let (first, second) = (fixture.open(0), fixture.open(10));
    let suffixes = [alluvium_segment::Suffix::Deleted, alluvium_segment::Suffix::None];
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for _ in 0..2000 {
                assert_eq!(base_at(&first, 0), Some(0));
                assert_eq!(base_at(&second, 10), Some(10));
            }
        });
        for suffix in suffixes.into_iter().cycle() {
            if reader.is_finished() {
                break;
            }
            first.rename(suffix).unwrap();
        }
    });
}
