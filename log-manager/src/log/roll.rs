//! A new active segment.

use std::io::ErrorKind;
use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_segment::{
    ActiveSegment, Birth, FileKind, RollInput, Segment, SegmentError, SegmentFileName, Suffix,
};

use super::append::Incoming;
use super::{Effects, Log, LogError, SegmentList, Shared, Writer};
use crate::LogConfig;

impl Log {
    /// Begins a new segment at the log end, and returns its base offset. An empty active segment
    /// is begun anew.
    ///
    /// Source: `UnifiedLog.roll` in Kafka.
    ///
    /// # Errors
    ///
    /// `Closed`, `Offline`; what making the files yields.
    pub fn roll(&self) -> Result<Offset, LogError> {
        self.change(|writer, shared, config, effects| writer.roll(shared, config, None, effects))
    }
}

impl Writer {
    /// Rolls if the append needs it.
    ///
    /// Source: `UnifiedLog.maybeRoll` in Kafka.
    pub(super) fn roll_for(
        &mut self,
        shared: &Shared,
        config: &LogConfig,
        incoming: &Incoming<'_>,
        effects: &mut Effects,
    ) -> Result<(), LogError> {
        let input = RollInput {
            append_bytes: u32::try_from(incoming.bytes.len()).unwrap_or(u32::MAX),
            max_timestamp: incoming.max_timestamp,
            max_offset: incoming.last_offset,
            segment_bytes: config.roll_bytes(),
            max_age_ms: i64::try_from(config.roll_ms()).unwrap_or(i64::MAX),
            now: incoming.now,
        };
        let Some(reason) = self.active_mut().should_roll(&input)? else { return Ok(()) };
        let base = self.roll(shared, config, Some(incoming.first_offset), effects)?;
        tracing::debug!(log = shared.name(), base = base.get(), ?reason, "rolled a new segment");
        Ok(())
    }

    /// Makes a new active segment at `expected` or the log end, whichever is larger.
    ///
    /// Nothing is synced here: that is left to a flush in the background, after which the
    /// recovery point follows. Where the files cannot be made, the log goes on as it was.
    ///
    /// Source: `LocalLog.roll`, `UnifiedLog.roll` in Kafka.
    pub(super) fn roll(
        &mut self,
        shared: &Shared,
        config: &LogConfig,
        expected: Option<Offset>,
        effects: &mut Effects,
    ) -> Result<Offset, LogError> {
        let base = expected.unwrap_or(Offset::new(0)).max(shared.log_end());
        let _span = tracing::info_span!("roll", log = shared.name(), base = base.get()).entered();
        let segments = Arc::clone(&self.segments);
        let active = segments.active();
        if active.base_offset() == base && active.size_bytes() == 0 {
            let begun = self.begin_anew(shared, config, base, effects);
            begun.map_err(|error| shared.disk_failed(error))?;
        } else if base <= active.base_offset() {
            return Err(LogError::SegmentExists { base });
        } else {
            let next = self.new_segment(shared, config, base)?;
            let list = segments.with(next.segment());
            self.seal_active(shared)?;
            self.active = Some(next);
            self.publish_segments(shared, list);
        }
        // The segment is there, whatever becomes of the snapshot.
        self.cap_high_watermark(shared);
        effects.flush_to(base);
        crate::metrics::rolled();
        self.producers.set_map_end_offset(base);
        let snapshot = self.producers.take_snapshot(&mut self.snapshots, false)?;
        self.unsynced_snapshots.extend(snapshot);
        Ok(base)
    }

    /// Shows readers the segments that there are from now on.
    pub(super) fn publish_segments(&mut self, shared: &Shared, list: SegmentList) {
        self.segments = Arc::new(list);
        shared.segments.store(Arc::clone(&self.segments));
    }

    /// Replaces an empty active segment by a new one of the same base offset.
    fn begin_anew(
        &mut self,
        shared: &Shared,
        config: &LogConfig,
        base: Offset,
        effects: &mut Effects,
    ) -> Result<(), LogError> {
        let mut all = self.segments.to_vec();
        let old = Arc::clone(self.segments.active());
        self.active = None;
        old.rename(Suffix::Deleted)?;
        let next = self.new_segment(shared, config, base)?;
        all.pop();
        all.push(Arc::clone(next.segment()));
        self.active = Some(next);
        self.publish_segments(shared, SegmentList::new(&all));
        effects.delete(config.file_delete_delay_ms(), vec![old], Vec::new());
        Ok(())
    }

    /// Makes the files of a new segment; left-over ones of the same name go.
    pub(super) fn new_segment(
        &mut self,
        shared: &Shared,
        config: &LogConfig,
        base: Offset,
    ) -> Result<ActiveSegment, LogError> {
        let birth = self.birth(shared, config);
        let settings = config.segment();
        let created = ActiveSegment::create(&shared.dir, base, settings, birth);
        let left_over = |error: &SegmentError| match error {
            SegmentError::Io { source, .. } => source.kind() == ErrorKind::AlreadyExists,
            _ => false,
        };
        match created {
            Err(error) if left_over(&error) => {
                let name = SegmentFileName::new(base, FileKind::Log);
                let path = shared.dir.file_path(name);
                let shown = path.display();
                tracing::warn!(path = %shown, "a new segment's file is there already: deleted");
                // A failure shows when the file is made.
                drop(shared.dir.io().remove(&path));
                Ok(ActiveSegment::create(&shared.dir, base, settings, birth)?)
            }
            other => Ok(other?),
        }
    }

    /// Ends the active segment. Readers go on with it.
    fn seal_active(&mut self, shared: &Shared) -> Result<(), LogError> {
        let Some(active) = self.active.take() else { return Ok(()) };
        // What is half sealed is mended by recovery alone.
        active.seal().map(drop).map_err(|source| shared.disk_failed(LogError::Segment { source }))
    }

    /// Goes on writing to a segment that was sealed.
    pub(super) fn reopen_active(
        &mut self,
        shared: &Shared,
        config: &LogConfig,
        segment: Arc<Segment>,
    ) -> Result<(), LogError> {
        self.active = None;
        // Its age goes on.
        let birth = segment.birth().unwrap_or_else(|| self.birth(shared, config));
        self.active = Some(ActiveSegment::reopen(segment, config.segment(), birth)?);
        Ok(())
    }

    fn birth(&mut self, shared: &Shared, config: &LogConfig) -> Birth {
        let jitter_ms = config.roll_jitter_ms(self.jitter.next());
        Birth::at(shared.clock.now()).roll_jitter_ms(i64::try_from(jitter_ms).unwrap_or(0))
    }
}
