//! Contexts: made, current, synchronized, gone.

use cuda_sys::CUresult;

use crate::call::Call;
use crate::clock::Epoch;
use crate::handle::Unfit;
use crate::hazard::Hazard;
use crate::memory::MappingKind;
use crate::state::{Answer, State};
use crate::stream::{StreamKind, Work};

impl Call {
    /// Reports a handle that names nothing alive; null ones are an ordinary mistake.
    pub(crate) fn stale(&mut self, unfit: Unfit, handle: usize) -> CUresult {
        if unfit != Unfit::Null {
            let call = self.name();
            self.report(Hazard::StaleHandle { call, handle });
        }
        unfit.into()
    }

    pub(crate) fn release_primary(&mut self, device: usize) -> Answer {
        let state = self.device_mut(device);
        if state.primary_retains == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        state.primary_retains -= 1;
        if state.primary_retains == 0
            && let Some(context) = state.primary
        {
            self.destroy_context(context);
        }
        Ok(())
    }

    /// Ends a context: what can still run does, the rest is dropped with all it owned.
    pub(crate) fn destroy_context(&mut self, number: usize) {
        let needs = self.pending_in(number);
        if self.drive(&needs, false) == Err(CUresult::CUDA_ERROR_DEINITIALIZED) {
            return;
        }
        self.end_captures_in(number);
        let context = self.context_mut(number);
        context.alive = false;
        let (device, handle) = (context.device, context.handle);
        for timeline in context.timelines.clone() {
            self.drop_queue(timeline);
        }
        let _known = self.context_handles.remove(handle);
        let device = self.device_mut(device);
        if device.primary == Some(number) {
            device.primary = None;
            device.primary_retains = 0;
        }
        self.free_all_of(number);
    }

    /// Waits for all work of a context; the host has then seen it complete.
    pub(crate) fn synchronize_context(&mut self, number: usize) -> Answer {
        let needs = self.pending_in(number);
        self.complete(&needs)?;
        self.check_context(number)?;
        for timeline in self.context(number).timelines.clone() {
            self.observe_stream(timeline);
        }
        for (epoch, clock, _) in std::mem::take(&mut self.context_mut(number).gone) {
            self.observe(epoch, &clock);
        }
        Ok(())
    }

    /// Records an event behind all work of a context.
    pub(crate) fn record_context(&mut self, number: usize, event: usize) -> Answer {
        self.check_event(event)?;
        let legacy = self.context(number).legacy;
        self.make_room(legacy)?;
        let after = self.pending_in(number);
        let mut clock = crate::clock::Clock::default();
        for &timeline in &self.context(number).timelines {
            let stream = self.live(timeline);
            clock.advance(Epoch { timeline, place: stream.submitted() }, &self.observed);
            clock.join(&stream.clock, &self.observed, u32::MAX);
        }
        for (epoch, gone, _) in &self.context(number).gone {
            clock.advance(*epoch, &self.observed);
            clock.join(gone, &self.observed, u32::MAX);
        }
        let lane = self.new_stream(number, StreamKind::Lane);
        self.live_mut(lane).destroyed = true;
        self.live_mut(lane).clock = clock;
        self.submit_record(lane, event, after);
        self.after_submission()
    }

    /// Makes all later work of a context wait for an event.
    pub(crate) fn wait_in_context(&mut self, number: usize, event: usize) -> Answer {
        self.check_event(event)?;
        for timeline in self.context(number).timelines.clone() {
            let waits = self.stream(timeline).is_some_and(|stream| stream.kind != StreamKind::Lane);
            if waits {
                self.wait_event(timeline, event)?;
            }
        }
        if let Some(record) = &self.events.get(event)?.record {
            let wait = (record.epoch, record.clock.clone());
            let mut waits = std::mem::take(&mut self.context_mut(number).waits);
            waits.retain(|wait| !self.observed.covers(wait.0));
            waits.push(wait);
            self.context_mut(number).waits = waits;
        }
        Ok(())
    }
}

impl State {
    pub(crate) fn retain_primary(&mut self, device: usize) -> usize {
        let state = self.device_mut(device);
        state.primary_retains += 1;
        if let Some(context) = state.primary {
            return context;
        }
        let context = self.new_context(device);
        self.device_mut(device).primary = Some(context);
        context
    }

    pub(crate) fn push_context(&mut self, thread: usize, context: Option<usize>) {
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.stack.push(context);
        }
    }

    pub(crate) fn pop_context(&mut self, thread: usize) {
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.stack.pop();
        }
    }

    /// The last operation of every timeline of a context that has work.
    pub(crate) fn pending_in(&self, context: usize) -> Vec<(u32, u64)> {
        self.busy
            .iter()
            .map(|&timeline| self.live(timeline))
            .filter(|stream| stream.context == context)
            .map(|stream| (stream.timeline, stream.submitted()))
            .collect()
    }

    /// Forgets queued operations that will never run.
    fn drop_queue(&mut self, timeline: u32) {
        let stream = self.live_mut(timeline);
        let dropped = std::mem::take(&mut stream.queue);
        stream.done += crate::memory::size(dropped.len());
        let host_functions =
            dropped.iter().filter(|queued| matches!(queued.work, Work::HostFunction(_)));
        self.host_functions -= host_functions.count();
        self.note_idle(timeline);
        self.observe_stream(timeline);
    }

    /// Frees what a context owned.
    fn free_all_of(&mut self, context: usize) {
        let owned: Vec<u64> = self
            .memory
            .mappings
            .iter()
            .filter(|(_, mapping)| {
                mapping.context == context && !matches!(mapping.kind, MappingKind::Virtual { .. })
            })
            .map(|(&address, _)| address)
            .collect();
        for address in owned {
            self.remove_mapping(address);
        }
    }
}
