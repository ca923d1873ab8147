//! What an index takes of the machine: blocks, descriptors, maps.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use alluvium_record_format::Offset;
use alluvium_sparse_index::{IndexError, OffsetIndexFile, Refusal, TimeIndexFile};

use crate::support::{Dir, at, refusal, time};

const TEN_MIB: u32 = 10 << 20;

/// 10,000 active partitions must fit 2 GiB of index blocks: 200 KiB each.
#[test]
fn an_index_of_10_mib_takes_no_block_before_its_first_entry_and_at_most_64_kib_ahead() {
    let dir = Dir::new();
    let (offsets, times) = (dir.offset_index(0, TEN_MIB), dir.time_index(0, TEN_MIB));
    let taken = || {
        ["index", "timeindex"].map(|suffix| {
            fs::metadata(dir.path(&format!("{:020}.{suffix}", 0))).unwrap().blocks() * 512
        })
    };
    assert_eq!(taken(), [0, 0]);
    offsets.append(at(1, 1)).unwrap();
    times.maybe_append(time(1, 1)).unwrap();
    assert!(taken().iter().all(|bytes| (4096..=16_384).contains(bytes)), "{:?}", taken());
    for number in 2..=20_000 {
        offsets.append(at(number, u32::try_from(number).unwrap())).unwrap();
        times.maybe_append(time(number, number)).unwrap();
    }
    for (bytes, used) in taken().iter().zip([160_000, 240_000]) {
        assert!((used..=used + 64 * 1024 + 3 * 4096).contains(bytes), "{bytes} for {used}");
    }
    offsets.trim_to_valid_size().unwrap();
    times.trim_to_valid_size().unwrap();
    let sizes = ["index", "timeindex"]
        .map(|suffix| fs::metadata(dir.path(&format!("{:020}.{suffix}", 0))).unwrap().len());
    assert_eq!(sizes, [160_000, 240_000]);
}

#[test]
fn reserved_slots_have_their_blocks_before_the_first_entry() {
    let dir = Dir::new();
    let (offsets, times) = (dir.offset_index(0, TEN_MIB), dir.time_index(0, TEN_MIB));
    offsets.reserve(20_000).unwrap();
    times.reserve(20_000).unwrap();
    let taken = ["index", "timeindex"].map(|suffix| {
        fs::metadata(dir.path(&format!("{:020}.{suffix}", 0))).unwrap().blocks() * 512
    });
    assert!(taken[0] >= 160_000 && taken[1] >= 240_000, "{taken:?}");
}

/// Gives the file another name.
fn relink(from: &Path, to: &Path) {
    fs::hard_link(from, to).unwrap();
    fs::remove_file(from).unwrap();
}

/// The file is looked up by its path where blocks are reserved, and nowhere else: an append costs
/// no system call.
#[test]
fn an_append_needs_the_path_only_where_it_needs_blocks() {
    let dir = Dir::new();
    let index = dir.offset_index(0, TEN_MIB);
    let append = |numbers: std::ops::RangeInclusive<i64>| {
        numbers.into_iter().try_for_each(|number| index.append(at(number, 1)))
    };
    append(1..=513).unwrap();
    let (path, away) = (dir.path("00000000000000000000.index"), dir.path("away"));
    relink(&path, &away);
    append(514..=1024).unwrap();
    let error = append(1025..=1025).unwrap_err();
    assert!(matches!(error, alluvium_sparse_index::IndexError::Io { .. }), "{error}");
    relink(&away, &path);
    append(1025..=1026).unwrap();
}

/// What lies below the blocks of this process may be a hole.
#[test]
fn an_append_below_the_blocks_that_were_reserved_reserves_them() {
    let dir = Dir::new();
    let index = dir.offset_index(0, 8192);
    (1..=600).for_each(|number| index.append(at(number, 1)).unwrap());
    index.trim_to_valid_size().unwrap();
    drop(index);
    let (path, away) = (dir.path("00000000000000000000.index"), dir.path("away"));
    let index = OffsetIndexFile::open(&path, Offset::new(0), 8192, &dir.permit).unwrap();
    index.resize(8192).unwrap();
    index.append(at(601, 1)).unwrap();
    index.truncate_to(Offset::new(300)).unwrap();
    relink(&path, &away);
    let error = index.append(at(300, 1)).unwrap_err();
    assert!(matches!(error, alluvium_sparse_index::IndexError::Io { .. }), "{error}");
    relink(&away, &path);
    index.append(at(300, 1)).unwrap();
}

#[test]
fn no_descriptor_stays_open() {
    let dir = Dir::new();
    let indexes: Vec<_> = (0..50).map(|base| dir.offset_index(base * 1000, 8192)).collect();
    for index in &indexes {
        index.append(at(index.base_offset().get() + 5, 70)).unwrap();
        index.flush().unwrap();
    }
    let ours = dir.path("");
    let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
    let open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    assert_eq!(open.filter(|target| target.starts_with(&ours)).count(), 0);
}

#[test]
fn a_sealed_index_of_a_page_is_read_into_memory_and_a_larger_one_is_mapped() {
    let dir = Dir::new();
    for (base, entries, is_mapped) in [(0, 512, false), (1_000_000, 513, true)] {
        let index = dir.offset_index(base, TEN_MIB);
        for number in 1..=entries {
            index.append(at(base + number, u32::try_from(number).unwrap())).unwrap();
        }
        index.trim_to_valid_size().unwrap();
        drop(index);
        let path = dir.path(&format!("{base:020}.index"));
        let index = OffsetIndexFile::open_sealed(&path, Offset::new(base), &dir.permit).unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        assert_eq!(maps.contains(path.to_str().unwrap()), is_mapped);
        let last = at(base + entries, u32::try_from(entries).unwrap());
        assert_eq!(index.lookup(Offset::new(i64::MAX)), last);
        assert_eq!((index.is_full(), index.len()), (true, usize::try_from(entries).unwrap()));
        let refused = refusal(index.append(at(base + 9_999, 1)));
        assert!(matches!(refused, Refusal::Sealed | Refusal::Full { .. }), "{refused}");
        index.flush().unwrap();
    }
}

#[test]
fn an_index_follows_its_file_under_a_new_name_and_refuses_another_in_its_place() {
    let dir = Dir::new();
    let index = dir.time_index(0, 8192);
    let old = dir.path("00000000000000000000.timeindex");
    let new = dir.path("00000000000000000000.timeindex.swap");
    index.maybe_append(time(1, 1)).unwrap();
    relink(&old, &new);
    index.trim_to_valid_size().unwrap_err();
    index.set_path(new.clone());
    index.trim_to_valid_size().unwrap();
    index.flush().unwrap();
    fs::remove_file(&new).unwrap();
    fs::write(&new, [7; 12]).unwrap();
    let error = index.flush().unwrap_err();
    assert!(matches!(error, IndexError::Replaced { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        format!("{} is not the file that was opened there", new.display())
    );
    assert_eq!(error.path(), new);
    drop(index);
    TimeIndexFile::open(&new, Offset::new(0), 0, &dir.permit).unwrap();
}
