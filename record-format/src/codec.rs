//! The codecs of a batch. Framing: `docs/format/codecs.md`.

pub(crate) mod compress;
pub(crate) mod decode;
pub(crate) mod decompress;
#[cfg(feature = "gzip")]
mod gzip;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(feature = "zstd")]
mod zstd;

use core::fmt;

/// How the records of a batch are compressed: bits 0 to 2 of the attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// Codec 0: records stand back to back.
    #[default]
    None,
    /// Codec 1: RFC 1952.
    Gzip,
    /// Codec 2: xerial framing, or one raw block.
    Snappy,
    /// Codec 3: LZ4 frame.
    Lz4,
    /// Codec 4: zstd frames.
    Zstd,
}

impl Codec {
    /// Every codec, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The codec with this number, or `None` for 5 and above.
    #[must_use]
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The number in the attributes.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// Kafka's name, as in `compression.type` and the dump tool.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// Whether this build can read and write the codec: its feature is on.
    #[must_use]
    pub const fn is_enabled(self) -> bool {
        match self {
            Self::None => true,
            Self::Gzip => cfg!(feature = "gzip"),
            Self::Snappy => cfg!(feature = "snappy"),
            Self::Lz4 => cfg!(feature = "lz4"),
            Self::Zstd => cfg!(feature = "zstd"),
        }
    }

    /// The level that Kafka uses where none is set: `compression.gzip.level` -1 (which is 6),
    /// `compression.lz4.level` 9, `compression.zstd.level` 3. `None` for codecs without levels.
    #[must_use]
    pub const fn default_level(self) -> Option<i32> {
        match self {
            Self::None | Self::Snappy => None,
            Self::Gzip => Some(-1),
            Self::Lz4 => Some(9),
            Self::Zstd => Some(3),
        }
    }

    /// Whether Kafka takes `level` for this codec: gzip -1 or 1 to 9, lz4 1 to 17, zstd
    /// -131072 to 22. False for codecs without levels.
    #[must_use]
    pub const fn accepts_level(self, level: i32) -> bool {
        match self {
            Self::None | Self::Snappy => false,
            Self::Gzip => level == -1 || (level >= 1 && level <= 9),
            Self::Lz4 => level >= 1 && level <= 17,
            Self::Zstd => level >= -131_072 && level <= 22,
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
