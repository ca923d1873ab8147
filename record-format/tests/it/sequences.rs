//! Sequences wrap from the largest 32-bit number to 0.

use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, Offset, Position, ProducerEpoch, ProducerId, Sequence,
    SimpleRecord,
};

/// FR-081
#[test]
fn a_batch_may_straddle_the_wrap() {
    let first = 2_147_483_646;
    let settings = BatchSettings::new(Offset::new(10)).producer(
        ProducerId::new(9),
        ProducerEpoch::new(0),
        Some(Sequence::new(first)),
    );
    let mut builder = BatchBuilder::new(settings);
    for _ in 0..3 {
        builder.append(&SimpleRecord::new()).unwrap();
    }
    let batch = Batch::parse(builder.finish().unwrap(), Position::new(0)).unwrap();
    let header = batch.header();
    assert_eq!(header.last_sequence(), Some(Sequence::new(0)));
    let sequences: Vec<_> = batch
        .records()
        .unwrap()
        .map(|record| header.sequence_of(record.unwrap().offset()).unwrap().get())
        .collect();
    assert_eq!(sequences, [2_147_483_646, 2_147_483_647, 0]);
}

/// FR-081: a batch of 21 offsets.
#[test]
fn the_last_sequence_lies_as_far_from_the_first_as_the_offsets() {
    assert_eq!(Sequence::new(2_147_483_637).wrapping_add(20), Sequence::new(9));
    assert_eq!(Sequence::new(9).wrapping_add(1), Sequence::new(10));
}

#[test]
fn one_step_on_and_one_back_meet() {
    for raw in [0, 1, 77, i32::MAX - 1, i32::MAX] {
        let sequence = Sequence::new(raw);
        assert_eq!(sequence.wrapping_add(1).wrapping_sub(1), sequence);
        assert_eq!(sequence.wrapping_sub(5).wrapping_add(5), sequence);
    }
    assert_eq!(Sequence::new(i32::MAX).wrapping_add(1), Sequence::new(0));
    assert_eq!(Sequence::new(0).wrapping_sub(1), Sequence::new(i32::MAX));
    assert_eq!(Sequence::new(3).wrapping_add(i32::MAX), Sequence::new(2));
}

#[test]
fn a_batch_without_a_base_sequence_has_no_last_one() {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    builder.append(&SimpleRecord::new()).unwrap();
    let batch = Batch::parse(builder.finish().unwrap(), Position::new(0)).unwrap();
    assert_eq!(batch.header().last_sequence(), None);
    assert_eq!(batch.header().sequence_of(Offset::new(0)), None);
}
