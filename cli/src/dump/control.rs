//! What the line of a control record says.

use alluvium_record_format::{
    ControlRecord, CorruptKind, KRaftVoter, KRaftVoters, LeaderChange, TxnOutcome, Voter,
};

use crate::console::Console;
use crate::text::push_json_string;

/// Prints the content of a control record, a space in front.
pub(super) fn print(
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    console: &mut Console,
) -> Result<(), CorruptKind> {
    match ControlRecord::parse(key, value)? {
        ControlRecord::EndTxn(marker) => {
            let outcome = if marker.outcome == TxnOutcome::Commit { "COMMIT" } else { "ABORT" };
            console.print(format_args!(
                " endTxnMarker: {outcome} coordinatorEpoch: {}",
                marker.coordinator_epoch
            ));
        }
        ControlRecord::LeaderChange(change) => leader_change(&change, console),
        ControlRecord::SnapshotHeader(header) => console.print(format_args!(
            " SnapshotHeader {{\"version\":{},\"lastContainedLogTimestamp\":{}}}",
            header.version, header.last_contained_log_timestamp
        )),
        ControlRecord::SnapshotFooter(footer) => {
            console.print(format_args!(" SnapshotFooter {{\"version\":{}}}", footer.version));
        }
        ControlRecord::KRaftVersion(version) => console.print(format_args!(
            " KRaftVersion {{\"version\":{},\"kRaftVersion\":{}}}",
            version.version, version.kraft_version
        )),
        ControlRecord::KRaftVoters(voters) => kraft_voters(&voters, console),
        other => {
            console.print(format_args!(" controlType: UNKNOWN({})", other.type_id()));
        }
    }
    Ok(())
}

fn leader_change(change: &LeaderChange, console: &mut Console) {
    let LeaderChange { version, leader_id, voters, granting_voters, .. } = change;
    console.print(format_args!(
        " LeaderChange: {{\"version\":{version},\"leaderId\":{leader_id},\"voters\":"
    ));
    list(voters, voter, console);
    console.print(format_args!(",\"grantingVoters\":"));
    list(granting_voters, voter, console);
    console.buffer().push(b'}');
}

fn voter(voter: &Voter, console: &mut Console) {
    console.print(format_args!("{{\"voterId\":{}", voter.voter_id));
    if let Some(id) = voter.voter_directory_id {
        console.print(format_args!(",\"voterDirectoryId\":\"{id}\""));
    }
    console.buffer().push(b'}');
}

fn kraft_voters(voters: &KRaftVoters, console: &mut Console) {
    console.print(format_args!(" KRaftVoters {{\"version\":{},\"voters\":", voters.version));
    list(&voters.voters, kraft_voter, console);
    console.buffer().push(b'}');
}

fn kraft_voter(voter: &KRaftVoter, console: &mut Console) {
    console.print(format_args!(
        "{{\"voterId\":{},\"voterDirectoryId\":\"{}\",\"endpoints\":",
        voter.voter_id, voter.voter_directory_id
    ));
    list(
        &voter.endpoints,
        |endpoint, console| {
            let out = console.buffer();
            out.extend_from_slice(b"{\"name\":");
            push_json_string(&endpoint.name, out);
            out.extend_from_slice(b",\"host\":");
            push_json_string(&endpoint.host, out);
            console.print(format_args!(",\"port\":{}}}", endpoint.port));
        },
        console,
    );
    console.print(format_args!(
        ",\"kRaftVersionFeature\":{{\"minSupportedVersion\":{},\"maxSupportedVersion\":{}}}}}",
        voter.min_supported_version, voter.max_supported_version
    ));
}

/// Prints a JSON array.
fn list<T>(items: &[T], print: impl Fn(&T, &mut Console), console: &mut Console) {
    console.buffer().push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            console.buffer().push(b',');
        }
        print(item, console);
    }
    console.buffer().push(b']');
}
