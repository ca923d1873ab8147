//! Numbers as people read them.

use std::fmt;

/// Milliseconds since the epoch as a UTC time, or the number where no calendar reaches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time(pub(crate) i64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            _ if self.0 == -1 => f.pad("no time"),
            Ok(time) => f.pad(&format!("{time:.3}")),
            Err(_too_far) => f.pad(&format!("{} ms", self.0)),
        }
    }
}

/// A number of bytes in a unit of its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        // Tenths of a unit, in whole numbers.
        let mut tenths = u128::from(self.0) * 10 / 1024;
        let mut unit = 0;
        while tenths >= 10_240 && unit + 1 < UNITS.len() {
            tenths /= 1024;
            unit += 1;
        }
        f.pad(&format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]))
    }
}

/// A number of milliseconds in its two largest units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span(pub(crate) u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] =
            [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms")];
        let first = UNITS.iter().position(|(size, _)| self.0 >= *size);
        let Some(first) = first else { return f.pad("0 ms") };
        let (size, unit) = UNITS[first];
        let (count, rest) = (self.0 / size, self.0 % size);
        match UNITS.get(first + 1).filter(|(size, _)| rest >= *size) {
            Some((size, smaller)) => f.pad(&format!("{count} {unit} {} {smaller}", rest / size)),
            None => f.pad(&format!("{count} {unit}")),
        }
    }
}

/// A number of things, with an s where they are many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count(pub(crate) u64, pub(crate) &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, thing) = (self.0, self.1);
        match count {
            1 => f.pad(&format!("1 {thing}")),
            _ if thing.ends_with(['h', 's']) => f.pad(&format!("{count} {thing}es")),
            _ => f.pad(&format!("{count} {thing}s")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_get_the_largest_unit_below_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_575, "1023.9 KiB"),
            (1_048_576, "1.0 MiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn times_are_utc_with_milliseconds() {
        assert_eq!(Time(1_760_086_400_037).to_string(), "2025-10-10T08:53:20.037Z");
        assert_eq!(Time(-1).to_string(), "no time");
        assert_eq!(Time(i64::MAX).to_string(), "9223372036854775807 ms");
    }

    #[test]
    fn spans_show_their_two_largest_units() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1000, "1 s"),
            (604_800_000, "7 d"),
            (90_061_001, "1 d 1 h"),
            (86_400_001, "1 d"),
            (61_500, "1 min 1 s"),
        ] {
            assert_eq!(Span(ms).to_string(), text);
        }
    }

    #[test]
    fn one_thing_has_no_plural() {
        let texts = [(1, "batch"), (2, "batch"), (0, "segment"), (1, "loss"), (3, "loss")];
        let texts = texts.map(|(count, thing)| Count(count, thing).to_string());
        assert_eq!(texts, ["1 batch", "2 batches", "0 segments", "1 loss", "3 losses"]);
    }
}
