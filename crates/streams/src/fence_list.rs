//! The fences that one stream keeps: to be polled oldest first, and to be found by point.

use std::collections::VecDeque;

use crate::fence::Fence;
use crate::order::Point;
use crate::sync::{Mutex, MutexGuard, lock};

/// Fences a stream keeps. When there are more, every second one is let go of: those that are left
/// cover it, but nobody can be made to wait for exactly its point any more. So this is how many
/// frees a host can run ahead of the device before memory is no longer found by waits.
const PENDING_MAX: usize = 4096;

/// The fences that one stream keeps. Fences are dropped without the lock: the last one of an event
/// gives it back to the pool.
#[derive(Debug, Default)]
pub(crate) struct FenceList {
    fences: Mutex<Fences>,
    /// Whether what was seen to have passed goes, or what is settled.
    by_answers: bool,
}

#[derive(Debug, Default)]
struct Fences {
    /// Oldest first.
    pending: VecDeque<Fence>,
    last: Option<Fence>,
}

impl FenceList {
    /// Of fences whose making depended on answers.
    pub(crate) fn by_answers() -> Self {
        Self { by_answers: true, ..Self::default() }
    }

    fn is_over(&self) -> fn(&Fence) -> bool {
        if self.by_answers { Fence::is_known_complete } else { Fence::is_settled }
    }

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
        let passed = fences.take_passed(self.is_over());
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
        let fences = self.lock();
        fences
            .from(mark)
            .chain(fences.last.as_ref())
            .find(|fence| mark <= fence.point().mark)
            .cloned()
    }

    /// A kept fence that covers `point` and nothing submitted after it.
    pub(crate) fn exactly(&self, point: Point) -> Option<Fence> {
        let fences = self.lock();
        let there = fences.from(point.mark).take_while(|fence| fence.point() == point);
        there
            .chain(fences.last.as_ref())
            .find(|fence| fence.point() == point && fence.is_exact())
            .cloned()
    }

    /// Of the fences that are not known to have passed, the one `ahead` after the oldest, or the
    /// newest.
    pub(crate) fn pending(&self, ahead: usize) -> Option<Fence> {
        let mut fences = self.lock();
        let passed = fences.take_passed(self.is_over());
        // Where answers are kept apart, those that were answered stay until they are settled.
        let first = fences.pending.partition_point(Fence::is_known_complete);
        let newest = fences.pending.len().saturating_sub(1);
        let fence = fences.pending.get((first + ahead).min(newest)).cloned();
        let fence = fence.filter(|fence| !fence.is_known_complete());
        drop(fences);
        drop(passed);
        fence
    }
}

impl Fences {
    /// The kept fences that cover `mark`, oldest first.
    fn from(&self, mark: u64) -> impl Iterator<Item = &Fence> {
        let first = self.pending.partition_point(|fence| fence.point().mark < mark);
        self.pending.range(first..)
    }

    /// The oldest fences that are over.
    fn take_passed(&mut self, is_over: fn(&Fence) -> bool) -> Vec<Fence> {
        let mut passed = Vec::new();
        while self.pending.front().is_some_and(is_over) {
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
