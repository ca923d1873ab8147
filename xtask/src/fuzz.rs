//! `fuzz`: libFuzzer with the address sanitizer over the targets of `xtask/fuzz`.
//!
//! The layout is cargo-fuzz's, and `cargo fuzz run TARGET --fuzz-dir xtask/fuzz` works too. We
//! build by ourselves, with the flags that it uses: a bare machine then needs no tool but the
//! compiler.

mod seeds;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::golden::pack::{pack, unpack};
use crate::{flags, workspace};

/// How long all targets together run in a smoke test.
const SMOKE: Duration = Duration::from_mins(1);

/// The compiler's own target: with one named, build scripts are built without a sanitizer.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// What cargo-fuzz hands to rustc.
const RUSTFLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
    -Zsanitizer=address --cfg fuzzing -Ccodegen-units=1";

/// Why the targets cannot be built here, if they cannot.
pub(crate) fn missing() -> Option<String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Some(format!("needs {TRIPLE}, for the sanitizer"));
    }
    (!workspace::has("c++"))
        .then(|| "needs a C++ compiler: libFuzzer is built from source".to_owned())
}

/// Runs all targets for a minute, or one of them for as long as it is told.
///
/// # Errors
///
/// When a target fails: the input is kept, and the text names it.
pub(crate) fn run(flags: &flags::Fuzz) -> Result<()> {
    if let Some(reason) = missing() {
        bail!("{reason}");
    }
    let is_long = flags.minutes.is_some() || flags.target.is_some();
    ensure!(!(flags.smoke && is_long), "--smoke runs all targets, for a minute");
    let every = targets()?;
    let chosen = match &flags.target {
        Some(name) => {
            ensure!(every.contains(name), "no target `{name}`; there are {}", every.join(", "));
            vec![name.clone()]
        }
        None => every,
    };
    let fuzzer = Fuzzer::ready(&chosen)?;
    let time = match flags.minutes {
        Some(minutes) => Duration::from_secs(60 * minutes),
        None => SMOKE / u32::try_from(chosen.len()).unwrap_or(1),
    };
    let start = Instant::now();
    let mut inputs = 0;
    for target in &chosen {
        inputs += fuzzer.run(target, time, flags.seed.unwrap_or(1))?;
        if flags.keep {
            fuzzer.minimise(target)?;
        }
    }
    if flags.keep {
        pack(&fuzzer.corpus(), &packed())?;
    }
    let (count, seconds) = (chosen.len(), start.elapsed().as_secs_f64());
    println!("fuzz: {inputs} inputs to {count} targets in {seconds:.0} s, none failed");
    Ok(())
}

/// The names of the targets.
fn targets() -> Result<Vec<String>> {
    let files = workspace::entries(&home().join("fuzz_targets"))?;
    Ok(files.iter().map(|path| workspace::name(path).replace(".rs", "")).collect())
}

/// Where the targets lie.
fn home() -> PathBuf {
    workspace::root().join("xtask/fuzz")
}

/// The corpus that the repository keeps.
fn packed() -> PathBuf {
    home().join("corpus.tar.zst")
}

/// Built targets, and the inputs to begin with.
#[derive(Debug)]
struct Fuzzer {
    work: PathBuf,
    programs: PathBuf,
}

impl Fuzzer {
    fn ready(targets: &[String]) -> Result<Self> {
        let work = workspace::scratch().join("fuzz");
        let build = workspace::target().join("fuzz");
        let mut cargo = workspace::cargo();
        // The sanitizer's flag is not stable yet; the compiler is that of the workspace.
        cargo
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", RUSTFLAGS)
            .env("CARGO_TARGET_DIR", &build);
        cargo.env_remove("CARGO_ENCODED_RUSTFLAGS");
        cargo
            .args(["build", "--release", "--quiet", "--manifest-path"])
            .arg(home().join("Cargo.toml"));
        cargo.args(["--target", TRIPLE]);
        cargo.args(targets.iter().flat_map(|target| ["--bin", target]));
        workspace::run(&mut cargo)?;
        let fuzzer = Self { work, programs: build.join(TRIPLE).join("release") };
        fuzzer.fill_corpus()?;
        Ok(fuzzer)
    }

    /// What the repository keeps, what its golden files give, and what earlier runs found.
    fn fill_corpus(&self) -> Result<()> {
        let corpus = self.corpus();
        if packed().is_file() {
            let kept = self.work.join("kept");
            unpack(&packed(), &kept)?;
            for folder in workspace::entries(&kept)? {
                for path in workspace::entries(&folder)? {
                    let to = corpus.join(workspace::name(&folder)).join(workspace::name(&path));
                    copy(&path, &to)?;
                }
            }
        }
        seeds::put(&corpus)
    }

    fn corpus(&self) -> PathBuf {
        self.work.join("corpus")
    }

    /// Runs one target and returns how many inputs it was given.
    fn run(&self, target: &str, time: Duration, seed: u64) -> Result<u64> {
        let (corpus, found) = (self.corpus().join(target), self.work.join("failing").join(target));
        for dir in [&corpus, &found] {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let mut program = self.program(target);
        program.arg(format!("-max_total_time={}", time.as_secs().max(1)));
        program.arg(format!("-seed={}", u32::try_from(seed).unwrap_or(u32::MAX)));
        program.arg(format!("-artifact_prefix={}/", found.display()));
        program.args(["-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1"]);
        program.args(lengths(target)).arg(&corpus);
        let out = program.output().with_context(|| format!("cannot start {target}"))?;
        let said = String::from_utf8_lossy(&out.stderr);
        if !out.status.success() {
            let tail: Vec<_> = said.lines().rev().take(40).collect();
            let tail: Vec<_> = tail.into_iter().rev().collect();
            bail!("{target} failed, the input is in {}:\n{}", found.display(), tail.join("\n"));
        }
        let inputs = stat(&said, "number_of_executed_units").context("libFuzzer gave no count")?;
        println!("  {target:<18} {inputs:>9} inputs");
        Ok(inputs)
    }

    /// Keeps, of the corpus of a target, what reaches something that nothing else reaches.
    fn minimise(&self, target: &str) -> Result<()> {
        let (corpus, small) = (self.corpus().join(target), self.work.join("small").join(target));
        workspace::empty_dir(&small)?;
        let mut program = self.program(target);
        program.arg("-merge=1").args(lengths(target)).arg(&small).arg(&corpus);
        let out = program.output().with_context(|| format!("cannot start {target}"))?;
        ensure!(out.status.success(), "cannot merge the corpus of {target}");
        workspace::empty_dir(&corpus)?;
        for path in workspace::entries(&small)? {
            copy(&path, &corpus.join(workspace::name(&path)))?;
        }
        Ok(())
    }

    fn program(&self, target: &str) -> Command {
        let mut program = workspace::command(self.programs.join(target));
        // Leaks are none of a library that forbids unsafe code; the check costs a second a run.
        program.env("ASAN_OPTIONS", "detect_leaks=0");
        program
    }
}

/// How long inputs are. Bytes of a file grow as the fuzzer learns its form; lists of things to do
/// are worth little while they are short, and what finds rare features in them costs as much as
/// they.
fn lengths(target: &str) -> &'static [&'static str] {
    match target {
        "log" => &["-max_len=512", "-len_control=0", "-entropic=0"],
        "loader" | "index_rebuild" | "builder" => &["-max_len=4096", "-len_control=0"],
        _ => &["-max_len=16384"],
    }
}

fn stat(said: &str, name: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}
