//! Transactions: what they leave, and for how long.

use alluvium_record_format::TxnOutcome::{Abort, Commit};

use crate::support::{
    Fixture, NOW, RETENTION, aborted, batch, marker, offsets, options_at, transactional,
};

#[test]
fn aborted_data_goes_first_then_its_index_entry_then_its_marker() {
    let fixture = Fixture::new();
    let first = fixture.sealed(
        0,
        &[
            transactional(0, 5, &[("a", Some("no"))]),
            marker(1, 5, Abort),
            batch(2, &[("b", Some("yes"))]),
        ],
    );
    first.append_aborted(aborted(5, 0, 1, 2)).unwrap();
    drop(first);
    fixture.sealed(3, &[]);
    let pass = |now| {
        fixture.clean(&options_at(0, 3, now)).unwrap();
        let in_index: usize = fixture.segments().iter().map(|it| it.aborted().unwrap().len()).sum();
        (offsets(&fixture.records()), in_index)
    };
    assert_eq!(pass(NOW), (vec![1, 2], 1));
    // The marker gets its horizon in the first pass that finds nothing to abort.
    assert_eq!(pass(NOW + 1), (vec![1, 2], 0));
    assert_eq!(pass(NOW + RETENTION), (vec![1, 2], 0));
    assert_eq!(pass(NOW + 1 + RETENTION), (vec![2], 0));
}

#[test]
fn a_commit_marker_outlives_the_data_that_it_commits() {
    let fixture = Fixture::new();
    fixture.sealed(0, &[transactional(0, 5, &[("a", Some("1"))]), marker(1, 5, Commit)]);
    fixture.sealed(2, &[batch(2, &[("a", Some("2"))])]);
    fixture.sealed(3, &[]);
    let pass = |now| {
        fixture.clean(&options_at(0, 3, now)).unwrap();
        offsets(&fixture.records())
    };
    assert_eq!(pass(NOW), [1, 2], "its data is still seen, and goes");
    assert_eq!(pass(NOW), [1, 2], "gets a horizon");
    assert_eq!(pass(NOW + RETENTION), [2]);
}
