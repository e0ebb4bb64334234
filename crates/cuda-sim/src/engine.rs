//! The device: operations run when the schedule, or somebody who waits, wants them to.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cuda_sys::CUresult;
use smallvec::SmallVec;

use crate::call::Call;
use crate::clock::Epoch;
use crate::hazard::Hazard;
use crate::kernel::KernelCall;
use crate::perform::duration;
use crate::schedule::Schedule;
use crate::state::{Answer, State};
use crate::stream::{Queued, Work};
use crate::threads::Blocked;
use crate::vigil::{HostThread, Vigil};

/// How long a call that may not block waits for a host function that it started and that is held
/// up by something.
const GRACE: Duration = Duration::from_millis(100);

/// How often it looks.
const LOOK: Duration = Duration::from_millis(1);

/// What could run next.
#[derive(Debug)]
enum Pick {
    /// Everything asked for is done.
    Done,
    /// The first operation of this timeline.
    Run(u32),
    /// Only the host, or a host function on its way, can bring progress.
    Wait,
}

impl Call {
    /// What happens by itself between two calls.
    pub(crate) fn drift(&mut self) -> Answer {
        if self.busy.is_empty() {
            return Ok(());
        }
        if *self.chooser.schedule() == Schedule::RealTime {
            Ok(())
        } else if self.chooser.is_timed() {
            self.settle()
        } else if self.chooser.is_scripted() {
            self.start_a_host_function()
        } else if self.chooser.once_in(4) {
            for _ in 0..=self.chooser.draw(3) {
                let count = u32::try_from(self.busy.len()).unwrap_or(u32::MAX);
                let choice = crate::state::index(self.chooser.draw(count));
                if let Some(&timeline) = self.busy.get(choice)
                    && self.can_run(timeline)
                {
                    self.step(timeline)?;
                }
            }
            Ok(())
        } else {
            Ok(())
        }
    }

    /// What happens right after a submission.
    pub(crate) fn after_submission(&mut self) -> Answer {
        if *self.chooser.schedule() == Schedule::Eager {
            return self.run_all();
        }
        if *self.chooser.schedule() == Schedule::RealTime {
            self.ensure_worker();
            self.slot.changed.notify_all();
        }
        Ok(())
    }

    /// Runs all that can run.
    fn run_all(&mut self) -> Answer {
        while let Some(timeline) = self.first_that_can_run() {
            self.step(timeline)?;
        }
        Ok(())
    }

    fn first_that_can_run(&mut self) -> Option<u32> {
        let busy: SmallVec<[u32; 16]> = SmallVec::from_slice(&self.busy);
        busy.into_iter().find(|&timeline| self.can_run(timeline))
    }

    /// Runs all that the clock says is over, in that order.
    pub(crate) fn settle(&mut self) -> Answer {
        while let Some(timeline) = self.first_due(true) {
            self.step(timeline)?;
        }
        Ok(())
    }

    /// In a scripted run, a host function that could start may do so now: the host may notice.
    fn start_a_host_function(&mut self) -> Answer {
        if self.host_functions == 0 {
            return Ok(());
        }
        let waiting: Vec<(u32, u64)> = self
            .busy
            .iter()
            .filter_map(|&timeline| {
                let stream = self.live(timeline);
                let ahead = stream.queue.iter().position(|queued| {
                    matches!(queued.work, Work::HostFunction(_)) && !queued.started
                })?;
                Some((timeline, stream.done + 1 + crate::memory::size(ahead)))
            })
            .collect();
        for needed in waiting {
            if self.chooser.choose(2) == 1 {
                self.drive(&[needed], false)?;
            }
        }
        Ok(())
    }

    /// Runs what `needs` asks for and nothing else, and waits until it is done.
    ///
    /// # Errors
    /// It can never be done; a deadlock is reported.
    pub(crate) fn complete(&mut self, needs: &[(u32, u64)]) -> Answer {
        self.drive(needs, true)?;
        let finish = needs.iter().map(|&(timeline, place)| {
            self.stream(timeline).map_or(0, |stream| stream.finish_of(place))
        });
        let finish = finish.max().unwrap_or(0);
        self.now = self.now.max(finish);
        Ok(())
    }

    /// Runs what `needs` asks for; whether it is done. Without `block` it gives up where only
    /// the host can help.
    pub(crate) fn drive(&mut self, needs: &[(u32, u64)], block: bool) -> Answer<bool> {
        let mut vigil: Option<Vigil> = None;
        loop {
            match self.pick(needs) {
                Pick::Done => return Ok(true),
                Pick::Run(timeline) if self.is_early(timeline) => {
                    if !block {
                        return Ok(false);
                    }
                    let left = self.due(timeline).saturating_sub(self.time());
                    self.wait(Duration::from_nanos(left))?;
                }
                Pick::Run(timeline) => {
                    vigil = None;
                    self.step(timeline)?;
                }
                Pick::Wait if !block => return Ok(false),
                Pick::Wait => {
                    self.wait_for_the_host(needs, vigil.get_or_insert_with(Vigil::new))?;
                }
            }
        }
    }

    /// In real time, an operation that is not over yet.
    fn is_early(&self, timeline: u32) -> bool {
        *self.chooser.schedule() == Schedule::RealTime && self.time() < self.due(timeline)
    }

    fn wait_for_the_host(&mut self, needs: &[(u32, u64)], vigil: &mut Vigil) -> Answer {
        let others_may_help = match self.unlocked(crate::threads::block)? {
            Blocked::NotScheduled => {
                self.look_at_the_worker(vigil);
                vigil.waited() < self.settings.patience
            }
            Blocked::Progress => return Ok(()),
            Blocked::Everybody => self.busy.iter().any(|&timeline| self.first_is_started(timeline)),
        };
        if !others_may_help {
            let cycle = self.explain(needs);
            let call = self.name();
            self.report(Hazard::Deadlock { call, cycle });
            return Err(CUresult::CUDA_ERROR_LAUNCH_TIMEOUT);
        }
        self.wait(Duration::from_micros(200))
    }

    /// Whether the machine's own thread, if it has anything to do, waits for something.
    fn look_at_the_worker(&self, vigil: &mut Vigil) {
        let at = &self.worker_at;
        if self.host_jobs.is_empty() && !at.has_job.load(Ordering::Acquire) {
            return vigil.nobody();
        }
        match at.inside.load(Ordering::Acquire) {
            0 => vigil.somebody(),
            inside => vigil.look(HostThread(inside)),
        }
    }

    /// Runs the first operation of a timeline, which [`State::can_run`].
    fn step(&mut self, timeline: u32) -> Answer {
        let stream = self.live_mut(timeline);
        let context = stream.context;
        let Some(first) = stream.queue.front_mut() else { return Ok(()) };
        let Work::HostFunction(function) = first.work else {
            self.execute(timeline);
            self.start_host_jobs();
            return Ok(());
        };
        if self.context(context).broken.is_some() {
            self.execute(timeline);
            return Ok(());
        }
        self.start(timeline, function);
        let mut vigil = Vigil::new();
        let place = self.live(timeline).done + 1;
        while !self.is_done(timeline, place) && vigil.waited() < GRACE {
            self.wait(LOOK)?;
            self.look_at_the_worker(&mut vigil);
        }
        Ok(())
    }

    /// Sends a host function to the machine's own thread. Its start shows the host that all
    /// before it is done.
    fn start(&mut self, timeline: u32, function: crate::shims::raw::HostCall) {
        let place = self.live(timeline).done;
        let stream = self.live_mut(timeline);
        let clock = stream.queue.front_mut().and_then(|first| {
            first.started = true;
            first.clock.take()
        });
        self.observe(Epoch { timeline, place }, &clock.unwrap_or_default());
        self.host_jobs.push_back((Some(timeline), function));
        self.ensure_worker();
        self.slot.changed.notify_all();
    }

    /// Runs all that the clock says is over, on the machine's own thread.
    pub(crate) fn run_due(&mut self) {
        while let Some(timeline) = self.first_due(true) {
            let first = self.live(timeline).queue.front();
            match first.map(|first| first.work.clone()) {
                Some(Work::HostFunction(function))
                    if self.context(self.live(timeline).context).broken.is_none() =>
                {
                    self.start(timeline, function);
                }
                _ => self.execute(timeline),
            }
            self.slot.changed.notify_all();
        }
    }

    /// When the next operation that can run is over.
    pub(crate) fn next_due(&mut self) -> Option<u64> {
        let timeline = self.first_due(false)?;
        Some(self.due(timeline))
    }

    /// The timeline whose first operation is over first, of those that can run.
    fn first_due(&mut self, by_now: bool) -> Option<u32> {
        let now = if by_now { self.time() } else { u64::MAX };
        let mut best: Option<(u64, u32)> = None;
        for at in 0..self.busy.len() {
            let Some(&timeline) = self.busy.get(at) else { break };
            if self.can_run(timeline) {
                let due = (self.due(timeline), timeline);
                if due.0 <= now && best.is_none_or(|best| due < best) {
                    best = Some(due);
                }
            }
        }
        best.map(|(_, timeline)| timeline)
    }

    /// Wakes the machine's own thread when there are host functions for it.
    pub(crate) fn start_host_jobs(&mut self) {
        if !self.host_jobs.is_empty() {
            self.ensure_worker();
            self.slot.changed.notify_all();
        }
    }

    fn ensure_worker(&mut self) {
        if !self.worker {
            self.worker = true;
            crate::worker::spawn(self.slot, self.serial);
        }
    }
}

impl State {
    /// Chooses among the operations that bring `needs` nearer.
    fn pick(&mut self, needs: &[(u32, u64)]) -> Pick {
        let mut open: SmallVec<[u32; 16]> = SmallVec::new();
        for &(timeline, place) in needs {
            if !self.is_done(timeline, place) && !open.contains(&timeline) {
                open.push(timeline);
            }
        }
        if open.is_empty() {
            return Pick::Done;
        }
        let mut ready: SmallVec<[u32; 16]> = SmallVec::new();
        let mut next = 0;
        while let Some(&timeline) = open.get(next) {
            next += 1;
            let Some(first) = self.live(timeline).queue.front() else { continue };
            let mut held_up = first.started;
            for &(other, place) in &first.after {
                if !self.is_done(other, place) {
                    held_up = true;
                    if !open.contains(&other) {
                        open.push(other);
                    }
                }
            }
            if !held_up {
                ready.push(timeline);
            }
        }
        ready.retain(|timeline| self.gate_is_open(*timeline));
        let count = u32::try_from(ready.len()).unwrap_or(u32::MAX);
        let choice = crate::state::index(self.chooser.draw(count));
        ready.get(choice).map_or(Pick::Wait, |&timeline| Pick::Run(timeline))
    }

    fn first_is_started(&self, timeline: u32) -> bool {
        self.live(timeline).queue.front().is_some_and(|first| first.started)
    }

    /// Whether a timeline's first operation could run now.
    fn can_run(&mut self, timeline: u32) -> bool {
        let Some(first) = self.live(timeline).queue.front() else { return false };
        !first.started
            && first.after.iter().all(|&(other, place)| self.is_done(other, place))
            && self.gate_is_open(timeline)
    }

    /// Whether a kernel that waits for the host, or a wait for a value, may go on.
    fn gate_is_open(&mut self, timeline: u32) -> bool {
        let stream = self.live(timeline);
        let context = stream.context;
        let Some(first) = stream.queue.front() else { return false };
        match &first.work {
            Work::Kernel(launch) if launch.body.has_gate() => {
                if self.context(context).broken.is_some() {
                    return true;
                }
                let launch = Arc::clone(launch);
                let call = KernelCall::new(&mut self.memory, &launch);
                launch.body.is_ready(&call)
            }
            Work::WaitValue { address, value, flags } => {
                let (address, value, flags) = (*address, *value, *flags);
                let mut bytes = [0; 8];
                let read = self.memory.read(address, &mut bytes);
                !read || value_reached(u64::from_le_bytes(bytes), value, flags)
            }
            Work::Kernel(_)
            | Work::Nothing
            | Work::Record(_)
            | Work::Fill { .. }
            | Work::Copy { .. }
            | Work::HostFunction(_)
            | Work::PoolFree { .. }
            | Work::Release(_)
            | Work::WriteValue { .. } => true,
        }
    }

    /// When a timeline's first operation is over, if it starts as soon as it can.
    pub(crate) fn due(&self, timeline: u32) -> u64 {
        let stream = self.live(timeline);
        stream.queue.front().map_or(0, |first| self.start_time(timeline, first) + duration(first))
    }

    fn start_time(&self, timeline: u32, queued: &Queued) -> u64 {
        let after = queued
            .after
            .iter()
            .map(|&(other, place)| self.stream(other).map_or(0, |stream| stream.finish_of(place)));
        let after = after.max().unwrap_or(0);
        queued.submitted_at.max(self.live(timeline).last_finish()).max(after)
    }

    /// Takes the first operation off its queue and does what it says.
    pub(crate) fn execute(&mut self, timeline: u32) {
        let context = self.live(timeline).context;
        let Some(queued) = self.live_mut(timeline).queue.pop_front() else { return };
        let whole = self.context(context).broken.is_none();
        let mut start = self.start_time(timeline, &queued);
        let was_gated = if let Work::Kernel(launch) = &queued.work {
            launch.body.has_gate()
        } else {
            matches!(queued.work, Work::WaitValue { .. })
        };
        if was_gated {
            start = start.max(self.time());
        }
        let finish = if whole { start + duration(&queued) } else { start };
        if whole {
            self.perform(timeline, &queued);
        }
        if let Work::Record(event) = queued.work
            && let Ok(event_state) = self.events.get_mut(event.handle)
            && let Some(record) = &mut event_state.record
            && record.number == event.record
        {
            record.finished_at = Some(finish);
        }
        self.host_functions -= usize::from(matches!(queued.work, Work::HostFunction(_)));
        self.finish_first(timeline, finish);
    }

    /// The first operation is over: the queue has lost it already.
    fn finish_first(&mut self, timeline: u32, finish: u64) {
        let stream = self.live_mut(timeline);
        stream.note_finish(finish);
        if stream.queue.is_empty() {
            let destroyed = stream.destroyed;
            self.note_idle(timeline);
            if destroyed {
                self.retire(timeline);
            }
        }
    }

    /// A host function has returned.
    pub(crate) fn finish_host_function(&mut self, timeline: u32) {
        let Some(queued) = self.live_mut(timeline).queue.pop_front() else { return };
        self.host_functions -= 1;
        let finish = self.start_time(timeline, &queued) + duration(&queued);
        self.finish_first(timeline, finish);
    }

    /// Who waits for whom, for a deadlock report.
    fn explain(&self, needs: &[(u32, u64)]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut open: Vec<u32> = Vec::new();
        for &(timeline, place) in needs {
            if !self.is_done(timeline, place) && !open.contains(&timeline) {
                open.push(timeline);
            }
        }
        let mut next = 0;
        while let Some(&timeline) = open.get(next) {
            next += 1;
            let Some(first) = self.live(timeline).queue.front() else { continue };
            let what = self.label_text(first.work.label());
            let who =
                format!("{what} (operation {} on {})", first.number, self.stream_name(timeline));
            let pending = first.after.iter().find(|&&(other, place)| !self.is_done(other, place));
            match pending {
                Some(&(other, _)) => {
                    lines.push(format!("{who} waits for {}", self.stream_name(other)));
                    if !open.contains(&other) {
                        open.push(other);
                    }
                }
                None if first.started => lines.push(format!("{who} has not returned")),
                None => lines.push(format!("{who} waits for the host")),
            }
        }
        lines
    }
}

/// The conditions of a wait for a value: greater or equal, equal, and, nor.
fn value_reached(now: u64, wanted: u64, flags: u32) -> bool {
    match flags & 3 {
        0 => now.wrapping_sub(wanted) < 1 << 63,
        1 => now == wanted,
        2 => now & wanted != 0,
        _ => !(now | wanted) != 0,
    }
}
