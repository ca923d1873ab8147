//! Any directory can be loaded: nothing panics, nothing hangs, and a second load finds order.

use std::ops::ControlFlow;

use alluvium_record_format::Offset;
use alluvium_recovery::{load, plan};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::batches::{TestBatch, marker};
use crate::directory::Disk;
use crate::logs::{all_l3, at_offset, clean, l3, unclean};

/// Bytes as they are found in the files of a log, mostly sound.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => (0_usize..3, 0_i64..20).prop_map(|(n, offset)| at_offset(l3(n), offset)),
        1 => Just(all_l3()),
        1 => (0_i64..4).prop_map(|n| {
            TestBatch::new(n, 2).producer(9, 0, 0).transactional().bytes()
        }),
        1 => (0_i64..9).prop_map(|offset| {
            marker(offset, (9, 0), alluvium_record_format::TxnOutcome::Abort, 0)
        }),
        1 => Just(at_offset(l3(0), 3_000_000_000)),
        1 => (select(&[0_i64, 7, 3_000_000_000, i64::MAX][..]), -2_i32..1).prop_map(|(base, delta)| {
            let mut batch = at_offset(l3(0), base);
            batch[23..27].copy_from_slice(&delta.to_be_bytes());
            batch
        }),
        1 => vec(any::<u8>(), 0..40),
        1 => (0_usize..40).prop_map(|len| vec![0; len]),
    ];
    vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

/// Names of a partition directory, segments close together.
fn name() -> impl Strategy<Value = String> {
    let kind = select(&[".log", ".log", ".index", ".timeindex", ".txnindex", ".snapshot"][..]);
    let suffix = select(&["", "", "", "", ".swap", ".cleaned", ".deleted", ".tmp"][..]);
    let base = select(&[0_i64, 3, 6, 9, 3_000_000_000, i64::MAX][..]);
    prop_oneof![
        12 => (base, kind, suffix).prop_map(|(base, kind, suffix)| format!("{base:020}{kind}{suffix}")),
        1 => Just("leader-epoch-checkpoint".to_owned()),
        1 => Just("5.log".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn any_directory_is_brought_into_order(
        files in vec((name(), content(), vec((any::<Index>(), any::<u8>()), 0..2)), 0..8),
        is_clean in any::<bool>(),
        recovery_point in 0_i64..15,
        log_start in prop_oneof![3 => Just(0_i64), 1 => 0_i64..15],
    ) {
        let disk = Disk::new();
        for (name, mut bytes, flips) in files {
            for (index, mask) in flips {
                if !bytes.is_empty() {
                    let at = index.index(bytes.len());
                    bytes[at] ^= mask;
                }
            }
            disk.write(&name, &bytes);
        }
        let config = if is_clean { clean(recovery_point) } else { unclean() };
        let config = config
            .recovery_point(Offset::new(recovery_point))
            .log_start_offset(Offset::new(log_start));
        let mut go_on = |_| ControlFlow::Continue(());
        let before = disk.files();
        let planned = plan(disk.dir(), &config, &mut go_on);
        prop_assert_eq!(disk.files(), before, "a plan changes nothing");
        let loaded = load(disk.dir(), &config, &mut go_on);
        prop_assert_eq!(planned.is_ok(), loaded.is_ok(), "{:?} {:?}", planned, loaded);
        let Ok(log) = loaded else { return Ok(()) };
        let planned = planned.unwrap();
        prop_assert_eq!(&planned.report().steps, &log.report.steps);
        prop_assert_eq!(planned.log_end_offset(), log.log_end_offset);
        prop_assert!(log.log_start_offset <= log.log_end_offset);
        prop_assert!(!log.segments.is_empty());

        let (start, end) = (log.log_start_offset, log.log_end_offset);
        drop(log);
        let again = load(disk.dir(), &config, &mut go_on).unwrap();
        prop_assert_eq!((again.log_start_offset, again.log_end_offset), (start, end));
    }
}
