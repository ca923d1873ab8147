//! Numbers are types: an offset, a position in a file and a time never mix.

use core::fmt;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($inner);

        impl $name {
            /// The largest value that the field can hold.
            pub const MAX: Self = Self(<$inner>::MAX);

            /// Wraps a raw number.
            #[must_use]
            pub const fn new(raw: $inner) -> Self {
                Self(raw)
            }

            /// The raw number.
            #[must_use]
            pub const fn get(self) -> $inner {
                self.0
            }

            /// The number moved up by `count`, or `None` past the largest.
            #[must_use]
            pub const fn checked_add(self, count: $inner) -> Option<Self> {
                match self.0.checked_add(count) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

unit! {
    /// The number of a record in its partition. Never below 0 in a sound log.
    Offset(i64)
}
unit! {
    /// An offset minus the base offset of its segment; on disk a signed 32-bit field, so at
    /// most `i32::MAX`.
    RelativeOffset(u32)
}
unit! {
    /// A byte in one file, counted from its start. Files stay below 2 GiB.
    Position(u32)
}
unit! {
    /// Milliseconds since the Unix epoch. A record may carry none: `Option<Timestamp>`.
    Timestamp(i64)
}
unit! {
    /// The election in which a leader wrote a batch.
    LeaderEpoch(i32)
}
unit! {
    /// The identity of an idempotent or transactional producer.
    ProducerId(i64)
}
unit! {
    /// The generation of a producer; an older one is fenced.
    ProducerEpoch(i16)
}
unit! {
    /// The number of a record within its producer's epoch; wraps from `i32::MAX` to 0.
    Sequence(i32)
}

impl Position {
    /// The position of a length in bytes, or the last position where the length is larger:
    /// for error messages, which must not fail themselves.
    #[must_use]
    pub fn saturating_from_len(len: usize) -> Self {
        Self(u32::try_from(len).unwrap_or(u32::MAX))
    }

    /// The position `len` bytes further on, or the last one.
    #[must_use]
    pub fn saturating_add_len(self, len: usize) -> Self {
        Self(self.0.saturating_add(u32::try_from(len).unwrap_or(u32::MAX)))
    }
}

impl Offset {
    /// This offset relative to `base`, or `None` outside `0..=i32::MAX`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use alluvium_record_format::{Offset, RelativeOffset};
    /// let base = Offset::new(100);
    /// assert_eq!(Offset::new(107).relative_to(base), Some(RelativeOffset::new(7)));
    /// assert_eq!(Offset::new(99).relative_to(base), None);
    /// ```
    #[must_use]
    pub fn relative_to(self, base: Self) -> Option<RelativeOffset> {
        let delta = self.0.checked_sub(base.0)?;
        i32::try_from(delta).ok()?;
        u32::try_from(delta).ok().map(RelativeOffset)
    }
}

impl Sequence {
    /// The sequence `count` steps on, wrapping from `i32::MAX` to 0. `count` is not negative.
    #[must_use]
    pub const fn wrapping_add(self, count: i32) -> Self {
        Self(self.0.wrapping_add(count) & i32::MAX)
    }

    /// The sequence `count` steps back, wrapping from 0 to `i32::MAX`. `count` is not negative.
    #[must_use]
    pub const fn wrapping_sub(self, count: i32) -> Self {
        Self(self.0.wrapping_sub(count) & i32::MAX)
    }
}
