//! Checks of the machine: the mount, the devices, room and limits.

use std::path::Path;

use super::machine::{Machine, Mount, Space};
use super::pitfall::Pitfall;
use super::{Counts, Finding};
use crate::readable::Bytes;

/// What is asked of the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Percent of the file system that should be free.
    pub(super) free_percent: u64,
    /// The largest segment that the settings allow.
    pub(super) segment_bytes: u64,
}

/// Checks the machine below the log directory `dir`.
pub(super) fn check(dir: &Path, machine: &Machine, counts: Counts, wanted: Wanted) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |pitfall, text: String| found.push(Finding::new(pitfall, dir, text));
    if let Some(mount) = &machine.mount {
        check_mount(mount, &mut add);
    }
    for device in &machine.devices {
        let name = &device.name;
        if let Some(raid) = device.raid.as_deref()
            && matches!(raid, "raid4" | "raid5" | "raid6")
        {
            add(Pitfall::ParityRaid, format!("on {name}, which is {raid}"));
        }
        if device.is_rotational {
            add(Pitfall::Rotational, format!("on {name}, which rotates or says so"));
        }
    }
    if let Some(space) = machine.space {
        check_space(space, wanted, &mut add);
    }
    check_limits(machine, counts, &mut add);
    found
}

fn check_mount(mount: &Mount, add: &mut impl FnMut(Pitfall, String)) {
    let point = mount.point.display();
    if !mount.has("noatime") {
        let has = if mount.has("relatime") { "relatime" } else { "neither noatime nor relatime" };
        add(Pitfall::Atime, format!("{point} is mounted with {has}"));
    }
    if let Some(option) = ["nobarrier", "barrier=0"].iter().find(|option| mount.has(option)) {
        add(Pitfall::Barriers, format!("{point} is mounted with {option}"));
    }
    let fs = mount.fs_type.as_str();
    let kind = match fs {
        "ext4" | "xfs" => return,
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "ceph" | "glusterfs" | "lustre" | "virtiofs" => {
            "over the network or from a host: locks and syncs are as good as the other side's"
        }
        _ if fs.starts_with("fuse") => "in user space: locks and syncs are as good as its program",
        "tmpfs" | "ramfs" => "in memory: gone at the next start of the machine",
        "overlay" | "overlayfs" | "aufs" => "a layer of a container: gone with it",
        "btrfs" | "zfs" | "bcachefs" => {
            "copies blocks on write: index files that change in place are scattered over the disk"
        }
        _ => "little tried under such logs",
    };
    add(Pitfall::FileSystem, format!("{point} is {fs}, {kind}"));
}

fn check_space(space: Space, wanted: Wanted, add: &mut impl FnMut(Pitfall, String)) {
    let (free, total) = (space.free_bytes, space.total_bytes);
    let below = |free: u64, total: u64| {
        u128::from(free) * 100 < u128::from(total) * u128::from(wanted.free_percent)
    };
    if below(free, total) || free < 2 * wanted.segment_bytes {
        let percent = u128::from(free) * 100 / u128::from(total.max(1));
        add(
            Pitfall::FreeSpace,
            format!(
                "{} of {} free ({percent} %); wanted: {} %, and two segments of {}",
                Bytes(free),
                Bytes(total),
                wanted.free_percent,
                Bytes(wanted.segment_bytes)
            ),
        );
    }
    if below(space.free_files, space.total_files) {
        let (free, total, percent) = (space.free_files, space.total_files, wanted.free_percent);
        add(
            Pitfall::FreeSpace,
            format!("room for {free} more files of {total}; wanted: {percent} %"),
        );
    }
}

fn check_limits(machine: &Machine, counts: Counts, add: &mut impl FnMut(Pitfall, String)) {
    let (segments, txn_indexes) = (counts.segments, counts.txn_indexes);
    let needed = segments + txn_indexes + SOCKETS;
    if let Some(limit) = machine.descriptors.filter(|limit| *limit < needed) {
        add(
            Pitfall::Descriptors,
            format!(
                "{limit} descriptors allowed; {segments} segments and {txn_indexes} transaction \
                 indexes want {needed} with {SOCKETS} for sockets and the program"
            ),
        );
    }
    let needed = 2 * segments + MAPS_OF_PROGRAM;
    if let Some(limit) = machine.maps.filter(|limit| *limit < needed) {
        add(
            Pitfall::Maps,
            format!(
                "{limit} maps allowed; {segments} segments want {needed} with {MAPS_OF_PROGRAM} \
                 for the program"
            ),
        );
    }
}

/// Descriptors that a broker wants beside its segments.
const SOCKETS: u64 = 1000;

/// Maps that a Java program has of itself, rounded up.
const MAPS_OF_PROGRAM: u64 = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted = Wanted { free_percent: 10, segment_bytes: 1000 };

    /// What is said of a disk of 1,000,000 bytes and 5,000 files with so many free.
    fn said(free_bytes: u64, free_files: u64) -> Vec<String> {
        let space = Space { total_bytes: 1_000_000, free_bytes, total_files: 5000, free_files };
        let mut said = Vec::new();
        check_space(space, WANTED, &mut |pitfall, text| {
            assert_eq!(pitfall.id(), Pitfall::FreeSpace.id());
            said.push(text);
        });
        said
    }

    #[test]
    fn a_tenth_of_bytes_and_of_files_is_enough_and_one_less_is_not() {
        assert_eq!(said(100_000, 500), [""; 0]);
        let [bytes] = &said(99_999, 500)[..] else { panic!() };
        assert!(bytes.contains("free (9 %); wanted: 10 %"), "{bytes}");
        let [files] = &said(100_000, 499)[..] else { panic!() };
        assert_eq!(files, "room for 499 more files of 5000; wanted: 10 %");
        assert_eq!(said(0, 0).len(), 2);
    }

    #[test]
    fn two_segments_must_fit_whatever_the_percentage() {
        let wanted = Wanted { free_percent: 0, segment_bytes: 50_000 };
        for (free_bytes, is_found) in [(100_000, false), (99_999, true)] {
            let space = Space { total_bytes: 1_000_000, free_bytes, total_files: 0, free_files: 0 };
            let mut count = 0;
            check_space(space, wanted, &mut |_, _| count += 1);
            assert_eq!(count, usize::from(is_found), "{free_bytes}");
        }
    }

    #[test]
    fn a_file_system_that_does_not_count_files_has_room_for_them() {
        let space =
            Space { total_bytes: 1_000_000, free_bytes: 500_000, total_files: 0, free_files: 0 };
        check_space(space, WANTED, &mut |_, text| panic!("{text}"));
    }
}
