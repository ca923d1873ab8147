//! What the machine says of itself: mounts, block devices, limits, free space.

use std::fs;
use std::path::{Path, PathBuf};

use super::block::{self, Device};

/// The machine below a log directory. `None` is what it does not say.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) mount: Option<Mount>,
    pub(super) devices: Vec<Device>,
    /// The soft limit of open descriptors; `u64::MAX` for none.
    pub(super) descriptors: Option<u64>,
    /// `vm.max_map_count`.
    pub(super) maps: Option<u64>,
    pub(super) space: Option<Space>,
}

/// A line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) point: PathBuf,
    pub(super) fs_type: String,
    /// `major:minor` of the device.
    pub(super) device: String,
    /// Options of the mount and of the file system.
    pub(super) options: Vec<String>,
}

/// Room on the file system.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space {
    pub(super) total_bytes: u64,
    pub(super) free_bytes: u64,
    /// Files that could be; 0 where the file system does not say.
    pub(super) total_files: u64,
    pub(super) free_files: u64,
}

impl Machine {
    /// Asks `/proc` and `/sys` below `root`, for the process `pid`, and the file system of `dir`.
    pub(super) fn probe(root: &Path, pid: &str, dir: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let mounts = text("proc/self/mountinfo").unwrap_or_default();
        let mount = Mount::above(dir, &mounts);
        let devices = match &mount {
            Some(mount) => block::devices(&root.join("sys"), &mount.device),
            None => Vec::new(),
        };
        Self {
            mount,
            devices,
            descriptors: text(&format!("proc/{pid}/limits")).as_deref().and_then(open_files),
            maps: text("proc/sys/vm/max_map_count").and_then(|text| text.trim().parse().ok()),
            space: Space::of(dir),
        }
    }
}

impl Mount {
    /// The mount that holds `dir`, an absolute path: the one mounted last of the deepest.
    fn above(dir: &Path, mountinfo: &str) -> Option<Self> {
        mountinfo
            .lines()
            .filter_map(Self::parse)
            .filter(|mount| dir.starts_with(&mount.point))
            .max_by_key(|mount| mount.point.components().count())
    }

    /// Source: `proc_pid_mountinfo(5)`.
    fn parse(line: &str) -> Option<Self> {
        let (mount, fs) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(2);
        let (device, _root, point) = (mount.next()?, mount.next()?, mount.next()?);
        let mut fs = fs.split(' ');
        let (fs_type, _source) = (fs.next()?, fs.next()?);
        let options = mount.next()?.split(',').chain(fs.next().unwrap_or_default().split(','));
        Some(Self {
            point: unescape(point),
            fs_type: fs_type.to_owned(),
            device: device.to_owned(),
            options: options.map(str::to_owned).collect(),
        })
    }

    pub(super) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|found| found == option)
    }
}

/// Undoes the octal escapes of spaces, tabs, line ends and backslashes.
fn unescape(text: &str) -> PathBuf {
    let parts = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    let plain = parts.iter().fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain));
    PathBuf::from(plain)
}

/// The soft limit of open files in the text of `/proc/PID/limits`.
fn open_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

impl Space {
    fn of(dir: &Path) -> Option<Self> {
        let stat = rustix::fs::statvfs(dir).ok()?;
        Some(Self {
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            total_files: stat.f_files,
            free_files: stat.f_favail,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 22 8:17 / /data rw,noatime shared:2 - xfs /dev/sdb1 rw,attr2
31 30 8:33 / /data/with\\040space rw,relatime - ext4 /dev/sdc1 rw,nobarrier
nonsense";

    #[test]
    fn the_deepest_mount_above_a_directory_counts() {
        let at = |dir: &str| Mount::above(Path::new(dir), MOUNTS).unwrap();
        assert_eq!(at("/var/kafka").device, "8:1");
        assert_eq!(at("/data/kafka").fs_type, "xfs");
        assert!(at("/data/kafka").has("noatime"));
        assert_eq!(at("/database").device, "8:1");
        let spaced = at("/data/with space/kafka");
        assert!(spaced.has("nobarrier") && spaced.has("relatime"), "{spaced:?}");
    }

    #[test]
    fn the_soft_limit_is_the_first_number() {
        let limits = "Max processes   1 2 processes\nMax open files   1024   524288   files\n";
        assert_eq!(open_files(limits), Some(1024));
        assert_eq!(open_files("Max open files   unlimited unlimited files"), Some(u64::MAX));
        assert_eq!(open_files(""), None);
    }
}
