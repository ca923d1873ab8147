//! Batches to put into logs, built by `alluvium-record-format`.

use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, EndTxnMarker, LeaderEpoch, Offset, Position, ProducerEpoch,
    ProducerId, Sequence, SimpleRecord, Timestamp, TxnOutcome,
};
use alluvium_recovery::ProducerBatch;

/// A batch of numbered or plain records, described as far as the tests care.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestBatch {
    pub(crate) base_offset: i64,
    pub(crate) count: usize,
    pub(crate) epoch: i32,
    pub(crate) timestamp: i64,
    /// Producer id, producer epoch, first sequence.
    pub(crate) producer: Option<(i64, i16, i32)>,
    pub(crate) transactional: bool,
}

impl TestBatch {
    pub(crate) const fn new(base_offset: i64, count: usize) -> Self {
        Self { base_offset, count, epoch: 0, timestamp: 1000, producer: None, transactional: false }
    }

    pub(crate) const fn timestamp(self, timestamp: i64) -> Self {
        Self { timestamp, ..self }
    }

    pub(crate) const fn producer(self, id: i64, epoch: i16, sequence: i32) -> Self {
        Self { producer: Some((id, epoch, sequence)), ..self }
    }

    pub(crate) const fn transactional(self) -> Self {
        Self { transactional: true, ..self }
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        let mut settings = BatchSettings::new(Offset::new(self.base_offset))
            .leader_epoch(LeaderEpoch::new(self.epoch))
            .transactional(self.transactional);
        if let Some((id, epoch, sequence)) = self.producer {
            let sequence = Some(Sequence::new(sequence));
            settings = settings.producer(ProducerId::new(id), ProducerEpoch::new(epoch), sequence);
        }
        let mut builder = BatchBuilder::new(settings);
        for _ in 0..self.count {
            let record = SimpleRecord::new()
                .timestamp(Timestamp::new(self.timestamp))
                .key(b"key")
                .value(b"value");
            builder.append(&record).unwrap();
        }
        builder.finish().unwrap().to_vec()
    }

    pub(crate) fn facts(self) -> ProducerBatch {
        facts(&self.bytes())
    }
}

/// The bytes of a marker that ends a transaction.
pub(crate) fn marker(
    offset: i64,
    (id, epoch): (i64, i16),
    outcome: TxnOutcome,
    coordinator_epoch: i32,
) -> Vec<u8> {
    let (id, epoch) = (ProducerId::new(id), ProducerEpoch::new(epoch));
    let settings =
        BatchSettings::end_txn(Offset::new(offset), id, epoch).leader_epoch(LeaderEpoch::new(0));
    let mut builder = BatchBuilder::new(settings);
    let marker = EndTxnMarker::new(outcome, coordinator_epoch);
    builder.append_control(Some(Timestamp::new(2000)), &marker.into()).unwrap();
    builder.finish().unwrap().to_vec()
}

/// What producer state sees of a batch with a producer.
pub(crate) fn facts(bytes: &[u8]) -> ProducerBatch {
    let batch = Batch::parse(bytes, Position::new(0)).unwrap();
    ProducerBatch::read(&batch).unwrap().unwrap()
}
