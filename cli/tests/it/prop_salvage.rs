//! Whatever is wrong with a log, what `salvage` makes of it is sound.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use proptest::prelude::*;
use serde_json::Value;

use crate::disk::{copy, scratch, three_batches};
use crate::process::run;

/// One change of the bytes of a file; places are parts of its length.
#[derive(Clone, Debug)]
enum Damage {
    Flip { at: f64, bit: u8 },
    Fill { at: f64, len: usize, byte: u8 },
    Copy { from: f64, to: f64, len: usize },
    Cut { at: f64 },
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = || 0.0..1.0;
    let byte = prop_oneof![Just(0_u8), Just(0xff), any::<u8>()];
    prop_oneof![
        6 => (place(), 0..8_u8).prop_map(|(at, bit)| Damage::Flip { at, bit }),
        2 => (place(), 1..200_usize, byte)
            .prop_map(|(at, len, byte)| Damage::Fill { at, len, byte }),
        2 => (place(), place(), 1..400_usize)
            .prop_map(|(from, to, len)| Damage::Copy { from, to, len }),
        1 => place().prop_map(|at| Damage::Cut { at }),
    ]
}

impl Damage {
    fn of(&self, bytes: &mut Vec<u8>) {
        let len = bytes.len();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a place in a small file"
        )]
        let place = |part: f64| ((len as f64 * part) as usize).min(len.saturating_sub(1));
        match *self {
            _ if bytes.is_empty() => {}
            Self::Flip { at, bit } => bytes[place(at)] ^= 1 << bit,
            Self::Fill { at, len: count, byte } => {
                let at = place(at);
                let end = (at + count).min(len);
                bytes[at..end].fill(byte);
            }
            Self::Copy { from, to, len: count } => {
                let (from, to) = (place(from), place(to));
                let count = count.min(len - from.max(to));
                bytes.copy_within(from..from + count, to);
            }
            Self::Cut { at } => bytes.truncate(place(at)),
        }
    }
}

/// Salvages `from`, then checks what came of it.
fn is_sound(dir: &Path, from: &str) -> Result<(), TestCaseError> {
    let saved = run(dir, &["salvage", "--json", from, "out/t-0"]);
    prop_assert!(matches!(saved.code, Some(0 | 1)), "{}", saved.stderr);
    let summary = alluvium::verify(&[dir.join("out/t-0")], NonZeroUsize::MIN);
    let verified = run(dir, &["verify", "out/t-0"]);
    prop_assert_eq!((summary.damage, verified.code), (0, Some(0)), "{}", verified.text());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_salvage_makes_of_any_damage_is_sound_to_verify(
        changes in proptest::collection::vec((0..2_usize, damage()), 1..6),
        topic in prop_oneof![Just("plain-0"), Just("transactions-0")],
    ) {
        let dir = copy("disk/clean");
        let logs = fs::read_dir(dir.path().join(topic)).unwrap().map(|entry| entry.unwrap().path());
        let mut logs: Vec<_> =
            logs.filter(|path| path.extension().is_some_and(|found| found == "log")).collect();
        logs.sort();
        for (index, change) in changes {
            let log = &logs[index % logs.len()];
            let mut bytes = fs::read(log).unwrap();
            change.of(&mut bytes);
            fs::write(log, bytes).unwrap();
        }
        is_sound(dir.path(), topic)?;
    }
}

/// What is done to one batch of 118 bytes.
#[derive(Clone, Debug)]
enum Harm {
    Flip { byte: usize, bit: u8 },
    Epoch { bit: u8 },
    Lose { byte: usize },
    Double { byte: usize },
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        2 => (8..12_usize, 0..8_u8).prop_map(|(byte, bit)| Harm::Flip { byte, bit }),
        4 => (16..118_usize, 0..8_u8).prop_map(|(byte, bit)| Harm::Flip { byte, bit }),
        2 => (0..32_u8).prop_map(|bit| Harm::Epoch { bit }),
        // Without its last byte, a zero, a batch takes the first one of the next.
        1 => (16..117_usize).prop_map(|byte| Harm::Lose { byte }),
        1 => (16..118_usize).prop_map(|byte| Harm::Double { byte }),
    ]
}

impl Harm {
    fn of(&self, batch: &mut Vec<u8>) {
        match *self {
            Self::Flip { byte, bit } => batch[byte] ^= 1 << bit,
            Self::Epoch { bit } => batch[15 - usize::from(bit / 8)] ^= 1 << (bit % 8),
            Self::Lose { byte } => drop(batch.remove(byte)),
            Self::Double { byte } => batch.insert(byte, batch[byte]),
        }
    }
}

/// The bytes of a batch without its leader epoch.
fn but_epoch(batch: &[u8]) -> (&[u8], &[u8]) {
    (&batch[..12], &batch[16..])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    #[test]
    fn batches_that_nothing_has_happened_to_are_all_kept(
        harms in proptest::collection::vec((0..12_usize, harm()), 0..5),
        raised in proptest::option::of((0..12_usize, 6..31_u8)),
        is_split in any::<bool>(),
    ) {
        let batch = |number: usize| {
            let mut batch = three_batches()[..118].to_vec();
            batch[7] = u8::try_from(3 * number).unwrap();
            batch
        };
        let whole: Vec<_> = (0..12).map(batch).collect();
        let mut log = whole.clone();
        if let Some((number, bit)) = raised {
            log[number][7 - usize::from(bit / 8)] ^= 1 << (bit % 8);
        }
        for (number, harm) in &harms {
            // Twice the same is none.
            if log[*number].len() == 118 {
                harm.of(&mut log[*number]);
            }
        }
        let (first, second) = log.split_at(if is_split { 6 } else { 12 });
        let mut files = vec![("t-0/00000000000000000000.log", first.concat())];
        if is_split {
            files.push(("t-0/00000000000000000018.log", second.concat()));
        }
        let files: Vec<_> = files.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
        let dir = scratch(&files);
        is_sound(dir.path(), "t-0")?;
        let kept = fs::read(dir.path().join("out").join(files[0].0)).unwrap();
        for (before, after) in whole.iter().zip(&log).filter(|(before, after)| before == after) {
            let is_kept = kept.windows(118).any(|part| but_epoch(part) == but_epoch(before));
            prop_assert!(is_kept, "offset {} of {}", before[7], after.len());
        }
    }
}

/// What no checksum covers: base offset and leader epoch. Five bits of each, in each of three
/// batches.
#[test]
fn a_flipped_offset_or_epoch_costs_its_batch_at_most() {
    for batch in 0..3 {
        // The last bits of an offset look like a gap.
        for (field, bits) in [(0, [1, 9, 30, 33, 62]), (12, [0, 1, 8, 16, 31])] {
            for bit in bits {
                let mut log = three_batches();
                let width = if field == 0 { 64 } else { 32 };
                let at: usize = (width - 1 - bit) / 8;
                log[batch * 118 + field + at] ^= 1 << (bit % 8);
                let dir = scratch(&[("t-0/00000000000000000000.log", &log)]);
                let saved = run(dir.path(), &["salvage", "--json", "t-0", "out/t-0"]);
                let last = saved.text().lines().last().unwrap_or_default();
                let summary = &serde_json::from_str::<Value>(last).unwrap()["summary"];
                let kept = summary["kept_batches"].as_u64().unwrap();
                let what = format!("batch {batch}, byte {field}, bit {bit}: {}", saved.text());
                assert!(kept >= 2, "{what}");
                assert_eq!(kept == 3, field == 12 || saved.code == Some(0), "{what}");
                let summary = alluvium::verify(&[dir.path().join("out/t-0")], NonZeroUsize::MIN);
                assert_eq!(summary.damage, 0, "{what}");
            }
        }
    }
}
