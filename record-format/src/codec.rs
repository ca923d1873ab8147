//! The codecs of a batch.

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
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
