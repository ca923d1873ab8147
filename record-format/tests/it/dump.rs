//! Prints records as Kafka's dump tool does, to compare with what it printed.

use alluvium_record_format::{
    Batch, ControlRecord, KRaftVoter, KRaftVoters, LeaderEpoch, Record, Sequence, Timestamp, Voter,
};

/// The lines of a batch.
pub(crate) fn batch_lines(batch: &Batch<'_>) -> Vec<String> {
    let header = batch.header();
    let attributes = header.attributes();
    let horizon = header
        .delete_horizon()
        .map_or("OptionalLong.empty".into(), |horizon| format!("OptionalLong[{horizon}]"));
    let mut lines = vec![format!(
        "baseOffset: {} lastOffset: {} count: {} baseSequence: {} lastSequence: {} producerId: {} \
         producerEpoch: {} partitionLeaderEpoch: {} isTransactional: {} isControl: {} \
         deleteHorizonMs: {horizon} position: {} {}: {} size: {} magic: 2 compresscodec: {} \
         crc: {} isvalid: {}",
        header.base_offset(),
        header.last_offset(),
        header.record_count(),
        header.base_sequence().map_or(-1, Sequence::get),
        header.last_sequence().map_or(-1, Sequence::get),
        header.producer_id_raw(),
        header.producer_epoch(),
        header.leader_epoch().map_or(-1, LeaderEpoch::get),
        attributes.is_transactional(),
        attributes.is_control(),
        batch.position(),
        attributes.timestamp_type().name(),
        header.max_timestamp().map_or(-1, Timestamp::get),
        header.size_bytes(),
        attributes.codec().unwrap(),
        header.crc(),
        batch.verify_crc().is_ok(),
    )];
    let mut buffer = Vec::new();
    let records = batch.inflate(1 << 20, &mut buffer).unwrap();
    lines.extend(records.map(|record| record_line(batch, &record.unwrap())));
    lines
}

fn record_line(batch: &Batch<'_>, record: &Record<'_>) -> String {
    let names: Vec<_> = record.headers().map(|header| header.key_str().unwrap()).collect();
    let mut line = format!(
        "| offset: {} {}: {} keySize: {} valueSize: {} sequence: {} headerKeys: [{}]",
        record.offset(),
        batch.header().attributes().timestamp_type().name(),
        record.timestamp().map_or(-1, Timestamp::get),
        size(record.key()),
        size(record.value()),
        batch.header().sequence_of(record.offset()).map_or(-1, Sequence::get),
        names.join(","),
    );
    if batch.header().attributes().is_control() {
        let control = ControlRecord::parse(record.key(), record.value()).unwrap();
        return line + " " + &control_text(&control);
    }
    line += &content(record.key(), record.value());
    line
}

/// Key and value of a data record.
pub(crate) fn content(key: Option<&[u8]>, value: Option<&[u8]>) -> String {
    let part = |name: &str, field: Option<&[u8]>| {
        field.map_or(String::new(), |bytes| format!(" {name}: {}", String::from_utf8_lossy(bytes)))
    };
    part("key", key) + &part("payload", value)
}

/// Bytes of a field, -1 for null.
pub(crate) fn size(field: Option<&[u8]>) -> i64 {
    field.map_or(-1, |bytes| i64::try_from(bytes.len()).unwrap())
}

fn control_text(record: &ControlRecord) -> String {
    match record {
        ControlRecord::EndTxn(marker) => {
            let (outcome, epoch) = (marker.outcome.name(), marker.coordinator_epoch);
            format!("endTxnMarker: {outcome} coordinatorEpoch: {epoch}")
        }
        ControlRecord::LeaderChange(change) => format!(
            r#"LeaderChange: {{"version":{},"leaderId":{},"voters":[{}],"grantingVoters":[{}]}}"#,
            change.version,
            change.leader_id,
            voters(&change.voters),
            voters(&change.granting_voters),
        ),
        ControlRecord::SnapshotHeader(header) => format!(
            r#"SnapshotHeader {{"version":{},"lastContainedLogTimestamp":{}}}"#,
            header.version, header.last_contained_log_timestamp,
        ),
        ControlRecord::SnapshotFooter(footer) => {
            format!(r#"SnapshotFooter {{"version":{}}}"#, footer.version)
        }
        ControlRecord::KRaftVersion(note) => format!(
            r#"KRaftVersion {{"version":{},"kRaftVersion":{}}}"#,
            note.version, note.kraft_version,
        ),
        ControlRecord::KRaftVoters(note) => kraft_voters(note),
        other => format!("controlType: UNKNOWN({})", other.type_id()),
    }
}

fn voters(voters: &[Voter]) -> String {
    let all: Vec<_> =
        voters.iter().map(|voter| format!(r#"{{"voterId":{}}}"#, voter.voter_id)).collect();
    all.join(",")
}

fn kraft_voters(note: &KRaftVoters) -> String {
    let all: Vec<_> = note.voters.iter().map(kraft_voter).collect();
    format!(r#"KRaftVoters {{"version":{},"voters":[{}]}}"#, note.version, all.join(","))
}

fn kraft_voter(voter: &KRaftVoter) -> String {
    let endpoints: Vec<_> = voter
        .endpoints
        .iter()
        .map(|e| format!(r#"{{"name":"{}","host":"{}","port":{}}}"#, e.name, e.host, e.port))
        .collect();
    format!(
        r#"{{"voterId":{},"voterDirectoryId":"{}","endpoints":[{}],"kRaftVersionFeature":{{"minSupportedVersion":{},"maxSupportedVersion":{}}}}}"#,
        voter.voter_id,
        voter.voter_directory_id,
        endpoints.join(","),
        voter.min_supported_version,
        voter.max_supported_version,
    )
}
