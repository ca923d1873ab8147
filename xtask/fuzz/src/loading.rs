//! The loader on any directory.

use std::ops::ControlFlow;

use alluvium_record_format::{BatchMut, Offset, Position, Timestamp};
use alluvium_recovery::{LoadConfig, load, plan};
use alluvium_segment::{DirLock, FilePool, PartitionDir, SegmentConfig};
use arbitrary::Arbitrary;
use tempfile::TempDir;

/// What lies in the directory, and what the checkpoints say.
#[derive(Arbitrary, Debug)]
pub struct Directory {
    files: Vec<File>,
    is_clean: bool,
    recovery_point: u8,
    log_start: u8,
}

#[derive(Arbitrary, Debug)]
struct File {
    base: Base,
    kind: Kind,
    suffix: Suffix,
    pieces: Vec<Piece>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Base {
    Near(u8),
    Beyond,
    Last,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Kind {
    Log,
    Index,
    TimeIndex,
    TxnIndex,
    Snapshot,
    Epochs,
    Metadata,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Suffix {
    None,
    Swap,
    Cleaned,
    Deleted,
    Temporary,
}

#[derive(Arbitrary, Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Zeros(u8),
    /// A batch that is sound but for its content.
    Batch {
        base: u8,
        delta: u8,
        epoch: u8,
        attributes: u8,
        producer: u8,
        payload: Vec<u8>,
    },
}

/// A plan changes nothing, a load does what was planned, and a second load finds order.
pub fn loader(directory: &Directory) {
    let root = in_memory();
    let path = root.path().join("t-0");
    std::fs::create_dir(&path).unwrap();
    for file in directory.files.iter().take(12) {
        let bytes: Vec<u8> = file.pieces.iter().take(12).flat_map(bytes_of).collect();
        std::fs::write(path.join(name_of(file)), bytes).unwrap();
    }
    let lock = DirLock::acquire(root.path()).unwrap();
    let pool = FilePool::new(16);
    let dir = PartitionDir::open(&path, &lock, &pool).unwrap();
    let config = LoadConfig::new(Timestamp::new(1_000_000))
        .segment(SegmentConfig::new().index_interval_bytes(100).max_index_bytes(4096))
        .clean_shutdown(directory.is_clean)
        .recovery_point(Offset::new(directory.recovery_point.into()))
        .log_start_offset(Offset::new(directory.log_start.into()));
    let mut go_on = |_| ControlFlow::Continue(());
    let planned = plan(&dir, &config, &mut go_on);
    let loaded = load(&dir, &config, &mut go_on);
    assert_eq!(planned.is_ok(), loaded.is_ok(), "{planned:?} {loaded:?}");
    let (Ok(planned), Ok(log)) = (planned, loaded) else { return };
    assert_eq!(planned.log_end_offset(), log.log_end_offset);
    assert!(log.log_start_offset <= log.log_end_offset);
    let bases: Vec<_> = log.segments.iter().map(|segment| segment.base_offset()).collect();
    assert!(bases.is_sorted_by(|one, next| one < next), "{bases:?}");
    let (start, end) = (log.log_start_offset, log.log_end_offset);
    drop((log, planned, dir));
    let dir = PartitionDir::open(&path, &lock, &pool).unwrap();
    let again = load(&dir, &config, &mut go_on).expect("what was loaded is loaded again");
    assert_eq!((again.log_start_offset, again.log_end_offset), (start, end));
}

fn name_of(file: &File) -> String {
    let base = match file.base {
        Base::Near(offset) => i64::from(offset % 32),
        Base::Beyond => 3_000_000_000,
        Base::Last => i64::MAX,
    };
    let suffix = match file.suffix {
        Suffix::None => "",
        Suffix::Swap => ".swap",
        Suffix::Cleaned => ".cleaned",
        Suffix::Deleted => ".deleted",
        Suffix::Temporary => ".tmp",
    };
    let extension = match file.kind {
        Kind::Log => "log",
        Kind::Index => "index",
        Kind::TimeIndex => "timeindex",
        Kind::TxnIndex => "txnindex",
        Kind::Snapshot => "snapshot",
        Kind::Epochs => return "leader-epoch-checkpoint".to_owned(),
        Kind::Metadata => return "partition.metadata".to_owned(),
    };
    format!("{base:020}.{extension}{suffix}")
}

fn bytes_of(piece: &Piece) -> Vec<u8> {
    match piece {
        Piece::Bytes(bytes) => bytes.clone(),
        Piece::Zeros(count) => vec![0; usize::from(*count)],
        Piece::Batch { base, delta, epoch, attributes, producer, payload } => {
            let mut bytes = vec![0; 61];
            bytes.extend_from_slice(payload);
            let length = i32::try_from(bytes.len() - 12).unwrap();
            bytes[7] = base % 40;
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            bytes[15] = epoch % 4;
            bytes[16] = 2;
            bytes[22] = attributes & 0x7f;
            bytes[26] = delta % 8;
            bytes[43..51].copy_from_slice(&(i64::from(*producer % 4) - 1).to_be_bytes());
            bytes[60] = delta % 8 + 1;
            BatchMut::parse(&mut bytes, Position::new(0)).unwrap().rewrite_crc();
            bytes
        }
    }
}

/// A directory in memory, where there is one.
pub(crate) fn in_memory() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap_or_else(|_| TempDir::new().unwrap())
}
