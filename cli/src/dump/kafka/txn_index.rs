//! `.txnindex` files: a line an aborted transaction.

use alluvium_record_format::Offset;
use alluvium_sparse_index::TransactionIndex;

use super::index::IndexDump;
use crate::error::CliError;

impl IndexDump<'_, '_> {
    /// Dumps a transaction index.
    pub(super) fn txn_index(&mut self) -> Result<(), CliError> {
        let base = self.base_offset()?.unwrap_or(Offset::new(0));
        let bytes = self.file.read_index()?;
        let index = TransactionIndex::new(base, &bytes);
        for txn in &index {
            match txn {
                Ok(txn) => self.console.print(format_args!(
                    "version: 0 producerId: {} firstOffset: {} lastOffset: {} \
                     lastStableOffset: {}\n",
                    txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset
                )),
                Err(corruption) => self.damage(corruption)?,
            }
            self.console.spill()?;
        }
        self.name_spare_bytes(index.spare_bytes())
    }
}
