//! Kafka's binary search, slot for slot, for the views that tools use.
//!
//! On a sound index any search gives the same answer, and the file-backed indexes use a faster
//! one. On a damaged or padded index the answer depends on the slots that are probed, and a
//! tool that compares itself with Kafka's own must probe the same ones.

use core::cmp::Ordering;

/// Finds the last of `count` slots whose key is not above the target. `order` compares the key
/// of a slot with the target. A slot that is equal ends the search at once.
///
/// Source: `AbstractIndex.indexSlotRangeFor` in Kafka.
pub(crate) fn lower_bound(
    count: usize,
    warm_entries: usize,
    order: impl Fn(usize) -> Ordering,
) -> Option<usize> {
    match range(count, warm_entries, order) {
        Range::Empty | Range::BelowFirst => None,
        Range::Exact(slot) | Range::After(slot) => Some(slot),
    }
}

/// Finds the first of `count` slots whose key is not below the target, or the slot behind them;
/// but where the key of slot 0 is equal to the target, slot 1.
pub(crate) fn upper_bound(
    count: usize,
    warm_entries: usize,
    order: impl Fn(usize) -> Ordering,
) -> Option<usize> {
    match range(count, warm_entries, order) {
        Range::Empty => None,
        Range::BelowFirst => Some(0),
        Range::Exact(slot) => Some(slot),
        Range::After(slot) => slot.checked_add(1),
    }
}

enum Range {
    Empty,
    BelowFirst,
    Exact(usize),
    After(usize),
}

fn range(count: usize, warm_entries: usize, order: impl Fn(usize) -> Ordering) -> Range {
    let Some(last) = count.checked_sub(1) else { return Range::Empty };
    let first_hot = last.saturating_sub(warm_entries);
    if order(first_hot) == Ordering::Less {
        return between(first_hot, last, order);
    }
    if order(0) == Ordering::Greater {
        return Range::BelowFirst;
    }
    between(0, first_hot, order)
}

/// Halves `low..=high`, taking the upper of two middle slots.
fn between(mut low: usize, mut high: usize, order: impl Fn(usize) -> Ordering) -> Range {
    while low < high {
        let middle = low.midpoint(high).saturating_add(low.abs_diff(high) % 2);
        match order(middle) {
            Ordering::Greater => high = middle.saturating_sub(1),
            Ordering::Less => low = middle,
            Ordering::Equal => return Range::Exact(middle),
        }
    }
    // A range that shrinks to its first slot never compared it: equal or not, it counts as
    // below the target.
    Range::After(low)
}
