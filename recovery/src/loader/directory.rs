//! The directory as it is after the changes so far, made or only planned.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;

use alluvium_record_format::{Offset, Position};
use alluvium_segment::{FileKind, Io, PartitionDir, SegmentFileName, Suffix};

use super::make::PlannedStep;
use super::snapshots::Snapshots;
use super::{Change, Reason, Step};
use crate::durable::{TEMPORARY, read_file, read_range};
use crate::producers::is_snapshot;
use crate::scan::LogFile;
use crate::snapshot::read_snapshot_bytes;
use crate::{Damage, DamageKind, FileAction, FileError};

/// The files of a log, as the load sees them.
///
/// While it applies, each change is made at once. While it plans, none is made, and later parts
/// of the load see the directory as it would be: through this type alone.
#[derive(Debug)]
pub(super) struct Directory {
    dir: Arc<PartitionDir>,
    path: PathBuf,
    is_plan: bool,
    files: BTreeMap<SegmentFileName, FileState>,
    /// The bases of the segments, once somebody has asked and until one comes or goes.
    bases: Option<Arc<[Offset]>>,
    pub(super) snapshots: Snapshots,
    foreign: Vec<String>,
    steps: Vec<PlannedStep>,
}

/// One file: where its bytes are.
#[derive(Clone, Debug)]
struct FileState {
    /// The name on disk, which a plan does not change.
    on_disk: SegmentFileName,
    /// The first byte, which is not 0 for a part of a segment whose split is planned.
    start: u32,
    /// The length, once somebody has asked or changed it.
    len: Option<u64>,
    /// The content, where it is planned and not written.
    content: Option<Arc<[u8]>>,
}

/// What is dealt with once all names are known.
#[derive(Debug, Default)]
struct Odd {
    /// Names of logs that are no files.
    no_files: Vec<SegmentFileName>,
    /// Files that were being written when the process ended.
    temporary: Vec<PathBuf>,
}

impl FileState {
    const fn new(on_disk: SegmentFileName) -> Self {
        Self { on_disk, start: 0, len: None, content: None }
    }
}

impl Directory {
    /// Lists a partition directory. Unless it plans, it removes what a crash has left of a file
    /// that was being written.
    pub(super) fn open(dir: &Arc<PartitionDir>, is_plan: bool) -> Result<Self, FileError> {
        let mut this = Self {
            dir: Arc::clone(dir),
            path: dir.path(),
            is_plan,
            files: BTreeMap::new(),
            bases: None,
            snapshots: Snapshots::default(),
            foreign: Vec::new(),
            steps: Vec::new(),
        };
        let path = this.path.clone();
        let failed = |e| FileError::io(&path, FileAction::List, e);
        let mut odd = Odd::default();
        for entry in fs::read_dir(&path).map_err(failed)? {
            this.list(&entry.map_err(failed)?, &mut odd)?;
        }
        for log in odd.no_files {
            this.leave_alone(log)?;
        }
        for path in odd.temporary.iter().filter(|_| !is_plan) {
            let failed = |e| FileError::io(path, FileAction::Remove, e);
            this.io().remove(path).map_err(failed)?;
        }
        Ok(this)
    }

    /// What has the name of a log and is no file is none of ours, unless a segment's indexes stand
    /// beside it: then its records are gone, and the indexes are no orphans.
    fn leave_alone(&mut self, log: SegmentFileName) -> Result<(), FileError> {
        if !FileKind::SEGMENT.iter().any(|kind| self.has(log.offset, *kind)) {
            self.foreign.push(log.to_string());
            return Ok(());
        }
        let path = self.dir.file_path(log);
        let error = if path.is_dir() {
            ErrorKind::IsADirectory.into()
        } else {
            io::Error::new(ErrorKind::InvalidInput, "not a regular file")
        };
        Err(FileError::io(&path, FileAction::Open, error))
    }

    fn list(&mut self, entry: &fs::DirEntry, odd: &mut Odd) -> Result<(), FileError> {
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        let failed = |action| {
            let path = &path;
            move |e| FileError::io(path, action, e)
        };
        let kind = entry.file_type().map_err(failed(FileAction::Read))?;
        let parsed = SegmentFileName::parse(&name);
        let is_file = match parsed {
            // A link to nothing is a file that cannot be read, not one that is not there: its
            // indexes and snapshots are no orphans.
            Some(_) if kind.is_symlink() => {
                fs::metadata(&path).map_err(failed(FileAction::Open))?.is_file()
            }
            _ => kind.is_file() || (kind.is_symlink() && path.is_file()),
        };
        if !is_file
            && path.is_dir()
            && parsed.is_some_and(|it| it.kind != FileKind::Log && it.suffix == Suffix::None)
        {
            // Before anything is changed, and in a plan too.
            return Err(failed(FileAction::Open)(ErrorKind::IsADirectory.into()));
        }
        match parsed {
            // What cannot be opened is found when it is.
            Some(file)
                if is_file || (file.kind != FileKind::Log && file.suffix == Suffix::None) =>
            {
                self.insert(file, FileState::new(file));
            }
            Some(log) if log.suffix == Suffix::None => odd.no_files.push(log),
            None if is_file && is_temporary(&name) => odd.temporary.push(path),
            None if is_known(&name) => {}
            _ => self.foreign.push(name),
        }
        Ok(())
    }

    /// The directory itself.
    pub(super) const fn dir(&self) -> &Arc<PartitionDir> {
        &self.dir
    }

    /// Where it is.
    pub(super) const fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Whether nothing is changed on disk.
    pub(super) const fn is_plan(&self) -> bool {
        self.is_plan
    }

    /// Names that no log writes.
    pub(super) fn take_foreign(&mut self) -> Vec<String> {
        std::mem::take(&mut self.foreign)
    }

    /// The changes so far.
    pub(super) fn into_steps(self) -> Vec<PlannedStep> {
        self.steps
    }

    /// All names and lengths.
    pub(super) fn listing(&mut self) -> Result<Vec<(SegmentFileName, u64)>, FileError> {
        self.names().into_iter().map(|name| Ok((name, self.len(name)?))).collect()
    }

    /// All names, by offset, kind and suffix.
    pub(super) fn names(&self) -> Vec<SegmentFileName> {
        self.files.keys().copied().collect()
    }

    /// Whether there is such a file.
    pub(super) fn is_there(&self, name: SegmentFileName) -> bool {
        self.files.contains_key(&name)
    }

    /// Whether a segment has such a file in use.
    pub(super) fn has(&self, offset: Offset, kind: FileKind) -> bool {
        self.is_there(SegmentFileName::new(offset, kind))
    }

    /// The base offsets of all segments in use, rising.
    pub(super) fn bases(&self) -> Vec<Offset> {
        self.logs().collect()
    }

    /// As [`Self::bases`], for who asks again and again: they are listed once.
    pub(super) fn shared_bases(&mut self) -> Arc<[Offset]> {
        if let Some(bases) = &self.bases {
            return Arc::clone(bases);
        }
        let bases: Arc<[Offset]> = self.logs().collect();
        self.bases = Some(Arc::clone(&bases));
        bases
    }

    /// The last of [`Self::bases`], without a look at the others.
    pub(super) fn last_base(&self) -> Option<Offset> {
        self.logs().next_back()
    }

    fn logs(&self) -> impl DoubleEndedIterator<Item = Offset> {
        let is_log =
            |name: &&SegmentFileName| name.kind == FileKind::Log && name.suffix == Suffix::None;
        self.files.keys().filter(is_log).map(|name| name.offset)
    }

    /// The length of a file; 0 for one that is not there.
    pub(super) fn len(&mut self, name: SegmentFileName) -> Result<u64, FileError> {
        let dir = Arc::clone(&self.dir);
        let Some(state) = self.files.get_mut(&name) else { return Ok(0) };
        if let Some(len) = state.len {
            return Ok(len);
        }
        let path = dir.file_path(state.on_disk);
        let stat = fs::metadata(&path).map_err(|e| FileError::io(&path, FileAction::Read, e))?;
        state.len = Some(stat.len());
        Ok(stat.len())
    }

    /// Opens a log file to scan it.
    pub(super) fn open_log(&mut self, name: SegmentFileName) -> Result<LogFile, FileError> {
        let found = self.len(name)?;
        let state = self.files.get(&name);
        let (on_disk, start) = state.map_or((name, 0), |state| (state.on_disk, state.start));
        let path = self.dir.file_path(on_disk);
        let max = MAX_LOG_BYTES.into();
        let too_large =
            Damage::at_byte(Position::new(MAX_LOG_BYTES), DamageKind::TooLarge { found, max });
        let len = u32::try_from(found).ok().filter(|len| *len <= MAX_LOG_BYTES);
        let len = len.ok_or_else(|| FileError::corrupt(&path, too_large))?;
        LogFile::open(self.io(), &path, start, len)
    }

    /// The content of a file of at most `max` bytes; nothing for one that is not there.
    pub(super) fn read(&self, name: SegmentFileName, max: u64) -> Result<Vec<u8>, FileError> {
        match self.files.get(&name) {
            Some(FileState { content: Some(content), .. }) => Ok(content.to_vec()),
            Some(state) => read_file(self.io(), &self.dir.file_path(state.on_disk), max),
            None => Ok(Vec::new()),
        }
    }

    /// The content of a snapshot.
    pub(super) fn read_snapshot(&self, name: SegmentFileName) -> Result<Vec<u8>, FileError> {
        match self.files.get(&name) {
            Some(FileState { content: Some(content), .. }) => Ok(content.to_vec()),
            Some(state) => read_snapshot_bytes(self.io(), &self.dir.file_path(state.on_disk)),
            None => Ok(Vec::new()),
        }
    }

    /// The length of a file, and its last `count` bytes, fewer where it is shorter.
    pub(super) fn read_end(
        &self,
        name: SegmentFileName,
        count: u64,
    ) -> Result<(u64, Vec<u8>), FileError> {
        let Some(state) = self.files.get(&name) else { return Ok((0, Vec::new())) };
        if let Some(content) = &state.content {
            let len = u64::try_from(content.len()).unwrap_or(u64::MAX);
            let start = usize::try_from(len.saturating_sub(count)).unwrap_or(usize::MAX);
            return Ok((len, content.get(start..).unwrap_or_default().to_vec()));
        }
        let path = self.dir.file_path(state.on_disk);
        let fail = |action| {
            let path = &path;
            move |e| FileError::io(path, action, e)
        };
        let file = self.io().open(&path, false).map_err(fail(FileAction::Open))?;
        let len = file.metadata().map_err(fail(FileAction::Read))?.len();
        let start = len.saturating_sub(count);
        Ok((len, read_range(self.io(), &file, &path, start, count.min(len))?))
    }

    /// Makes a change, or only notes it.
    pub(super) fn change(&mut self, change: Change, reason: Reason) -> Result<(), FileError> {
        let step = Step::new(change, reason);
        self.make(PlannedStep { step, content: Arc::default(), sync: false })
    }

    /// Gives a file this content. `sync` makes its bytes durable: where no later start would look
    /// at the file again.
    pub(super) fn write(
        &mut self,
        file: SegmentFileName,
        content: Vec<u8>,
        reason: Reason,
        sync: bool,
    ) -> Result<(), FileError> {
        let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let step = Step::new(Change::Write { file, bytes }, reason);
        self.make(PlannedStep { step, content: content.into(), sync })
    }

    /// Notes that a segment was, or will be, split: its parts begin at these offsets and bytes.
    ///
    /// Their indexes are not in view, so that a load and its plan make them alike.
    pub(super) fn split(&mut self, base: Offset, parts: &[(Offset, u32, u32)], reason: Reason) {
        let into = parts.iter().map(|(base, ..)| *base).collect();
        let step = Step::new(Change::Split { base, into }, reason);
        self.steps.push(PlannedStep { step, content: Arc::default(), sync: false });
        let log = SegmentFileName::new(base, FileKind::Log);
        let source = self.files.get(&log).map_or((log, 0), |state| (state.on_disk, state.start));
        for base in parts.iter().map(|part| part.0).chain([base]) {
            for kind in FileKind::SEGMENT {
                self.take(SegmentFileName::new(base, kind));
            }
        }
        for (base, start, len) in parts.iter().copied() {
            let name = |kind| SegmentFileName::new(base, kind);
            let mut state = FileState::new(name(FileKind::Log));
            if self.is_plan {
                state.on_disk = source.0;
                state.start = source.1.saturating_add(start);
                state.len = Some(len.into());
            }
            self.insert(name(FileKind::Log), state);
        }
    }

    fn make(&mut self, mut planned: PlannedStep) -> Result<(), FileError> {
        tracing::debug!(dir = %self.path.display(), step = %planned.step, "load");
        if !self.is_plan {
            planned.make(&self.dir)?;
        }
        self.follow(&mut planned);
        self.steps.push(planned);
        Ok(())
    }

    /// Shows a change to the later parts of the load.
    fn follow(&mut self, planned: &mut PlannedStep) {
        match &planned.step.change {
            Change::Remove(file) => drop(self.take(*file)),
            Change::Restore(file) => self.rename(*file, file.with_suffix(Suffix::None)),
            Change::MarkDeleted(file) => self.rename(*file, file.with_suffix(Suffix::Deleted)),
            Change::Cut { file, to_bytes, .. } => {
                if let Some(state) = self.files.get_mut(file) {
                    state.len = Some(*to_bytes);
                }
            }
            Change::Write { file, bytes } => {
                let mut state = FileState::new(*file);
                state.len = Some(*bytes);
                if self.is_plan {
                    state.content = Some(Arc::clone(&planned.content));
                } else {
                    planned.content = Arc::default();
                }
                self.insert(*file, state);
            }
            Change::Split { .. } | Change::ClearEpochs | Change::SyncNames => {}
        }
    }

    fn rename(&mut self, from: SegmentFileName, to: SegmentFileName) {
        if let Some(mut state) = self.take(from) {
            if !self.is_plan {
                state.on_disk = to;
            }
            self.insert(to, state);
        }
    }

    fn insert(&mut self, name: SegmentFileName, state: FileState) {
        self.forget_bases(name);
        self.files.insert(name, state);
        if is_snapshot(&name) {
            self.snapshots.in_view.insert(name.offset);
        }
    }

    fn take(&mut self, name: SegmentFileName) -> Option<FileState> {
        self.forget_bases(name);
        if is_snapshot(&name) {
            self.snapshots.in_view.remove(&name.offset);
        }
        self.files.remove(&name)
    }

    /// As a log comes or goes.
    fn forget_bases(&mut self, name: SegmentFileName) {
        if name.kind == FileKind::Log {
            self.bases = None;
        }
    }

    fn io(&self) -> &Io {
        self.dir.io()
    }
}

/// The largest log file: positions in indexes are signed 32-bit numbers.
const MAX_LOG_BYTES: u32 = i32::MAX.unsigned_abs();

/// What a crash leaves of a segment's file while it is replaced.
fn is_temporary(name: &str) -> bool {
    name.strip_suffix(TEMPORARY).and_then(SegmentFileName::parse).is_some()
}

/// Files of a partition directory that are no segment's.
fn is_known(name: &str) -> bool {
    let name = name.strip_suffix(TEMPORARY).unwrap_or(name);
    let known = [crate::LeaderEpochCache::FILE_NAME, crate::PartitionMetadata::FILE_NAME];
    // The last two are those of the metadata log.
    known.contains(&name) || name == "quorum-state" || name.contains(".checkpoint")
}
