//! Events: recorded, waited for, asked, timed.

use cuda_sys::CUresult;

use crate::call::Call;
use crate::clock::Epoch;
use crate::event::{Captured, Event, EventRef, Record};
use crate::state::{Answer, State};
use crate::stream::Work;

const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

impl Call {
    pub(crate) fn create_event(&mut self, flags: u32) -> Answer<usize> {
        let context = self.usable(self.thread)?;
        let shareable_but_timed = flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0;
        if 7 < flags || shareable_but_timed {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        Ok(self.events.insert(Event { context, flags, record: None, captured: None }))
    }

    /// Whether a handle names an event of a context that can be used.
    pub(crate) fn check_event(&mut self, handle: usize) -> Answer {
        match self.events.get(handle) {
            Ok(event) => self.check_context(event.context),
            Err(unfit) => {
                if let Some(context) = self.current(self.thread) {
                    self.check_context(context)?;
                }
                Err(self.stale(unfit, handle))
            }
        }
    }

    pub(crate) fn destroy_event(&mut self, handle: usize) -> Answer {
        self.check_event(handle)?;
        self.events.remove(handle)?;
        Ok(())
    }

    pub(crate) fn record_event(&mut self, timeline: u32, handle: usize) -> Answer {
        self.check_event(handle)?;
        let stream = self.live(timeline);
        let (context, capture) = (stream.context, stream.capture);
        if self.events.get(handle)?.context != context {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        if let Some(capture) = capture {
            self.check_capture(capture)?;
            let nodes = self.live(timeline).capture_tail.clone();
            let capture_id = self.capture_id(capture);
            let event = self.events.get_mut(handle)?;
            event.captured = Some(Captured { capture, capture_id, nodes });
            event.record = None;
            return Ok(());
        }
        if 0 < self.live_captures {
            self.refuse_implicit(timeline)?;
        }
        self.make_room(timeline)?;
        self.submit_record(timeline, handle, Vec::new());
        self.after_submission()
    }

    /// Makes a stream wait for an event's last record.
    pub(crate) fn wait_event(&mut self, timeline: u32, handle: usize) -> Answer {
        self.check_event(handle)?;
        if let Some(captured) = self.events.get(handle)?.captured.clone() {
            return self.wait_captured(timeline, &captured);
        }
        if let Some(capture) = self.live(timeline).capture {
            self.check_capture(capture)?;
            self.invalidate(capture);
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        }
        if 0 < self.live_captures {
            self.refuse_implicit(timeline)?;
        }
        let Some(record) = self.events.get(handle)?.record.clone() else { return Ok(()) };
        self.make_room(timeline)?;
        let mut after = Vec::with_capacity(1);
        let record_epoch = record.epoch;
        if record_epoch.timeline != timeline
            && !self.is_done(record_epoch.timeline, record_epoch.place)
        {
            after.push((record_epoch.timeline, record_epoch.place));
        }
        self.learn(timeline, record_epoch, &record.clock);
        self.submit(timeline, Work::Nothing, after);
        self.after_submission()
    }

    pub(crate) fn query_event(&mut self, handle: usize) -> Answer {
        let Some(record) = self.record_for_the_host(handle)? else { return Ok(()) };
        let need = (record.epoch.timeline, record.epoch.place);
        let context = self.events.get(handle)?.context;
        let ready = self.ask(&[need], record.refused)?;
        self.check_context(context)?;
        if ready {
            self.see_record(handle, &record);
            return Ok(());
        }
        let current = self.events.get_mut(handle).ok().and_then(|event| event.record.as_mut());
        if let Some(current) = current
            && current.number == record.number
        {
            current.refused += 1;
        }
        Err(CUresult::CUDA_ERROR_NOT_READY)
    }

    pub(crate) fn synchronize_event(&mut self, handle: usize) -> Answer {
        let Some(record) = self.record_for_the_host(handle)? else { return Ok(()) };
        let context = self.events.get(handle)?.context;
        self.complete(&[(record.epoch.timeline, record.epoch.place)])?;
        self.check_context(context)?;
        self.see_record(handle, &record);
        Ok(())
    }

    /// The record that a query or synchronization is about, if the call is allowed.
    fn record_for_the_host(&mut self, handle: usize) -> Answer<Option<Record>> {
        self.check_event(handle)?;
        let event = self.events.get(handle)?;
        if let Some(captured) = &event.captured {
            let (capture, id) = (captured.capture, captured.capture_id);
            if self.capture_lives(capture, id) {
                self.invalidate(capture);
            }
            return Err(CUresult::CUDA_ERROR_CAPTURED_EVENT);
        }
        self.refuse_capture()?;
        Ok(self.events.get(handle)?.record.clone())
    }

    /// The host has seen a record complete.
    fn see_record(&mut self, handle: usize, record: &Record) {
        self.observe(record.epoch, &record.clock);
        let current = self.events.get(handle).ok().and_then(|event| event.record.as_ref());
        let finish = current
            .filter(|current| current.number == record.number)
            .and_then(|current| current.finished_at);
        self.now = self.now.max(finish.unwrap_or(0));
    }

    /// The milliseconds of virtual time between two records.
    pub(crate) fn elapsed(&mut self, start: usize, end: usize) -> Answer<f32> {
        self.check_event(start)?;
        self.check_event(end)?;
        let mut times = [0; 2];
        for (time, handle) in times.iter_mut().zip([start, end]) {
            let event = self.events.get(handle)?;
            if event.captured.is_some() {
                return Err(CUresult::CUDA_ERROR_CAPTURED_EVENT);
            }
            let record = event.record.as_ref().filter(|_| event.flags & DISABLE_TIMING == 0);
            let record = record.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
            *time = record.finished_at.unwrap_or(u64::MAX);
        }
        if times.contains(&u64::MAX) {
            return Err(CUresult::CUDA_ERROR_NOT_READY);
        }
        let [start, end] = times;
        let sign = if end < start { -1.0 } else { 1.0 };
        let milliseconds = std::time::Duration::from_nanos(end.abs_diff(start)).as_secs_f32() * 1e3;
        Ok(sign * milliseconds)
    }
}

impl State {
    /// Queues a record and makes it the event's last one.
    pub(crate) fn submit_record(&mut self, timeline: u32, handle: usize, after: Vec<(u32, u64)>) {
        // The operation's number is only known once it is queued, and is also the record's.
        let number = self.numbers() + 1;
        let work = Work::Record(EventRef { handle, record: number });
        self.submit(timeline, work, after);
        let stream = self.live(timeline);
        let epoch = Epoch { timeline, place: stream.submitted() };
        let clock = stream.clock.clone();
        if let Ok(event) = self.events.get_mut(handle) {
            event.captured = None;
            event.record = Some(Record { number, epoch, clock, finished_at: None, refused: 0 });
        }
    }
}
