//! The fences of one stream: recorded, shared, kept, and asked about.

use std::panic::Location;

use crate::capture::Adding;
use crate::driver::DriverStream;
use crate::error::Error;
use crate::fence::{Fence, FenceParts};
use crate::fence_list::FenceList;
use crate::observe::Place;
use crate::stream_core::StreamCore;
use crate::sync::{Arc, lock};

/// Who finds a fence later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// Everybody.
    Settled,
    /// Those who go by answers.
    Apart,
    /// Nobody.
    Nowhere,
}

impl StreamCore {
    /// Records a pooled event at a new point of the stream.
    #[track_caller]
    pub(crate) fn record_fence(&self, raw: &DriverStream, _: &Adding<'_>) -> Result<Fence, Error> {
        let mark = self.slot().settled_position();
        self.record_fence_at(raw, mark, Some(Location::caller()), Keep::Settled)
    }

    /// The same for somebody whose record depends on answers.
    #[track_caller]
    pub(crate) fn record_fence_apart(
        &self,
        raw: &DriverStream,
        adding: &Adding<'_>,
    ) -> Result<Fence, Error> {
        if !self.registry().keeps_answers() {
            return self.record_fence(raw, adding);
        }
        let mark = self.slot().position();
        self.record_fence_at(raw, mark, Some(Location::caller()), Keep::Apart)
    }

    /// A fence that nobody else finds, of the point of `shared`, which it is made in place of: that
    /// one does not cover what was made apart since.
    #[track_caller]
    pub(crate) fn record_fence_beside(
        &self,
        raw: &DriverStream,
        _: &Adding<'_>,
        shared: &Fence,
    ) -> Result<Fence, Error> {
        self.record_fence_at(raw, shared.point().mark, Some(Location::caller()), Keep::Nowhere)
    }

    /// Records the last fence, of a stream that is retired.
    pub(crate) fn record_last_fence(&self, raw: &DriverStream, mark: u64) -> Result<Fence, Error> {
        self.record_fence_at(raw, mark, None, Keep::Settled)
    }

    fn record_fence_at(
        &self,
        raw: &DriverStream,
        mark: u64,
        place: Option<Place>,
        keep: Keep,
    ) -> Result<Fence, Error> {
        let turn = self.turn();
        let quiet = self.slot().quiet();
        let stamp = self.slot().stamp_at(self.me(), mark, self.may_hide_gates());
        // On a stream of our own, a submission between the reading of `mark` and of `quiet` shows.
        let now = match keep {
            Keep::Apart => self.slot().submitted(),
            Keep::Settled | Keep::Nowhere => self.slot().counted(),
        };
        let unmoved = self.slot().is_shared() || now == mark;
        let event = self.context().pool.take()?;
        event.record(raw)?;
        let exact = unmoved && quiet.is_some_and(|quiet| self.slot().is_still_quiet(quiet));
        let id = turn.map_or(0, |turn| self.tell_fence(&turn, place));
        let pool = Arc::clone(&self.context().pool);
        let watch = self.watch().clone();
        let made = FenceParts { event, pool, watch, id, stream: self.traits().id };
        let fence = Fence::new(made, Arc::clone(self.registry()), stamp, exact);
        match keep {
            Keep::Settled => self.fences.keep(fence.clone()),
            Keep::Apart => self.fences_apart.keep(fence.clone()),
            Keep::Nowhere => {}
        }
        Ok(fence)
    }

    /// The last fence, if nothing was submitted since it was recorded but what was made apart.
    pub(crate) fn fence_without_news(&self) -> Option<Fence> {
        if self.is_shared() {
            return None;
        }
        let last = self.fences.last()?;
        let counted = self.last().unless_ended(|| self.slot().counted(), |last| last);
        (counted <= last.point().mark).then_some(last)
    }

    /// The last fence of either kind, if nothing at all was submitted since it was recorded.
    pub(crate) fn fence_without_any_news(&self) -> Option<Fence> {
        if self.is_shared() {
            return None;
        }
        let submitted = self.submitted();
        let last = [&self.fences, &self.fences_apart].into_iter().filter_map(FenceList::last);
        last.into_iter().find(|last| submitted <= last.point().mark)
    }

    /// The fence to ask next: of those that are not known to have passed, the one `ahead` after the
    /// oldest.
    pub(crate) fn fence_to_ask(&self, ahead: usize) -> Option<Fence> {
        let both = [&self.fences, &self.fences_apart].map(|fences| fences.pending(ahead));
        both.into_iter().flatten().min_by_key(Fence::point)
    }

    /// Records the fence of a token that somebody still holds, before more is queued.
    #[track_caller]
    pub(crate) fn settle_token(
        &self,
        raw: &DriverStream,
        adding: &Adding<'_>,
    ) -> Result<(), Error> {
        let token = lock(&self.last_token).upgrade();
        if let Some(token) = token
            && !token.is_settled()
            && !self.registry().is_settled(token.point())
        {
            let shared = self.fence_without_news();
            token.settle(match shared {
                Some(fence) => fence,
                None => self.record_fence(raw, adding)?,
            });
        }
        Ok(())
    }
}
