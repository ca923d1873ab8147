//! The block devices under a file system, as `/sys` shows them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A block device and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) is_rotational: bool,
    /// `raid1`, `raid5` and the like, for an array of the kernel's.
    pub(super) raid: Option<String>,
}

/// The device `major:minor` and all devices below it: the members of arrays and volumes.
pub(super) fn devices(sys: &Path, number: &str) -> Vec<Device> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let mut next = vec![sys.join("dev/block").join(number)];
    while let Some(path) = next.pop() {
        let Ok(path) = fs::canonicalize(path) else { continue };
        let path = whole(path);
        // Links of a device to itself or back up would never end.
        if !seen.insert(path.clone()) {
            continue;
        }
        if let Ok(slaves) = fs::read_dir(path.join("slaves")) {
            next.extend(slaves.flatten().map(|slave| slave.path()));
        }
        let text = |file: &str| fs::read_to_string(path.join(file)).ok();
        found.push(Device {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            is_rotational: text("queue/rotational").is_some_and(|text| text.trim() == "1"),
            raid: text("md/level").map(|text| text.trim().to_owned()),
        });
    }
    found
}

/// The disk of a partition; any other device is whole.
fn whole(path: PathBuf) -> PathBuf {
    match path.parent() {
        Some(disk) if path.join("partition").exists() => disk.to_path_buf(),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// An array `md0` of two partitions, one on a rotating disk.
    fn sys() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("devices/md0/md/level", "raid5\n");
        put("devices/md0/queue/rotational", "0\n");
        for (disk, rotational) in [("sda", "1\n"), ("sdb", "0\n")] {
            put(&format!("devices/{disk}/queue/rotational"), rotational);
            put(&format!("devices/{disk}/{disk}1/partition"), "1\n");
        }
        fs::create_dir_all(dir.path().join("dev/block")).unwrap();
        fs::create_dir_all(dir.path().join("devices/md0/slaves")).unwrap();
        symlink("../../devices/md0", dir.path().join("dev/block/9:0")).unwrap();
        symlink("../../sda/sda1", dir.path().join("devices/md0/slaves/sda1")).unwrap();
        symlink("../../sdb/sdb1", dir.path().join("devices/md0/slaves/sdb1")).unwrap();
        symlink("../../md0", dir.path().join("devices/md0/slaves/loop")).unwrap();
        dir
    }

    #[test]
    fn an_array_shows_its_level_and_its_disks_once_each() {
        let sys = sys();
        let mut found = devices(sys.path(), "9:0");
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let names: Vec<_> = found.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["md0", "sda", "sdb"]);
        assert_eq!(found[0].raid.as_deref(), Some("raid5"));
        let rotational: Vec<_> = found.iter().map(|device| device.is_rotational).collect();
        assert_eq!(rotational, [false, true, false]);
    }

    #[test]
    fn a_device_that_is_not_in_sys_is_none() {
        assert_eq!(devices(sys().path(), "0:42"), []);
    }
}
