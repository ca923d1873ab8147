//! Keys: those of other parts of a broker, and the nearest known one to a misspelled one.

/// Topic keys of Kafka's that concern groups, replication and tiered storage.
pub(super) const OTHER: &[&str] = &[
    "errors.deadletterqueue.group.enable",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "min.insync.replicas",
    "remote.copy.lag.bytes",
    "remote.copy.lag.ms",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "unclean.leader.election.enable",
];

/// The key spelled most like `key`, if few letters differ.
pub(super) fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let near = known.iter().map(|&other| (distance(key, other), other)).min()?;
    (near.0 <= key.len() / 3).then_some(near.1)
}

/// Insertions, removals and changes of bytes that turn one text into the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut costs: Vec<usize> = (0..=other.len()).collect();
    for (row, a) in one.bytes().enumerate() {
        let mut diagonal = row;
        costs[0] = row + 1;
        for (column, b) in other.bytes().enumerate() {
            let change = diagonal + usize::from(a != b);
            diagonal = costs[column + 1];
            costs[column + 1] = change.min(diagonal + 1).min(costs[column] + 1);
        }
    }
    costs[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_key_finds_its_neighbour() {
        let known = ["segment.bytes", "segment.index.bytes", "retention.ms"];
        assert_eq!(nearest("segmentbytes", &known), Some("segment.bytes"));
        assert_eq!(nearest("retention.minutes", &known), Some("retention.ms"));
        assert_eq!(nearest("retentoin.ms", &known), Some("retention.ms"));
        assert_eq!(nearest("", &known), None);
        assert_eq!(nearest("colour", &known), None);
    }
}
