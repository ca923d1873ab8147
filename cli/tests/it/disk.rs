//! The golden disks, and copies of them to damage.

use std::fs;
use std::path::{Path, PathBuf};

use alluvium_record_format::{BatchBuilder, BatchSettings, Offset, SimpleRecord};
use tempfile::TempDir;

/// The disk that Kafka closed cleanly.
pub(crate) fn clean() -> PathBuf {
    golden("disk/clean")
}

/// A folder of the golden files.
pub(crate) fn golden(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/4.4.0").join(folder)
}

/// The files of a directory and its directories, sorted, as paths below it.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { dirs.push(path) } else { found.push(path) }
        }
    }
    let mut found: Vec<_> =
        found.iter().map(|path| path.strip_prefix(dir).unwrap().to_path_buf()).collect();
    found.sort();
    found
}

/// Names and bytes of all files of a directory and its directories.
pub(crate) fn state(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    files(dir).into_iter().map(|file| (file.clone(), fs::read(dir.join(file)).unwrap())).collect()
}

/// As [`state`], without the lock file, which stays behind a command that is refused.
pub(crate) fn state_but_lock(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut state = state(dir);
    state.retain(|(name, _)| name.as_os_str() != ".lock");
    state
}

/// Writes `files` into a new directory, with the directories that their names call for.
pub(crate) fn scratch(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

/// Bytes written as hexadecimal.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks_exact(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Three batches of 118 bytes: offsets 0-2, 3-5, 6-8; leader epochs 0, 0, 1; times 1000 to 1008;
/// keys k0 to k8.
pub(crate) fn three_batches() -> Vec<u8> {
    hex(THREE_BATCHES)
}

const THREE_BATCHES: &str = "
    00000000000000000000006a000000000206742cbf00000000000200000000000003e800000000000003ea
    ffffffffffffffffffffffffffff0000000324000000046b301476767676767676767676002400020204
    6b3114767676767676767676760024000404046b32147676767676767676767600
    00000000000000030000006a0000000002359cfb7500000000000200000000000003eb00000000000003ed
    ffffffffffffffffffffffffffff0000000324000000046b331476767676767676767676002400020204
    6b3414767676767676767676760024000404046b35147676767676767676767600
    00000000000000060000006a0000000102cb8a8a8d00000000000200000000000003ee00000000000003f0
    ffffffffffffffffffffffffffff0000000324000000046b361476767676767676767676002400020204
    6b3714767676767676767676760024000404046b38147676767676767676767600";

/// A copy of a golden folder, to damage.
pub(crate) fn copy(folder: &str) -> TempDir {
    let (from, dir) = (golden(folder), tempfile::tempdir().unwrap());
    for file in files(&from) {
        let path = dir.path().join(&file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, fs::read(from.join(file)).unwrap()).unwrap();
    }
    dir
}

/// A metadata log with a topic of each name, and settings.
pub(crate) fn metadata(topics: &[&str], settings: &[(&str, &str, &str)]) -> Vec<u8> {
    let settings = settings.iter().map(|(topic, key, value)| (TOPIC, *topic, *key, *value));
    metadata_of(topics, &settings.collect::<Vec<_>>())
}

/// The kinds of what has settings in a metadata log.
pub(crate) const TOPIC: u8 = 2;
pub(crate) const BROKER: u8 = 4;

/// A metadata log with a topic of each name, and settings of topics and brokers.
pub(crate) fn metadata_of(topics: &[&str], settings: &[(u8, &str, &str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len() + 1).unwrap()], text.as_bytes()].concat();
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    for (id, topic) in (1..).zip(topics) {
        let record = [&[1, 2, 0][..], &text(topic), &[id; 16], &[0]].concat();
        builder.append(&SimpleRecord::new().value(&record)).unwrap();
    }
    for (kind, name, key, value) in settings {
        let record = [&[1, 4, 0, *kind][..], &text(name), &text(key), &text(value), &[0]].concat();
        builder.append(&SimpleRecord::new().value(&record)).unwrap();
    }
    builder.finish().unwrap().to_vec()
}
