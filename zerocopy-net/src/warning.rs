//! The warning that zero copy is lost: it names the reason, and comes at most once a minute for
//! each kind of reason.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

use crate::path::CopyReason;

/// The least time between two warnings of one kind.
const INTERVAL: Duration = Duration::from_mins(1);

static WARNED: LazyLock<[Mutex<Limit>; 2]> = LazyLock::new(Default::default);

/// Warns of a socket that lost zero copy, for one file or for good, unless that was said a moment
/// ago.
pub(crate) fn zero_copy_lost(reason: CopyReason) {
    let kind = match reason {
        CopyReason::Asked => return,
        CopyReason::Wrapped => 0,
        CopyReason::Refused(_) => 1,
    };
    let now = Instant::now();
    let due = WARNED[kind].lock().unwrap_or_else(PoisonError::into_inner).due(now);
    if let Some(unsaid) = due {
        warn!(%reason, unsaid, "a connection loses zero copy: its bytes are copied");
    }
}

/// When something was said last, and how often not since.
#[derive(Debug, Default)]
struct Limit {
    last: Option<Instant>,
    unsaid: u64,
}

impl Limit {
    /// Whether it is time to say it again; then, how often it was left unsaid.
    fn due(&mut self, now: Instant) -> Option<u64> {
        let recent = self.last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL);
        if recent {
            self.unsaid += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_said_once_a_minute_and_counts_what_it_left_unsaid() {
        let start = Instant::now();
        let mut limit = Limit::default();
        assert_eq!(limit.due(start), Some(0));
        assert_eq!(limit.due(start + Duration::from_secs(1)), None);
        assert_eq!(limit.due(start + Duration::from_secs(59)), None);
        assert_eq!(limit.due(start + Duration::from_mins(1)), Some(2));
        assert_eq!(limit.due(start + Duration::from_secs(61)), None);
    }
}
