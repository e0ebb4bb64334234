//! Streams: made, asked, waited for, gone.

use cuda_sys::{CUresult, CUstream_st};

use crate::call::Call;
use crate::clock::Epoch;
use crate::hazard::Hazard;
use crate::schedule::Schedule;
use crate::shims::raw::Pointer;
use crate::state::Answer;
use crate::stream::{GREATEST_PRIORITY, StreamKind};

/// The fixed handles of the default streams.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

impl Call {
    /// The timeline of a stream handle, in a context that can be used.
    pub(crate) fn timeline(&mut self, handle: Pointer<CUstream_st>) -> Answer<u32> {
        let timeline = self.timeline_of_any(handle)?;
        self.check_context(self.live(timeline).context)?;
        Ok(timeline)
    }

    /// The timeline of a stream handle, whatever became of its context.
    pub(crate) fn timeline_of_any(&mut self, handle: Pointer<CUstream_st>) -> Answer<u32> {
        match handle.address() {
            0 | LEGACY => {
                let context = self.usable(self.thread)?;
                Ok(self.context(context).legacy)
            }
            PER_THREAD => {
                let context = self.usable(self.thread)?;
                let thread = self.thread;
                Ok(self.per_thread_stream(context, thread))
            }
            handle => match self.stream_handles.get(handle) {
                Ok(&timeline) => Ok(timeline),
                Err(unfit) => Err(self.stale(unfit, handle)),
            },
        }
    }

    pub(crate) fn create_stream(&mut self, flags: u32, priority: i32) -> Answer<usize> {
        let context = self.usable(self.thread)?;
        let kind = match flags {
            0 => StreamKind::Blocking,
            1 => StreamKind::NonBlocking,
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        };
        let timeline = self.new_stream(context, kind);
        self.live_mut(timeline).priority = priority.clamp(GREATEST_PRIORITY, 0);
        Ok(self.stream_handles.insert(timeline))
    }

    pub(crate) fn destroy_stream(&mut self, handle: Pointer<CUstream_st>) -> Answer {
        let address = handle.address();
        if address <= PER_THREAD {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        let timeline = self.timeline_of_any(handle)?;
        let context = self.live(timeline).context;
        if !self.context(context).alive {
            let call = self.name();
            self.report(Hazard::StaleHandle { call, handle: address });
        }
        self.check_context(context)?;
        let _timeline = self.stream_handles.remove(address);
        self.leave_capture(timeline);
        let stream = self.live_mut(timeline);
        stream.destroyed = true;
        if stream.queue.is_empty() {
            self.retire(timeline);
        }
        Ok(())
    }

    /// Asks whether all of a stream's work is done.
    pub(crate) fn query_stream(&mut self, timeline: u32) -> Answer {
        self.refuse_capturing_stream(timeline)?;
        self.refuse_capture()?;
        let stream = self.live(timeline);
        let place = stream.submitted();
        let refused = if stream.refused.0 == place { stream.refused.1 } else { 0 };
        let (context, clock) = (stream.context, stream.clock.clone());
        let ready = self.ask(&[(timeline, place)], refused)?;
        self.check_context(context)?;
        if !ready {
            if let Some(stream) = self.stream_mut(timeline) {
                stream.refused = (place, refused + 1);
            }
            return Err(CUresult::CUDA_ERROR_NOT_READY);
        }
        let finish = self.stream(timeline).map_or(0, |stream| stream.finish_of(place));
        self.now = self.now.max(finish);
        self.observe(Epoch { timeline, place }, &clock);
        Ok(())
    }

    pub(crate) fn synchronize_stream(&mut self, timeline: u32) -> Answer {
        self.refuse_capturing_stream(timeline)?;
        self.refuse_capture()?;
        let stream = self.live(timeline);
        let (place, context) = (stream.submitted(), stream.context);
        let clock = stream.clock.clone();
        self.complete(&[(timeline, place)])?;
        self.check_context(context)?;
        self.observe(Epoch { timeline, place }, &clock);
        Ok(())
    }

    /// What a query answers: a choice, as long as both answers are true to some device.
    pub(crate) fn ask(&mut self, needs: &[(u32, u64)], refused: u32) -> Answer<bool> {
        if needs.iter().all(|&(timeline, place)| self.is_done(timeline, place)) {
            return Ok(true);
        }
        if self.chooser.is_timed() {
            return Ok(false);
        }
        let ready = self.settings.refusals_max <= refused
            || (*self.chooser.schedule() != Schedule::Lazy && self.chooser.choose(2) == 0);
        if ready { self.drive(needs, false) } else { Ok(false) }
    }
}
