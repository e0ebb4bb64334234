//! The fences that one stream keeps: to be polled oldest first, and to be found by point.

use std::collections::VecDeque;

use crate::fence::Fence;
use crate::order::Point;
use crate::sync::{Mutex, MutexGuard, lock};

/// Fences a stream keeps for polling. When there are more, every second one is let go of: those
/// that are left cover it.
const PENDING_MAX: usize = 64;

/// The fences that one stream keeps. Fences are dropped without the lock: the last one of an event
/// gives it back to the pool.
#[derive(Debug, Default)]
pub(crate) struct FenceList {
    fences: Mutex<Fences>,
}

#[derive(Debug, Default)]
struct Fences {
    /// Oldest first.
    pending: VecDeque<Fence>,
    last: Option<Fence>,
}

impl FenceList {
    fn lock(&self) -> MutexGuard<'_, Fences> {
        lock(&self.fences)
    }

    /// Keeps a fence that has just been recorded.
    pub(crate) fn keep(&self, fence: Fence) {
        let mut fences = self.lock();
        let newest = fences.last.as_ref().is_none_or(|last| last.point() <= fence.point());
        let replaced = newest.then(|| fences.last.replace(fence.clone()));
        let at = fences.pending.partition_point(|pending| pending.point() <= fence.point());
        fences.pending.insert(at, fence);
        let passed = fences.take_passed();
        let thinned = fences.thin();
        drop(fences);
        drop((replaced, passed, thinned));
    }

    /// The fence of the latest point.
    pub(crate) fn last(&self) -> Option<Fence> {
        self.lock().last.clone()
    }

    /// The oldest kept fence that covers `mark`.
    pub(crate) fn covering(&self, mark: u64) -> Option<Fence> {
        self.find(|fence| mark <= fence.point().mark)
    }

    /// A kept fence that covers `point` and nothing submitted after it.
    pub(crate) fn exactly(&self, point: Point) -> Option<Fence> {
        self.find(|fence| fence.point() == point && fence.is_exact())
    }

    fn find(&self, wanted: impl Fn(&Fence) -> bool) -> Option<Fence> {
        let fences = self.lock();
        fences.pending.iter().chain(fences.last.as_ref()).find(|fence| wanted(fence)).cloned()
    }

    /// The oldest fence that is not known to have passed.
    pub(crate) fn oldest_pending(&self) -> Option<Fence> {
        let mut fences = self.lock();
        let passed = fences.take_passed();
        let oldest = fences.pending.front().cloned();
        drop(fences);
        drop(passed);
        oldest
    }
}

impl Fences {
    /// The oldest fences that are known to have passed.
    fn take_passed(&mut self) -> Vec<Fence> {
        let mut passed = Vec::new();
        while self.pending.front().is_some_and(Fence::is_known_complete) {
            passed.extend(self.pending.pop_front());
        }
        passed
    }

    /// Every second fence but the newest, when there are too many.
    fn thin(&mut self) -> Vec<Fence> {
        if self.pending.len() <= PENDING_MAX {
            return Vec::new();
        }
        let newest = self.pending.len() - 1;
        let all = std::mem::take(&mut self.pending).into_iter().enumerate();
        let (kept, let_go): (Vec<_>, Vec<_>) =
            all.partition(|(index, _)| index % 2 == 0 || *index == newest);
        self.pending = kept.into_iter().map(|(_, fence)| fence).collect();
        let_go.into_iter().map(|(_, fence)| fence).collect()
    }
}
