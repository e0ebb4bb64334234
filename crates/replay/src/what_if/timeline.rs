//! What a trace tells beside its operations: what was held when it began, which pool each block
//! came from, when the cache was emptied, and what limit there must have been.
//!
//! PyTorch 2.11 names pools on the segments of the end alone, and neither calls that empty the
//! cache nor limits at all. Walking backwards from the final segments gives each allocation its
//! segment and so its pool. Segments that are given back tell a call that empties the cache,
//! unless the request that follows could not have been served within what was ever reserved: then
//! it was that request which gave them back, and the limit lies below what it would have taken.

use std::collections::{BTreeMap, HashMap};

use pytorch_model::{PoolId, Settings};
use trace::pytorch::{Action, DeviceTrace, Entry, SegmentKind};
use trace::{ReservedBytes, reserved_change_bytes};

use super::held::{self, AllHeld, Held};
use super::ranges;

/// The smallest segment that PyTorch takes, which only small requests get.
const SMALL_SEGMENT_BYTES: u64 = 2 << 20;

/// A call that emptied the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Release {
    /// The entry it came before, or that was its first.
    pub(super) entry: usize,
    /// The private pools that had ended by then, as far as entries name them.
    pub(super) ended: Vec<PoolId>,
}

/// What a trace tells beside its operations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Timeline {
    /// The pool of each allocation that did not come from the default one, by entry.
    pub(super) pools: HashMap<usize, PoolId>,
    /// Calls that emptied the cache, in order.
    pub(super) releases: Vec<Release>,
    /// A limit with which requests gave back and failed where they did; none where none did.
    pub(super) limit_bytes: Option<u64>,
    /// What was held before the first entry; none if the trace contradicts itself there.
    pub(super) held: Option<AllHeld>,
}

impl Timeline {
    /// That of a trace whose requests alone count, since another allocator than PyTorch's took its
    /// segments.
    pub(super) fn of_requests() -> Self {
        Self { held: Some(AllHeld::default()), ..Self::default() }
    }

    pub(super) fn new(trace: &DeviceTrace<'_>, settings: &Settings) -> Self {
        let mut timeline = Self::default();
        let segments = timeline.walk_back(trace);
        let levels = ReservedBytes::of(trace);
        timeline.find_releases(trace, settings, &levels);
        timeline.held = if levels.first == 0 {
            Some(AllHeld::default())
        } else {
            held::segments(trace, settings, &segments)
        };
        timeline
    }

    /// Undoes the entries from the last one: gives what was held before the first one.
    fn walk_back(&mut self, trace: &DeviceTrace<'_>) -> BTreeMap<u64, Held> {
        let mut segments: BTreeMap<u64, Held> = BTreeMap::new();
        for segment in trace.segments() {
            let (bytes, stream) = (segment.total_bytes, segment.stream.0);
            let pool = PoolId(segment.pool_id.0, segment.pool_id.1);
            let is_small = match segment.kind {
                SegmentKind::Small => true,
                SegmentKind::Large => false,
                SegmentKind::Unknown => bytes <= SMALL_SEGMENT_BYTES,
            };
            let is_expandable = segment.is_expandable;
            let held = Held { bytes, stream, pool, is_small, is_expandable };
            segments.insert(segment.address, held);
        }
        let has_pools = segments.values().any(|held| held.pool != PoolId::DEFAULT);
        for (index, entry) in trace.entries().iter().enumerate().rev() {
            match entry.action {
                Action::Alloc if has_pools || entry.pool.is_some() => {
                    let below = segments.range(..=entry.address).next_back();
                    let holds =
                        |(start, held): &(&u64, &Held)| entry.address - **start < held.bytes;
                    let of_segment = below.filter(holds).map(|(_, held)| held.pool);
                    let pool = pool_of(trace, entry).or(of_segment).unwrap_or(PoolId::DEFAULT);
                    if pool != PoolId::DEFAULT {
                        self.pools.insert(index, pool);
                    }
                }
                Action::SegmentAlloc => {
                    segments.remove(&entry.address);
                }
                Action::SegmentMap => ranges::remove(&mut segments, entry.address, entry.bytes),
                Action::SegmentUnmap => ranges::insert(&mut segments, entry, pool_of(trace, entry)),
                Action::SegmentFree => {
                    let (bytes, stream) = (entry.bytes, entry.stream.0);
                    let is_small = bytes <= SMALL_SEGMENT_BYTES;
                    let pool = pool_of(trace, entry).unwrap_or(PoolId::DEFAULT);
                    let held = Held { bytes, stream, pool, is_small, is_expandable: false };
                    segments.insert(entry.address, held);
                }
                Action::Alloc
                | Action::Free
                | Action::FreeRequested
                | Action::FreeCompleted
                | Action::Snapshot
                | Action::OutOfMemory
                | Action::Annotate
                | Action::Other(_) => {}
            }
        }
        segments
    }

    /// Tells calls that empty the cache from requests that give back.
    fn find_releases(
        &mut self,
        trace: &DeviceTrace<'_>,
        settings: &Settings,
        levels: &ReservedBytes,
    ) {
        let mut level = levels.first;
        let mut run: Option<Run> = None;
        for (index, entry) in trace.entries().iter().enumerate() {
            let before = level;
            level += reserved_change_bytes(entry);
            match entry.action {
                Action::SegmentFree | Action::SegmentUnmap => {
                    let release = Release { entry: index, ended: Vec::new() };
                    let run = run.get_or_insert(Run { release, level: before });
                    let private = pool_of(trace, entry).filter(|pool| *pool != PoolId::DEFAULT);
                    run.release.ended.extend(private);
                }
                Action::SegmentAlloc | Action::SegmentMap => {
                    if let Some(run) = run.take() {
                        let wanted = run.level + i128::from(entry.bytes);
                        if levels.peak < wanted {
                            self.passes(wanted, levels);
                        } else {
                            self.releases.push(run.release);
                        }
                    }
                }
                Action::OutOfMemory => {
                    run = None;
                    if !levels.is_recorded {
                        continue;
                    }
                    let wanted = settings.segment_bytes(entry.bytes.min(1 << 60));
                    self.passes(level + i128::from(wanted), levels);
                }
                Action::Alloc | Action::Free | Action::FreeRequested | Action::FreeCompleted => {
                    self.releases.extend(run.take().map(|run| run.release));
                }
                Action::Snapshot | Action::Annotate | Action::Other(_) => {}
            }
        }
        self.releases.extend(run.map(|run| run.release));
    }

    /// A request would have brought what is reserved to `wanted`, which passed the limit.
    fn passes(&mut self, wanted: i128, levels: &ReservedBytes) {
        let below = u64::try_from((wanted - 1).max(levels.peak)).unwrap_or(u64::MAX);
        self.limit_bytes = Some(self.limit_bytes.map_or(below, |limit| limit.min(below)));
    }
}

/// Segments given back one after the other.
struct Run {
    release: Release,
    /// What was reserved before.
    level: i128,
}

fn pool_of(trace: &DeviceTrace<'_>, entry: &Entry) -> Option<PoolId> {
    trace.pool_id(entry).map(|(first, second)| PoolId(first, second))
}
