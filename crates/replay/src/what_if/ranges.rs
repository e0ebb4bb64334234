//! Mapped ranges of expandable segments: one is taken out of another, or joined with its neighbors.

use std::collections::BTreeMap;

use pytorch_model::PoolId;
use trace::pytorch::Entry;

use super::held::Held;

/// A range that is no multiple of this is of small pages.
const LARGE_PAGE_BYTES: u64 = 20 << 20;

/// Takes pages out of the range that they are part of, if there is one.
pub(super) fn remove(segments: &mut BTreeMap<u64, Held>, address: u64, bytes: u64) {
    let Some((&start, &held)) = segments.range(..=address).next_back() else { return };
    let end = start.saturating_add(held.bytes);
    let Some(removed_end) = address.checked_add(bytes).filter(|it| *it <= end) else { return };
    segments.remove(&start);
    if start < address {
        segments.insert(start, Held { bytes: address - start, ..held });
    }
    if removed_end < end {
        segments.insert(removed_end, Held { bytes: end - removed_end, ..held });
    }
}

/// Puts pages back, and joins them with what is mapped right before and behind them. They are of
/// the kind of their neighbors, or else of what their size says.
pub(super) fn insert(segments: &mut BTreeMap<u64, Held>, entry: &Entry, pool: Option<PoolId>) {
    let (address, bytes, stream) = (entry.address, entry.bytes, entry.stream.0);
    let Some(end) = address.checked_add(bytes).filter(|_| 0 < bytes) else { return };
    let is_of_it = |held: &Held| held.is_expandable && held.stream == stream;
    let before = segments.range(..address).next_back().map(|(start, held)| (*start, *held));
    let before = before.filter(|(_, held)| is_of_it(held));
    let behind = segments.range(address..).next().map(|(start, held)| (*start, *held));
    let behind = behind.filter(|(_, held)| is_of_it(held));
    let touches = before.filter(|(start, held)| start.saturating_add(held.bytes) == address);
    let touched = behind.filter(|(start, _)| *start == end);
    let like = touches.or(touched).map(|(_, held)| held);
    let mut range = Held {
        bytes,
        stream,
        pool: pool.or(like.map(|held| held.pool)).unwrap_or(PoolId::DEFAULT),
        is_small: like.map_or(bytes % LARGE_PAGE_BYTES != 0, |held| held.is_small),
        is_expandable: true,
    };
    let mut first = address;
    if let Some((start, held)) = touches {
        (first, range.bytes) = (start, range.bytes.saturating_add(held.bytes));
    }
    if let Some((start, held)) = touched {
        segments.remove(&start);
        range.bytes = range.bytes.saturating_add(held.bytes);
    }
    segments.insert(first, range);
}
