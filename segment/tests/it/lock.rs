//! The lock of a log directory, against ourselves and against a Java machine.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use alluvium_record_format::Offset;
use alluvium_segment::{
    ActiveSegment, DirLock, FilePool, LOCK_FILE, LockError, PartitionDir, SegmentError,
};

use crate::support::{Fixture, base_at, birth, every_batch, moved, one, three};

#[test]
fn a_second_lock_in_one_process_is_refused_until_the_first_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let first = DirLock::acquire(dir.path()).unwrap();
    let clone = first.clone();
    assert!(matches!(DirLock::acquire(dir.path()), Err(LockError::Held { .. })));
    drop(first);
    assert!(matches!(DirLock::acquire(dir.path()), Err(LockError::Held { .. })));
    drop(clone);
    DirLock::acquire(dir.path()).unwrap();
    assert!(dir.path().join(LOCK_FILE).exists());
}

#[test]
fn another_path_to_the_same_directory_is_the_same_lock() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("real");
    fs::create_dir(&real).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let held = DirLock::acquire(&real).unwrap();
    assert!(matches!(DirLock::acquire(&link), Err(LockError::Held { .. })));
    assert!(lock_is_recorded(&real), "the refused attempt must not drop the lock");
    drop(held);
    assert!(!lock_is_recorded(&real));
}

/// Whether the kernel knows of a record lock of this process on the directory's lock file.
fn lock_is_recorded(dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let inode = fs::metadata(dir.join(LOCK_FILE)).unwrap().ino();
    let locks = fs::read_to_string("/proc/locks").unwrap();
    let process = std::process::id().to_string();
    locks.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields.contains(&"POSIX")
            && fields.contains(&process.as_str())
            && fields.iter().any(|field| field.ends_with(&format!(":{inode}")))
    })
}

#[test]
fn the_lock_lives_as_long_as_a_segment_of_its_directory() {
    let Fixture { dir, lock, log_dir } = Fixture::new();
    let active = ActiveSegment::create(&dir, Offset::new(0), every_batch(), birth()).unwrap();
    drop((dir, lock));
    assert!(matches!(DirLock::acquire(log_dir.path()), Err(LockError::Held { .. })));
    drop(active);
    DirLock::acquire(log_dir.path()).unwrap();
}

#[test]
fn a_partition_directory_is_opened_for_writing_once_and_under_its_own_lock() {
    let fixture = Fixture::new();
    let path = fixture.dir.path();
    let pool = FilePool::new(1);
    let again = PartitionDir::open(&path, &fixture.lock, &pool);
    assert!(matches!(again, Err(SegmentError::Busy { .. })));
    let other = tempfile::tempdir().unwrap();
    let other_lock = DirLock::acquire(other.path()).unwrap();
    let wrong = PartitionDir::open(&path, &other_lock, &pool);
    assert!(matches!(wrong, Err(SegmentError::OutsideLock { .. })));
    for name in ["a/b", "..", ".", ""] {
        let renamed = fixture.dir.rename(name);
        assert!(matches!(renamed, Err(SegmentError::InvalidName { .. })), "{name}");
    }
    let missing = PartitionDir::open(&path.with_file_name("no-0"), &fixture.lock, &pool);
    assert!(matches!(missing, Err(SegmentError::Gone { .. })));
}

/// A partition directory gets its name for deletion while it is read and written.
#[test]
fn a_directory_can_be_renamed_under_its_segments() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    let before = fixture.dir.path();
    fixture.dir.rename("t-0.0123456789abcdef0123456789abcdef-delete").unwrap();
    assert!(!before.exists());
    active.append(&moved(&one(), 9)).unwrap();
    let segment = active.seal().unwrap();
    segment.flush().unwrap();
    assert_eq!(base_at(&segment, 9), Some(9));
    assert_eq!(fixture.bytes("00000000000000000000.index").len(), 24);
    for bad in ["..", "a/b", "", "."] {
        let refused = fixture.dir.rename(bad);
        assert!(matches!(refused, Err(SegmentError::InvalidName { .. })), "{bad}: {refused:?}");
    }
    // The old name is free again.
    fs::create_dir(&before).unwrap();
    PartitionDir::open(&before, &fixture.lock, &FilePool::new(1)).unwrap();
}

/// Tries for the lock as Kafka does, says what came of it, and holds it until its input ends.
const HOLDER: &str = r#"
import java.nio.channels.*;
import java.nio.file.*;
public class Holder {
    public static void main(String[] args) throws Exception {
        try (FileChannel channel = FileChannel.open(Path.of(args[0]),
                StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            FileLock lock = channel.tryLock();
            System.out.println(lock == null ? "refused" : "held");
            System.out.flush();
            System.in.read();
        }
    }
}
"#;

/// A Java machine that tried for the lock.
struct Java {
    process: Child,
    answer: String,
}

impl Java {
    fn try_lock(dir: &Path) -> Self {
        let source = dir.with_file_name("Holder.java");
        fs::write(&source, HOLDER).unwrap();
        let mut process = Command::new("java")
            .arg(source)
            .arg(dir.join(LOCK_FILE))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answer = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut answer).unwrap();
        Self { process, answer: answer.trim().to_owned() }
    }

    fn end(mut self) {
        self.process.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(self.process.wait().unwrap().success());
    }
}

#[test]
fn a_java_machine_and_we_exclude_each_other() {
    let version = Command::new("java").arg("-version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no `java` to hold the lock");
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("logs");
    fs::create_dir(&dir).unwrap();

    let java = Java::try_lock(&dir);
    assert_eq!(java.answer, "held");
    assert!(matches!(DirLock::acquire(&dir), Err(LockError::Held { .. })));
    java.end();

    let ours = DirLock::acquire(&dir).unwrap();
    let java = Java::try_lock(&dir);
    assert_eq!(java.answer, "refused");
    java.end();
    drop(ours);

    let java = Java::try_lock(&dir);
    assert_eq!(java.answer, "held");
    java.end();
}
