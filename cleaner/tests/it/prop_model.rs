//! Random histories, cleaned again and again and stopped by crashes, against a map.

use alluvium_record_format::Codec;
use proptest::prelude::*;

use crate::model::{Model, Pass, Stop};
use crate::support::RETENTION;

#[derive(Clone, Debug)]
enum Step {
    /// Records in a batch of this codec: key, and a value or a tombstone.
    Batch(Codec, Vec<(u8, bool)>),
    /// More of the transaction of a producer.
    InTxn(i64, Codec, Vec<(u8, bool)>),
    /// Its end: committed, or aborted.
    End(i64, bool),
    Roll,
    /// A cleaning that ends.
    Clean(Pass),
    /// One that a crash stops, and the start that follows.
    Crash(Pass, Stop),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pairs = || prop::collection::vec((0_u8..8, prop::bool::weighted(0.8)), 1..6);
    let codec = || {
        let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
        prop::sample::select(codecs.to_vec())
    };
    let pass = || {
        let parts = (0..RETENTION, 1_usize..12, 0_usize..3);
        parts.prop_map(|(after_ms, map_keys, spared)| Pass { after_ms, map_keys, spared })
    };
    let stop =
        (0_usize..80, any::<bool>()).prop_map(|(changes, is_unclean)| Stop { changes, is_unclean });
    let step = prop_oneof![
        4 => (codec(), pairs()).prop_map(|(codec, pairs)| Step::Batch(codec, pairs)),
        2 => (0_i64..3, codec(), pairs()).prop_map(|(id, codec, it)| Step::InTxn(id, codec, it)),
        2 => (0_i64..3, any::<bool>()).prop_map(|(id, commits)| Step::End(id, commits)),
        3 => Just(Step::Roll),
        1 => pass().prop_map(Step::Clean),
        1 => (pass(), stop).prop_map(|(pass, stop)| Step::Crash(pass, stop)),
    ];
    prop::collection::vec(step, 1..48)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_last_committed_value_of_every_key_survives(steps in steps()) {
        let mut model = Model::new();
        for step in &steps {
            match step {
                Step::Batch(codec, pairs) => model.batch(*codec, pairs),
                Step::InTxn(id, codec, pairs) => model.in_transaction(*id, *codec, pairs),
                Step::End(id, commits) => model.end(*id, *commits),
                Step::Roll => model.roll(),
                Step::Clean(pass) => model.clean(*pass),
                Step::Crash(pass, stop) => model.crash(*pass, *stop),
            }
        }
        for id in 0..3 {
            model.end(id, true);
        }
        for _ in 0..3 {
            model.clean(Pass { after_ms: RETENTION, map_keys: 100, spared: 0 });
        }
    }
}

/// The second of two transactions is aborted first: its entry says nothing of the one that is still
/// open before it.
#[test]
fn an_abort_between_the_ends_of_another_transaction_decides_nothing_of_it() {
    for (commits, rolls) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut model = Model::new();
        model.batch(Codec::None, &[(0, true), (1, true), (2, true)]);
        model.in_transaction(0, Codec::None, &[(0, true)]);
        model.in_transaction(1, Codec::Zstd, &[(1, true)]);
        model.in_transaction(0, Codec::None, &[(2, true)]);
        model.end(1, false);
        if rolls {
            model.roll();
        }
        model.clean(Pass { after_ms: 1, map_keys: 100, spared: 0 });
        model.end(0, commits);
        for _ in 0..3 {
            model.clean(Pass { after_ms: RETENTION, map_keys: 100, spared: 0 });
        }
    }
}
