//! The views answer as Kafka's classes do, over sound, padded and senseless files.

use alluvium_record_format::{Offset, Position, Timestamp};
use alluvium_sparse_index::{OffsetIndex, TimeEntry, TimeIndex};

use crate::support::hex;

/// Answers of Kafka 4.4.0; see the README beside it.
const ANSWERS: &str = include_str!("../golden/4.4.0/answers/answers.txt");

/// An empty time index answers timestamp -1 at the base offset in Kafka.
fn shown(entry: Option<TimeEntry>, base: i64) -> [i64; 2] {
    entry.map_or([-1, base], |entry| [entry.timestamp.get(), entry.offset.get()])
}

#[test]
fn every_answer_is_kafkas() {
    let (mut base, mut offset_bytes, mut time_bytes) = (0, Vec::new(), Vec::new());
    let mut answers = 0;
    for line in ANSWERS.lines() {
        let mut words = line.split(' ');
        let kind = words.next().unwrap();
        if kind == "case" {
            base = words.next().unwrap().parse().unwrap();
            offset_bytes = hex(words.next().unwrap());
            time_bytes = hex(words.next().unwrap());
            continue;
        }
        let numbers: Vec<i64> = words.map(|word| word.parse().unwrap()).collect();
        let offsets = OffsetIndex::new(Offset::new(base), &offset_bytes);
        let times = TimeIndex::new(Offset::new(base), &time_bytes);
        let answer = match (kind, &numbers[..]) {
            ("last", _) => {
                let [timestamp, offset] = shown(times.last_entry(), base);
                vec![offsets.last_offset().get(), timestamp, offset]
            }
            ("o", [target, ..]) => {
                let entry = offsets.lookup(Offset::new(*target));
                vec![*target, entry.offset.get(), i64::from(entry.position.get().cast_signed())]
            }
            ("u", [position, size, _]) => {
                let at = Position::new(u32::try_from(*position).unwrap());
                let bound = offsets.upper_bound_offset(at, u32::try_from(*size).unwrap());
                vec![*position, *size, bound.map_or(-999, Offset::get)]
            }
            ("t", [target, ..]) => {
                let [timestamp, offset] = shown(times.lookup(Timestamp::new(*target)), base);
                vec![*target, timestamp, offset]
            }
            _ => panic!("unknown line {line}"),
        };
        assert_eq!(answer, numbers, "{line}, base {base}");
        answers += 1;
    }
    assert_eq!(answers, 60 * 37);
}
