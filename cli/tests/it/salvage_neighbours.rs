//! `alluvium salvage`: what the neighbours of a batch may decide about it, and which do.

use serde_json::Value;

use crate::disk::{scratch, three_batches};
use crate::process::run;

/// Salvages segments, by their bases, into a sound copy; the reasons of losses, and the summary.
fn salvaged(segments: &[(i64, &[u8])]) -> (Vec<String>, Value) {
    let names: Vec<_> = segments.iter().map(|(base, _)| format!("t-0/{base:020}.log")).collect();
    let files: Vec<(&str, &[u8])> =
        names.iter().zip(segments).map(|(name, (_, bytes))| (name.as_str(), *bytes)).collect();
    let dir = scratch(&files);
    let saved = run(dir.path(), &["salvage", "--json", "t-0", "out/t-0"]);
    assert_eq!(saved.stderr, "");
    let mut lines: Vec<Value> =
        saved.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = lines.pop().unwrap()["summary"].take();
    let changed = summary["lost"].as_u64().unwrap() + summary["mended"].as_u64().unwrap();
    assert_eq!(saved.code, Some(i32::from(changed > 0)), "{}", saved.text());
    assert_eq!(run(dir.path(), &["verify", "out/t-0"]).code, Some(0), "{}", saved.text());
    let reasons = lines.iter().filter_map(|line| Some(line["reason"].as_str()?.to_owned()));
    (reasons.collect(), summary)
}

/// The batches at 0, 3 and 6, in leader epochs 0, 0 and 1.
fn batches() -> [Vec<u8>; 3] {
    let log = three_batches();
    [log[..118].to_vec(), log[118..236].to_vec(), log[236..].to_vec()]
}

/// The batch at 3 as if it lay at another offset, with a wrong checksum.
fn broken(base: u8) -> Vec<u8> {
    let [_, mut batch, _] = batches();
    batch[7] = base;
    batch[100] ^= 1;
    batch
}

#[test]
fn an_offset_of_a_broken_batch_costs_no_sound_one() {
    let [first, _, last] = batches();
    let (reasons, summary) = salvaged(&[(0, &[first, last, broken(3)].concat())]);
    assert_eq!(summary["kept_batches"], 2, "{reasons:?}");
    assert!(reasons.len() == 1 && reasons[0].contains("checksum"), "{reasons:?}");
}

#[test]
fn an_epoch_of_a_broken_batch_changes_no_sound_one() {
    let [first, _, last] = batches();
    let (one, behind) = ([first, last].concat(), broken(9));
    for segments in [&[(0, &[&one[..], &behind].concat()[..])][..], &[(0, &one), (9, &behind)]] {
        let (reasons, summary) = salvaged(segments);
        assert_eq!((&summary["kept_batches"], &summary["mended"]), (&2.into(), &0.into()));
        assert_eq!(reasons.len(), 1, "{reasons:?}");
    }
}

/// Behind a broken batch the next sound one tells where a base offset jumps over it.
#[test]
fn a_jump_over_a_broken_batch_to_behind_a_sound_one_is_found() {
    let [mut first, _, last] = batches();
    first[6] = 1;
    let (reasons, summary) = salvaged(&[(0, &[first, broken(3), last].concat())]);
    assert_eq!(summary["kept_batches"], 1, "{reasons:?}");
    assert_eq!(reasons[0], "offsets 256 to 258 do not fit in between their neighbours");
}

#[test]
fn a_batch_that_reaches_into_the_next_segment_costs_none_of_it() {
    let [first, second, third] = batches();
    for base in [4, 5, 6, 7, 11, 67, 131] {
        let mut moved = second.clone();
        moved[7] = base;
        let segment = [&first[..], &moved].concat();
        let (reasons, summary) = salvaged(&[(0, &segment), (6, &third)]);
        assert_eq!((&summary["kept_batches"], &summary["end"]), (&2.into(), &9.into()), "{base}");
        let outside = format!("offsets {base} to {} lie outside of the segment", base + 2);
        assert_eq!(reasons, [outside]);
    }
}

#[test]
fn the_next_segment_bounds_a_batch_where_nothing_in_it_is_sound() {
    let [first, mut second, _] = batches();
    second[7] = 11;
    let segment = [&first[..], &second].concat();
    for next in [&broken(6)[..], &[]] {
        let (reasons, summary) = salvaged(&[(0, &segment), (6, next)]);
        assert_eq!((&summary["kept_batches"], &summary["end"]), (&1.into(), &3.into()));
        assert_eq!(reasons[0], "offsets 11 to 13 lie outside of the segment");
    }
}

/// Batches at 0, 3, 6 and so on, in leader epoch 0.
fn many(count: u8) -> Vec<Vec<u8>> {
    let batch = |number| {
        let [mut batch, ..] = batches();
        batch[7] = 3 * number;
        batch
    };
    (0..count).map(batch).collect()
}

#[test]
fn a_length_that_reaches_into_others_costs_its_own_batch() {
    for length in [107, 105, 150, 300, 118 + 106, 2 * 118 + 106] {
        let mut log = many(10);
        log[3][8..12].copy_from_slice(&i32::to_be_bytes(length));
        let (reasons, summary) = salvaged(&[(0, &log.concat())]);
        assert_eq!(summary["kept_batches"], 9, "{length}: {reasons:?}");
    }
    let mut log = many(10);
    log[3].remove(70);
    let (reasons, summary) = salvaged(&[(0, &log.concat())]);
    assert_eq!((&summary["kept_batches"], reasons.len()), (&9.into(), 1), "{reasons:?}");
}

#[test]
fn two_wrong_epochs_in_a_row_become_those_around_them() {
    for (epochs, mended) in [([7, 7], 2), ([7, 9], 2), ([9, 7], 2), ([7, -1], 1)] {
        let mut log = many(10);
        for (batch, epoch) in log[4..].iter_mut().zip(epochs) {
            batch[12..16].copy_from_slice(&i32::to_be_bytes(epoch));
        }
        let (reasons, summary) = salvaged(&[(0, &log.concat())]);
        assert_eq!((&summary["kept_batches"], &summary["mended"]), (&10.into(), &mended.into()));
        assert!(reasons.is_empty(), "{epochs:?}: {reasons:?}");
    }
}

/// The first segment ends in an epoch that the second one does not reach.
#[test]
fn an_epoch_that_falls_costs_no_batch() {
    let mut log = many(10);
    for (batch, epoch) in log.iter_mut().zip([0, 0, 0, 7, 7, 5, 6, 6, 6, 6]) {
        batch[15] = epoch;
    }
    let (reasons, summary) = salvaged(&[(0, &log[..5].concat()), (15, &log[5..].concat())]);
    assert_eq!((&summary["kept_batches"], reasons.len()), (&10.into(), 0), "{reasons:?}");
}

#[test]
fn two_raised_offsets_cost_their_own_batches() {
    let mut log = many(10);
    (log[3][7], log[4][7]) = (60, 63);
    let (reasons, summary) = salvaged(&[(0, &log.concat())]);
    assert_eq!((&summary["kept_batches"], reasons.len()), (&8.into(), 2), "{reasons:?}");
    assert_eq!(summary["end"], 30);
}

#[test]
fn a_stray_batch_costs_none_around_it() {
    let [first, .., stray] = batches();
    let log = many(10);
    let behind = [&log[5][..], &stray, &log[6..].concat()].concat();
    let (reasons, summary) = salvaged(&[(0, &first), (15, &behind)]);
    assert_eq!((&summary["kept_batches"], reasons.len()), (&6.into(), 1), "{reasons:?}");
}
