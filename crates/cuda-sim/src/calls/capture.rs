//! What a capture forbids, and whom it breaks.

use cuda_sys::CUresult;

use crate::call::Call;
use crate::event::Captured;
use crate::graph::{Capture, GLOBAL, RELAXED};
use crate::state::Answer;
use crate::stream::StreamKind;

const UNSUPPORTED: CUresult = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

impl Call {
    /// Breaks every capture that `forbids` a call; the call then fails.
    fn refuse(&mut self, forbids: impl Fn(&Capture) -> bool, code: CUresult) -> Answer {
        if self.live_captures == 0 {
            return Ok(());
        }
        let mut refused = false;
        for capture in self.captures.iter_mut().flatten() {
            if forbids(capture) {
                capture.invalid = true;
                refused = true;
            }
        }
        if refused { Err(code) } else { Ok(()) }
    }

    /// A call that a capture may not see, unless the calling thread says that it is relaxed.
    pub(crate) fn refuse_capture(&mut self) -> Answer {
        let thread = self.thread;
        let mode = self.threads.get(thread).map_or(GLOBAL, |thread| thread.capture_mode);
        if mode == RELAXED {
            return Ok(());
        }
        self.refuse(
            |capture| {
                let own = capture.thread == thread && capture.mode != RELAXED;
                own || (mode == GLOBAL && capture.mode == GLOBAL)
            },
            UNSUPPORTED,
        )
    }

    /// A call about a stream that must not capture.
    pub(crate) fn refuse_capturing_stream(&mut self, timeline: u32) -> Answer {
        let Some(number) = self.live(timeline).capture else { return Ok(()) };
        self.check_capture(number)?;
        self.invalidate(number);
        Err(UNSUPPORTED)
    }

    /// A call about a whole context.
    pub(crate) fn refuse_capture_in(&mut self, context: usize) -> Answer {
        self.refuse(|capture| capture.context == context, UNSUPPORTED)
    }

    /// Work on the legacy stream would have to wait for blocking streams that capture.
    pub(crate) fn refuse_implicit(&mut self, timeline: u32) -> Answer {
        let waited_for = self.implicit_captures(timeline);
        self.refuse(
            |capture| waited_for.contains(&capture.id),
            CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
        )
    }

    /// The captures that work on a stream would have to wait for.
    pub(crate) fn implicit_captures(&self, timeline: u32) -> Vec<u64> {
        let stream = self.live(timeline);
        if stream.kind != StreamKind::Legacy {
            return Vec::new();
        }
        let blocking = &self.context(stream.context).blocking;
        self.captures
            .iter()
            .flatten()
            .filter(|capture| capture.members.iter().any(|member| blocking.contains(member)))
            .map(|capture| capture.id)
            .collect()
    }

    /// A stream waits for an event that was recorded in a capture, and so joins it.
    pub(crate) fn wait_captured(&mut self, timeline: u32, captured: &Captured) -> Answer {
        if !self.capture_lives(captured.capture, captured.capture_id) {
            return Err(CUresult::CUDA_ERROR_CAPTURED_EVENT);
        }
        self.check_capture(captured.capture)?;
        match self.live(timeline).capture {
            Some(other) if other != captured.capture => {
                self.invalidate(other);
                self.invalidate(captured.capture);
                return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_MERGE);
            }
            None if self.live(timeline).kind == StreamKind::Legacy => {
                self.invalidate(captured.capture);
                return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
            }
            _ => self.join_capture(timeline, captured.capture, &captured.nodes),
        }
        Ok(())
    }
}

impl Call {
    /// Replays a graph on a stream.
    pub(crate) fn launch_graph(&mut self, exec: usize, timeline: u32) -> Answer {
        if let Err(unfit) = self.execs.get(exec) {
            return Err(self.stale(unfit, exec));
        }
        if self.live(timeline).capture.is_some() {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        self.refuse_implicit(timeline)?;
        self.make_room(timeline)?;
        self.replay(exec, timeline)?;
        self.after_submission()
    }
}
