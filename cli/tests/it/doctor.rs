//! `alluvium doctor`: for each pitfall a machine, settings or a disk that has it, and one that has
//! none.

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tempfile::TempDir;

use crate::disk::{
    BROKER, clean, files, hex, metadata, metadata_of, scratch, state, three_batches,
};
use crate::process::{Run, run};

/// A machine, settings and a disk that are as they should be, to spoil.
pub(crate) struct Patient {
    dir: TempDir,
    args: Vec<String>,
}

impl Patient {
    pub(crate) fn healthy() -> Self {
        let mounts = b"22 1 8:1 / / rw,noatime shared:1 - ext4 /dev/sda1 rw\n";
        let dir = scratch(&[
            ("machine/proc/self/mountinfo", mounts),
            ("machine/proc/self/limits", b"Max open files  100000  100000  files\n"),
            ("machine/proc/sys/vm/max_map_count", b"65530\n"),
            ("machine/sys/dev/block/8:1/queue/rotational", b"0\n"),
            ("server.properties", PROPERTIES),
            ("disk/meta.properties", b"version=1\n"),
            ("disk/t-0/00000000000000000000.log", &three_batches()),
        ]);
        let args = ["--json", "--root", "machine", "--min-free", "0", "--config"];
        let args = args.into_iter().chain(["server.properties", "disk"]);
        Self { args: args.map(str::to_owned).collect(), dir }
    }

    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn arg(&mut self, name: &str, value: &str) {
        self.args.extend([name.to_owned(), value.to_owned()]);
    }

    fn mount(&self, options: &str, fs: &str) {
        let line = format!("22 1 8:1 / / {options} shared:1 - {fs}\n");
        self.write("machine/proc/self/mountinfo", line);
    }

    pub(crate) fn setting(&self, line: &str) {
        self.write("server.properties", [PROPERTIES, line.as_bytes(), b"\n"].concat());
    }

    pub(crate) fn examine(&self) -> Run {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        run(self.dir.path(), &[&["doctor"][..], &args].concat())
    }
}

/// What was found, by id.
fn found(run: &Run) -> BTreeSet<String> {
    assert_eq!(run.stderr, "");
    let lines = run.text().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| Some(line["id"].as_str()?.to_owned())).collect()
}

/// Puts a time into the header of the batch at byte `at`; heads are read without a checksum.
fn set_time(log: &mut [u8], at: usize, time: i64) {
    log[at + 35..at + 43].copy_from_slice(&time.to_be_bytes());
}

/// Ordinary settings of a broker, some of other parts of it but spelled much like ours.
const PROPERTIES: &[u8] = b"\
log.segment.bytes=16777216
listeners=PLAINTEXT://:9092
offsets.retention.minutes=10080
offsets.retention.check.interval.ms=600000
log.local.retention.ms=-2
log.local.retention.bytes=-2
";

const NOW: i64 = 1_750_000_000_000;

fn shifted(offsets: i64, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[..8].copy_from_slice(&offsets.to_be_bytes());
    bytes
}

/// A compacted partition of two segments, the first of which was written this long ago.
pub(crate) fn uncleaned(patient: &Patient, age: Duration) {
    uncleaned_of(patient, &three_batches(), age);
}

fn uncleaned_of(patient: &Patient, batches: &[u8], since: Duration) {
    patient.write("disk/t-0/00000000000000000000.log", &batches[..236]);
    patient.write("disk/t-0/00000000000000000006.log", &batches[236..]);
    patient.write("disk/cleaner-offset-checkpoint", "0\n1\nt 0 0\n");
    age(patient, "disk/t-0/00000000000000000000.log", since);
}

/// The metadata log says of the topic `t` that it is compacted, and this beside it.
fn says_compact(patient: &Patient, more: &[(&str, &str)]) {
    let own = [&[("cleanup.policy", "compact")], more].concat();
    let own: Vec<_> = own.into_iter().map(|(key, value)| ("t", key, value)).collect();
    let path = "disk/__cluster_metadata-0/00000000000000000000.log";
    patient.write(path, metadata(&["t"], &own));
}

/// The metadata log says this of all brokers.
pub(crate) fn says_of_broker(patient: &Patient, settings: &[(&str, &str)]) {
    let own: Vec<_> = settings.iter().map(|(key, value)| (BROKER, "", *key, *value)).collect();
    let path = "disk/__cluster_metadata-0/00000000000000000000.log";
    patient.write(path, metadata_of(&[], &own));
}

/// Three batches of some days ago.
fn days_old(days: u64) -> Vec<u8> {
    let since = Duration::from_hours(24 * days);
    let time = (now() - since).duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let mut log = three_batches();
    for at in [0, 118, 236] {
        set_time(&mut log, at, i64::try_from(time.as_millis()).unwrap());
    }
    log
}

#[expect(clippy::disallowed_methods, reason = "files get their times from the same clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

fn age(patient: &Patient, path: &str, age: Duration) {
    let file = File::options().write(true).open(patient.dir.path().join(path)).unwrap();
    file.set_times(FileTimes::new().set_modified(now() - age)).unwrap();
}

fn copy_partition(patient: &Patient, name: &str) {
    let from = clean().join(name);
    for file in files(&from) {
        let to = format!("disk/{name}/{}", file.display());
        patient.write(&to, fs::read(from.join(file)).unwrap());
    }
}

type Spoil = fn(&mut Patient);

/// For each pitfall what has it. Some have it in more than one way.
const PITFALLS: &[(&str, Spoil)] = &[
    ("atime", |patient| patient.mount("rw,relatime", "ext4 /dev/sda1 rw")),
    ("atime", |patient| patient.mount("rw", "ext4 /dev/sda1 rw")),
    ("barriers", |patient| patient.mount("rw,noatime", "ext4 /dev/sda1 rw,nobarrier")),
    ("file-system", |patient| patient.mount("rw,noatime", "nfs4 host:/data rw")),
    ("file-system", |patient| patient.mount("rw,noatime", "tmpfs tmpfs rw")),
    ("file-system", |patient| patient.mount("rw,noatime", "fuse.sshfs host:/ rw")),
    ("parity-raid", |patient| patient.write("machine/sys/dev/block/8:1/md/level", "raid5\n")),
    ("rotational", |patient| patient.write("machine/sys/dev/block/8:1/queue/rotational", "1\n")),
    ("free-space", |patient| {
        let percent = patient.args.iter_mut().find(|arg| *arg == "0").unwrap();
        percent.replace_range(.., "101");
    }),
    ("descriptors", |patient| {
        patient.write("machine/proc/self/limits", "Max open files  1000  100000  files\n");
    }),
    ("descriptors", |patient| {
        patient.write("machine/proc/77/limits", "Max open files  1000  100000  files\n");
        patient.arg("--pid", "77");
    }),
    ("maps", |patient| patient.write("machine/proc/sys/vm/max_map_count", "2001\n")),
    ("flush-every-message", |patient| patient.setting("log.flush.interval.messages=1")),
    ("tiny-segments", |patient| patient.arg("--set", "segment.bytes=1048576")),
    ("tiny-segments", |patient| patient.arg("--set", "segment.ms=60000")),
    ("tiny-segments", |patient| {
        for base in 9..30 {
            patient.write(&format!("disk/t-0/{base:020}.log"), "");
        }
    }),
    ("large-compacted-segments", |patient| {
        patient.arg("--set", "segment.bytes=1073741824");
        patient.arg("--set", "cleanup.policy=compact");
    }),
    ("large-compacted-segments", |patient| {
        patient.write("disk/cleaner-offset-checkpoint", "0\n1\nt 0 9\n");
        let log = patient.dir.path().join("disk/t-0/00000000000000000000.log");
        File::options().write(true).open(log).unwrap().set_len(1 << 30).unwrap();
        // Nobody has to read the large one: no producers up to the next segment.
        patient.write("disk/t-0/00000000000000000009.log", "");
        patient.write("disk/t-0/00000000000000000009.snapshot", hex("000148674bc700000000"));
        patient.args.push("--quick".to_owned());
    }),
    ("large-compacted-segments", |patient| {
        says_compact(patient, &[]);
        let log = patient.dir.path().join("disk/t-0/00000000000000000000.log");
        File::options().write(true).open(log).unwrap().set_len(1 << 30).unwrap();
        patient.write("disk/t-0/00000000000000000009.log", "");
        patient.write("disk/t-0/00000000000000000009.snapshot", hex("000148674bc700000000"));
        patient.args.push("--quick".to_owned());
    }),
    ("retention-below-roll", |patient| patient.setting("log.retention.hours=1")),
    ("retention-below-roll", |patient| {
        let log = metadata(&["t"], &[("t", "retention.ms", "3600000")]);
        patient.write("disk/__cluster_metadata-0/00000000000000000000.log", log);
    }),
    ("out-of-order-timestamps", |patient| {
        let mut log = three_batches();
        set_time(&mut log, 118, 3_600_000);
        patient.write("disk/t-0/00000000000000000000.log", log);
    }),
    ("out-of-order-timestamps", |patient| {
        let mut log = three_batches();
        set_time(&mut log, 0, 3_600_000);
        patient.write("disk/t-0/00000000000000000000.log", &log[..118]);
        patient.write("disk/t-0/00000000000000000003.log", shifted(3, &log[118..236]));
    }),
    ("future-timestamps", |patient| {
        let mut log = three_batches();
        set_time(&mut log, 236, NOW + 1);
        patient.write("disk/t-0/00000000000000000000.log", log);
        patient.arg("--now", &NOW.to_string());
    }),
    ("stuck-cleaner", |patient| uncleaned(patient, Duration::from_hours(48))),
    ("stuck-cleaner", |patient| {
        uncleaned(patient, Duration::from_mins(1));
        patient.write("disk/cleaner-offset-checkpoint", "0\n1\nt 0 77\n");
    }),
    // The cleaner has died before its first pass.
    ("stuck-cleaner", |patient| {
        uncleaned(patient, Duration::from_hours(48));
        fs::remove_file(patient.dir.path().join("disk/cleaner-offset-checkpoint")).unwrap();
        says_compact(patient, &[("min.compaction.lag.ms", "43200000")]);
    }),
    ("stuck-cleaner", |patient| {
        patient.setting("log.cleaner.min.cleanable.ratio=1");
        uncleaned(patient, Duration::from_hours(48));
        says_compact(patient, &[("min.cleanable.dirty.ratio", "0.5")]);
    }),
    // Below the ratio, and two days late.
    ("stuck-cleaner", |patient| {
        let age = Duration::from_hours(48);
        uncleaned_of(patient, &days_old(4), age);
        says_compact(
            patient,
            &[("min.cleanable.dirty.ratio", "1"), ("max.compaction.lag.ms", "172800000")],
        );
    }),
    ("hanging-transaction", |patient| {
        copy_partition(patient, "transactions-0");
        patient.arg("--ignore", "out-of-order-timestamps");
        patient.arg("--ignore", "future-timestamps");
    }),
    // What the cluster sets for the broker.
    ("flush-every-message", |patient| {
        says_of_broker(patient, &[("log.flush.interval.messages", "1")]);
    }),
    ("stuck-cleaner", |patient| {
        uncleaned(patient, Duration::from_hours(48));
        patient.setting("log.cleaner.min.cleanable.ratio=1");
        says_of_broker(patient, &[("log.cleaner.min.cleanable.ratio", "0.5")]);
    }),
    ("misspelled-setting", |patient| patient.setting("log.retention.hour=1")),
];

#[test]
fn each_pitfall_is_found_where_it_is_and_nothing_else() {
    for (index, (id, spoil)) in PITFALLS.iter().enumerate() {
        let mut patient = Patient::healthy();
        spoil(&mut patient);
        let run = patient.examine();
        assert_eq!(run.code, Some(1), "{id}, case {index}: {}{}", run.text(), run.stderr);
        assert_eq!(found(&run), BTreeSet::from([(*id).to_owned()]), "case {index}: {}", run.text());
    }
}

#[test]
fn nothing_is_found_where_all_is_well() {
    let patient = Patient::healthy();
    let run = patient.examine();
    assert_eq!(found(&run), BTreeSet::new(), "{}", run.text());
    assert_eq!(run.code, Some(0));
}

/// What is near a pitfall, and none.
const NONE: &[(&str, Spoil)] = &[
    ("an unlimited number of descriptors", |patient| {
        patient.write("machine/proc/self/limits", "Max open files  unlimited unlimited files");
    }),
    ("a mirror", |patient| patient.write("machine/sys/dev/block/8:1/md/level", "raid1\n")),
    ("xfs", |patient| patient.mount("rw,noatime", "xfs /dev/sda1 rw,attr2")),
    ("a deeper mount elsewhere", |patient| {
        let mounts = "22 1 8:1 / / rw,noatime - ext4 /dev/sda1 rw\n\
                          23 22 0:3 / /elsewhere rw,relatime - nfs4 host:/x rw\n";
        patient.write("machine/proc/self/mountinfo", mounts);
    }),
    ("no machine to ask", |patient| patient.arg("--root", "nowhere")),
    ("retention as long as a segment", |patient| patient.setting("log.retention.hours=168")),
    ("producers that differ by minutes", |patient| {
        let mut log = three_batches();
        set_time(&mut log, 0, 500_000);
        patient.write("disk/t-0/00000000000000000000.log", log);
    }),
    ("a cleaner that is not late", |patient| uncleaned(patient, Duration::from_hours(1))),
    ("a topic that wants to be all dirty", |patient| {
        uncleaned(patient, Duration::from_hours(48));
        says_compact(patient, &[("min.cleanable.dirty.ratio", "1")]);
    }),
    ("records that the topic's cleaner is to leave for a week", |patient| {
        // Their file is older: it came from elsewhere.
        uncleaned_of(patient, &days_old(2), Duration::from_hours(24 * 40));
        says_compact(patient, &[("min.compaction.lag.ms", "604800000")]);
    }),
    ("records that became old enough half a day ago", |patient| {
        uncleaned(patient, Duration::from_hours(48));
        says_compact(patient, &[("min.compaction.lag.ms", "129600000")]);
    }),
    ("a compacted log that is one day late", |patient| {
        uncleaned_of(patient, &days_old(4), Duration::from_hours(48));
        says_compact(
            patient,
            &[("min.cleanable.dirty.ratio", "1"), ("max.compaction.lag.ms", "302400000")],
        );
    }),
    ("old records that came an hour ago", |patient| {
        uncleaned_of(patient, &days_old(4), Duration::from_hours(1));
        says_compact(
            patient,
            &[("min.cleanable.dirty.ratio", "1"), ("max.compaction.lag.ms", "3600000")],
        );
    }),
    ("a log that retention dropped more of than was cleaned", |patient| {
        uncleaned(patient, Duration::from_hours(1));
        let log = fs::read(patient.dir.path().join("disk/t-0/00000000000000000000.log"));
        patient.write("disk/t-0/00000000000000000003.log", &log.unwrap()[118..]);
        fs::remove_file(patient.dir.path().join("disk/t-0/00000000000000000000.log")).unwrap();
        let own = [("cleanup.policy", "compact,delete")];
        says_compact(patient, &own);
    }),
    ("a setting of the file that the cluster sets otherwise", |patient| {
        patient.setting("log.flush.interval.messages=1");
        says_of_broker(patient, &[("log.flush.interval.messages", "100")]);
    }),
    ("a segment that made the log dirty just now, behind old ones", |patient| {
        let log = three_batches();
        patient.write("disk/t-0/00000000000000000000.log", &log[..118]);
        patient.write("disk/t-0/00000000000000000003.log", &log[118..236]);
        patient.write("disk/t-0/00000000000000000006.log", &log[236..]);
        patient.write("disk/t-0/00000000000000000009.log", "");
        patient.write("disk/cleaner-offset-checkpoint", "0\n1\nt 0 3\n");
        patient.setting("log.cleaner.min.cleanable.ratio=0.6");
        age(patient, "disk/t-0/00000000000000000003.log", Duration::from_hours(48));
    }),
    ("an entry of the cleaner from when the topic was compacted", |patient| {
        uncleaned(patient, Duration::from_hours(48));
        let log = metadata(&["t"], &[("t", "cleanup.policy", "delete")]);
        patient.write("disk/__cluster_metadata-0/00000000000000000000.log", log);
    }),
    ("twenty small segments of a compacted topic", |patient| {
        patient.write("disk/cleaner-offset-checkpoint", "0\n1\nt 0 29\n");
        for base in 9..30 {
            patient.write(&format!("disk/t-0/{base:020}.log"), "");
        }
        // Up to the last of them the log ends.
        patient.write("disk/t-0/00000000000000000029.log", "");
    }),
];

#[test]
fn what_only_looks_like_a_pitfall_is_none() {
    for (what, spoil) in NONE {
        let mut patient = Patient::healthy();
        patient.args.retain(|arg| arg != "machine" || *what != "no machine to ask");
        if *what == "no machine to ask" {
            patient.args.retain(|arg| arg != "--root");
        }
        spoil(&mut patient);
        let run = patient.examine();
        assert_eq!(found(&run), BTreeSet::new(), "{what}: {}", run.text());
    }
}

/// The ids that `--ignore` takes are those of the table.
#[test]
fn every_pitfall_has_a_case_here() {
    let app = alluvium::command();
    let doctor = app.find_subcommand("doctor").unwrap();
    let ignore = doctor.get_arguments().find(|arg| arg.get_id() == "ignore").unwrap();
    let known: BTreeSet<String> =
        ignore.get_possible_values().iter().map(|id| id.get_name().to_owned()).collect();
    let tried: BTreeSet<String> = PITFALLS.iter().map(|(id, _)| (*id).to_owned()).collect();
    assert_eq!(tried, known);
}

#[test]
fn what_is_ignored_is_not_found() {
    let mut patient = Patient::healthy();
    patient.arg("--set", "flush.messages=1");
    patient.arg("--ignore", "flush-every-message");
    assert_eq!(patient.examine().code, Some(0));
    patient.arg("--ignore", "nonsense");
    assert_eq!(patient.examine().code, Some(2));
}

#[test]
fn a_finding_comes_with_its_cause_and_a_remedy_and_nothing_changes() {
    let mut patient = Patient::healthy();
    patient.mount("rw,relatime", "ext4 /dev/sda1 rw");
    let before = state(patient.dir.path());
    patient.args.retain(|arg| arg != "--json");
    let run = patient.examine();
    let text = run.text();
    assert!(text.starts_with("atime disk\n  / is mounted with relatime\n  cause   "), "{text}");
    assert!(text.contains("\n  remedy  Mount the disk with noatime"), "{text}");
    assert!(text.ends_with("\n1 finding on 1 partition, 1 segment\n"), "{text}");
    assert_eq!(state(patient.dir.path()), before);
}

#[test]
fn cause_and_remedy_stand_once_behind_all_findings_of_a_pitfall() {
    let mut patient = Patient::healthy();
    let settings = [("t", "retention.ms", "3600000"), ("u", "retention.ms", "3600000")];
    patient.write(
        "disk/__cluster_metadata-0/00000000000000000000.log",
        metadata(&["t", "u"], &settings),
    );
    patient.args.retain(|arg| arg != "--json");
    let text = patient.examine().text().to_owned();
    assert_eq!(text.matches("\nretention-below-roll topic u\n  ").count(), 1, "{text}");
    assert!(text.starts_with("retention-below-roll topic t\n  "), "{text}");
    assert_eq!(text.matches("  cause   ").count(), 1, "{text}");
    assert_eq!(text.matches("  remedy  ").count(), 1, "{text}");
    assert!(text.find("  cause   ") > text.find("topic u"), "{text}");
}

/// What retention never drops is not overtaken by it.
#[test]
fn a_checkpoint_below_the_start_of_a_log_that_is_only_compacted_is_found() {
    let patient = Patient::healthy();
    uncleaned(&patient, Duration::from_hours(1));
    let [one, three] = ["0", "3"].map(|base| format!("disk/t-0/{base:0>20}.log"));
    let log = fs::read(patient.dir.path().join(&one)).unwrap();
    patient.write(&three, &log[118..]);
    fs::remove_file(patient.dir.path().join(one)).unwrap();
    says_compact(&patient, &[]);
    let run = patient.examine();
    assert_eq!(found(&run), BTreeSet::from(["stuck-cleaner".to_owned()]), "{}", run.text());
    assert!(run.text().contains("checkpoint says 0, the log starts at 3"), "{}", run.text());
}

/// It is told, and hides nothing else.
#[test]
fn a_checkpoint_that_is_damaged_is_named_once_beside_the_findings() {
    let patient = Patient::healthy();
    patient.mount("rw,relatime", "ext4 /dev/sda1 rw");
    patient.write("disk/t-1/00000000000000000000.log", three_batches());
    patient.write("disk/replication-offset-checkpoint", "0\n1\nt\n");
    says_compact(&patient, &[]);
    let run = patient.examine();
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(run.text().contains(r#""id":"atime""#), "{}", run.text());
}

#[test]
fn what_is_no_disk_of_kafkas_is_refused() {
    let dir = scratch(&[("x/y", b"")]);
    assert_eq!(run(dir.path(), &["doctor", "x"]).code, Some(2));
    assert_eq!(run(Path::new("/"), &["doctor", "/nowhere"]).code, Some(2));
}
