//! What a transaction coordinator appended to a log between Kafka's recovery of it and its stop.

use alluvium_record_format::{
    Batch, ControlRecord, Decompressor, Entries, Entry, LeaderEpoch, Offset, Position,
};

/// The bytes of Kafka's file that follow ours, if a coordinator has appended them: ours stand
/// before them unchanged, and they are markers alone, of one record each, in a later leader epoch
/// than
/// `latest` and at the offsets from `end` on. Else nothing: then the files differ. Nothing either
/// where the first of them follows ours in the file as it was before both recoveries: Kafka's has
/// kept it, and ours has cut it off.
pub(super) fn appended<'k>(
    ours: &[u8],
    kafkas: &'k [u8],
    before: &[u8],
    latest: Option<LeaderEpoch>,
    end: Offset,
) -> &'k [u8] {
    let Some(later) = kafkas.strip_prefix(ours) else { return &[] };
    if before.strip_prefix(ours).is_some_and(|cut| begins_alike(later, cut)) {
        return &[];
    }
    let mut next = end;
    let mut entries = Entries::new(later, Position::new(0));
    let are_markers = entries.by_ref().all(|entry| match entry {
        Ok(Entry::Batch(batch)) if is_marker(&batch, latest, next) => {
            next = Offset::new(next.get() + 1);
            true
        }
        _ => false,
    });
    if are_markers { later } else { &[] }
}

/// Whether both begin with the same entry.
fn begins_alike(later: &[u8], cut: &[u8]) -> bool {
    let Some(Ok(Entry::Batch(first))) = Entries::new(later, Position::new(0)).next() else {
        return false;
    };
    cut.starts_with(first.bytes())
}

fn is_marker(batch: &Batch<'_>, latest: Option<LeaderEpoch>, at: Offset) -> bool {
    let header = batch.header();
    let is_later = header.leader_epoch().is_some_and(|epoch| Some(epoch) > latest);
    let is_one = header.record_count() == 1 && header.last_offset_delta() == 0;
    is_later
        && is_one
        && header.base_offset() == at
        && header.attributes().is_control()
        && batch.verify_crc().is_ok()
        && ends_a_transaction(batch)
}

fn ends_a_transaction(batch: &Batch<'_>) -> bool {
    let mut decompressor = Decompressor::default();
    let Ok(mut records) = decompressor.records(batch, 1 << 10) else { return false };
    let Some(Ok(record)) = records.next_record() else { return false };
    matches!(ControlRecord::parse(record.key(), record.value()), Ok(ControlRecord::EndTxn(_)))
}

#[cfg(test)]
mod tests {
    use alluvium_record_format::{
        BatchBuilder, BatchSettings, EndTxnMarker, ProducerEpoch, ProducerId, SimpleRecord,
        Timestamp, TxnOutcome,
    };

    use super::*;

    const OURS: &[u8] = b"what both recovered";

    /// A batch of one record at an offset, in this epoch.
    fn batch(offset: i64, epoch: i32, is_marker: bool) -> Vec<u8> {
        let (base, now) = (Offset::new(offset), Timestamp::new(1));
        let (id, term) = (ProducerId::new(1), ProducerEpoch::new(0));
        let settings = if is_marker {
            BatchSettings::end_txn(base, id, term)
        } else {
            BatchSettings::new(base)
        };
        let mut builder = BatchBuilder::new(settings.leader_epoch(LeaderEpoch::new(epoch)));
        if is_marker {
            let marker = EndTxnMarker::new(TxnOutcome::Abort, 0).into();
            builder.append_control(Some(now), &marker).unwrap();
        } else {
            builder.append(&SimpleRecord::new().timestamp(now)).unwrap();
        }
        builder.finish().unwrap().to_vec()
    }

    fn taken(kafkas: &[u8]) -> usize {
        taken_from(kafkas, OURS)
    }

    /// As [`taken`], where the file was like this before it was recovered.
    fn taken_from(kafkas: &[u8], before: &[u8]) -> usize {
        appended(OURS, kafkas, before, Some(LeaderEpoch::new(3)), Offset::new(7)).len()
    }

    #[test]
    fn markers_of_a_later_epoch_are_taken_behind_what_is_ours() {
        let (first, second) = (batch(7, 4, true), batch(8, 4, true));
        assert_eq!(taken(OURS), 0);
        assert_eq!(taken(&[OURS, &first].concat()), first.len());
        assert_eq!(taken(&[OURS, &first, &second].concat()), first.len() + second.len());
    }

    #[test]
    fn nothing_is_taken_behind_a_byte_that_differs() {
        let marker = batch(7, 4, true);
        for byte in 0..OURS.len() {
            let mut other = [OURS, &marker].concat();
            other[byte] ^= 1;
            assert_eq!(taken(&other), 0, "byte {byte}");
        }
        assert_eq!(taken(&[&OURS[1..], &marker].concat()), 0);
        assert_eq!(taken(&[OURS, OURS, &marker].concat()), 0);
    }

    #[test]
    fn nothing_is_taken_that_our_recovery_has_cut_off() {
        let (first, second) = (batch(7, 4, true), batch(8, 4, true));
        let kafkas = [OURS, &first, &second].concat();
        for cut in [&first[..], &kafkas[OURS.len()..], &[&first, &second[..20]].concat()] {
            assert_eq!(taken_from(&kafkas, &[OURS, cut].concat()), 0);
        }
        // A torn end, another batch, or another file is what Kafka's recovery cuts off too.
        let torn = [OURS, &first[..first.len() - 1]].concat();
        for before in [&torn, &[OURS, &second].concat(), &first, &Vec::new()] {
            assert_eq!(taken_from(&kafkas, before), first.len() + second.len());
        }
    }

    #[test]
    fn nothing_is_taken_that_no_coordinator_appends() {
        let marker = batch(7, 4, true);
        let mut flipped = marker.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let cut = &marker[..marker.len() - 1];
        for other in [&batch(7, 4, false), &batch(7, 3, true), &batch(9, 4, true), &flipped, cut] {
            assert_eq!(taken(&[OURS, other].concat()), 0);
            assert_eq!(taken(&[OURS, &marker, other].concat()), 0);
        }
    }
}
