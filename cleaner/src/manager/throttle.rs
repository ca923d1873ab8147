//! Holds cleaning to a rate.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Bytes a second that all cleanings together may read and write.
///
/// Source: `Throttler` in Kafka, which measures over 300 ms.
#[derive(Debug)]
pub(super) struct Throttle {
    pace: Mutex<Pace>,
    since: Instant,
}

impl Throttle {
    pub(super) fn new(bytes_per_second: Option<u64>) -> Self {
        Self { pace: Mutex::new(Pace::new(bytes_per_second)), since: Instant::now() }
    }

    pub(super) fn set(&self, bytes_per_second: Option<u64>) {
        self.pace.lock().bytes_per_second = bytes_per_second;
    }

    /// How long to wait after so many bytes.
    pub(super) fn after(&self, bytes: u64) -> Duration {
        self.pace.lock().after(bytes, self.since.elapsed())
    }
}

/// When the next bytes may move, by a clock that begins at zero.
#[derive(Debug)]
struct Pace {
    bytes_per_second: Option<u64>,
    free: Duration,
}

impl Pace {
    const fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second, free: Duration::ZERO }
    }

    fn after(&mut self, bytes: u64, now: Duration) -> Duration {
        let Some(rate) = self.bytes_per_second else { return Duration::ZERO };
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.free = self.free.max(now.saturating_sub(BURST)).saturating_add(cost);
        self.free.saturating_sub(now)
    }
}

/// Idle time that may be made up for.
const BURST: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_wait_until_the_rate_has_room_for_them() {
        let mut pace = Pace::new(Some(1000));
        let at = Duration::from_millis;
        assert_eq!(pace.after(500, at(0)), at(500));
        assert_eq!(pace.after(500, at(500)), at(500));
        // Idle time counts for at most the burst.
        assert_eq!(pace.after(1000, at(60_000)), at(700));
    }

    #[test]
    fn a_pass_takes_as_long_as_its_bytes_at_the_rate() {
        let (rate, chunk) = (8 << 20, 256 << 10);
        for work in [Duration::ZERO, Duration::from_millis(20)] {
            let mut pace = Pace::new(Some(rate));
            let mut now = Duration::ZERO;
            // 64 MiB by chunks that take their time to be read and written, too.
            for _ in 0..256 {
                now += work;
                now += pace.after(chunk, now);
            }
            let (least, most) = (Duration::from_secs(8), Duration::from_millis(8020));
            assert!((least..=most).contains(&now), "{now:?}");
        }
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        assert_eq!(Pace::new(None).after(u64::MAX, Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn a_huge_count_waits_long_and_does_not_overflow() {
        let mut pace = Pace::new(Some(1));
        assert!(pace.after(u64::MAX, Duration::ZERO) > Duration::from_secs(1 << 30));
        assert!(pace.after(u64::MAX, Duration::ZERO) > Duration::from_secs(1 << 30));
    }
}
