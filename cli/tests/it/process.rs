//! The command as a process: exit codes, help, closed pipes.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run of the command left behind.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.stdout).unwrap()
    }
}

/// The command with `args` in the directory `dir`.
pub(crate) fn command<S: AsRef<OsStr>>(dir: &Path, args: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alluvium"));
    command.current_dir(dir).args(args);
    command
}

/// Runs the command to its end.
pub(crate) fn run<S: AsRef<OsStr>>(dir: &Path, args: &[S]) -> Run {
    let output = command(dir, args).output().unwrap();
    Run {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    for args in [&["dump"][..], &["frobnicate"], &["dump", "--format", "xml", "x"], &[]] {
        let run = run(Path::new("/"), args);
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.stderr);
        assert!(run.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_log_directory_is_refused_where_a_partition_is_asked_for() {
    let disk = crate::disk::scratch(&[("meta.properties", b""), ("t-0/partition.metadata", b"")]);
    let before = crate::disk::files(disk.path());
    for args in [
        &["dump", "."][..],
        &["dump", "--format", "jsonl", "."],
        &["lookup", ".", "--offset", "1"],
        &["truncate", ".", "--to", "0"],
        &["truncate", ".", "--to", "0", "--dry-run"],
        &["salvage", ".", "u-0"],
        &["salvage", "t-0", "bad"],
        &["dump", "/proc/self/status"],
    ] {
        let run = run(disk.path(), args);
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.stderr);
        assert!(run.stdout.is_empty(), "{args:?}");
    }
    assert_eq!(crate::disk::files(disk.path()), before);
}

#[test]
fn lookup_without_a_target_names_both_options() {
    let run = run(Path::new("/"), &["lookup", "x-0"]);
    assert_eq!(run.code, Some(2));
    assert!(
        run.stderr.contains("--offset") && run.stderr.contains("--timestamp"),
        "{}",
        run.stderr
    );
}

#[test]
fn help_and_version_exit_with_0_on_standard_output() {
    for args in [&["--help"][..], &["--version"], &["help", "dump"], &["dump", "-h"]] {
        let run = run(Path::new("/"), args);
        assert_eq!(run.code, Some(0), "{args:?}");
        assert!(!run.stdout.is_empty() && run.stderr.is_empty(), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn completions_and_man_pages_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let run = run(Path::new("/"), &["completions", shell]);
        assert_eq!(run.code, Some(0));
        assert!(run.text().contains("verify") && run.text().contains("lookup"), "{shell}");
    }
    let page = run(Path::new("/"), &["man"]);
    assert!(page.text().contains(".TH alluvium 1"), "{}", page.text());
    let page = run(Path::new("/"), &["man", "verify"]);
    assert!(page.text().contains("torn\\-tail"), "{}", page.text());
    assert_eq!(run(Path::new("/"), &["man", "frobnicate"]).code, Some(2));
}

#[test]
fn a_closed_pipe_ends_the_command_quietly() {
    let dir = crate::disk::clean();
    let log = "transactions-0/00000000000000000004.log";
    let logs = vec![log; 200];
    let args = [&["dump", "--format", "kafka", "--print-data-log"][..], &logs].concat();
    let mut child =
        command(&dir, &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    // The pipe is closed here, long before all is written.
    let output = child.wait_with_output().unwrap();
    assert_eq!(&first, b"Dumping tr");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}
