//! Who may take sealed segments out of a log, or put others in their place.

/// Held while sealed segments change: by retention, by a replacement, by a truncation, one at a
/// time. Appends and rolls go on beside the first two, as they add to the end of the list alone,
/// so that no append waits for the renames and syncs of either.
///
/// Taken before the flush lock and the writer's lock, never after.
#[derive(Debug, Default)]
pub(super) struct Layout;
