//! Which transactional batches were aborted, by the transaction indexes.

use std::collections::HashMap;

use alluvium_record_format::{BatchHeader, Offset, ProducerId};
use alluvium_sparse_index::{AbortedTxn, TransactionIndex};

use crate::console::Console;
use crate::error::CliError;
use crate::log_file::LogFile;
use crate::partition::Partition;

/// The aborted transactions of a partition. Batches are asked about in the order of offsets.
#[derive(Debug, Default)]
pub(crate) struct Aborted {
    /// By first offset.
    txns: Vec<AbortedTxn>,
    /// How many of them have begun.
    begun: usize,
    /// Up to which offset the last one of each producer reaches.
    open: HashMap<ProducerId, Offset>,
}

impl Aborted {
    /// Reads the transaction indexes. Damage in one is named, and its other entries are used.
    pub(crate) fn read(partition: &Partition, console: &mut Console) -> Result<Self, CliError> {
        let mut txns = Vec::new();
        for segment in &partition.segments {
            let Some(index) = &segment.txn_index else { continue };
            let bytes = LogFile::open(&index.path)?.read_index()?;
            for txn in &TransactionIndex::new(segment.base, &bytes) {
                match txn {
                    Ok(txn) => txns.push(txn),
                    Err(corruption) => console.corruption(&index.path, corruption)?,
                }
            }
        }
        txns.sort_by_key(|txn| txn.first_offset);
        Ok(Self { txns, begun: 0, open: HashMap::new() })
    }

    /// Whether the batch is part of an aborted transaction.
    ///
    /// Source: `CompletedFetch` in Kafka's consumer.
    pub(crate) fn contains(&mut self, header: &BatchHeader) -> bool {
        while let Some(txn) = self.txns.get(self.begun)
            && txn.first_offset <= header.last_offset()
        {
            self.open.insert(txn.producer_id, txn.last_offset);
            self.begun += 1;
        }
        let Some(producer_id) = header.producer_id() else { return false };
        header.attributes().is_transactional()
            && self.open.get(&producer_id).is_some_and(|last| header.base_offset() <= *last)
    }
}
