//! Submission: an operation takes its place in a stream, and in the order of everything.
//!
//! The hazard checker works here and only here. What an operation comes after is: its stream's
//! past, what its stream waited for, the documented rules of the legacy stream, and what the host
//! had observed. It is compared with every earlier access to its bytes, whether or not the two
//! would ever have overlapped.

use cuda_sys::CUresult;
use smallvec::SmallVec;

use crate::call::Call;
use crate::clock::{Clock, Epoch};
use crate::hazard::{Allocation, Hazard, Operation};
use crate::kernel::Access;
use crate::shadow::{Label, Seen};
use crate::state::{Answer, QUEUE_MAX, State};
use crate::stream::{Place, Queued, StreamKind, Work};

/// What an operation uses.
pub(crate) type Accesses = SmallVec<[Access; 2]>;

impl Call {
    /// Puts an operation into a stream, or into the graph that the stream captures.
    pub(crate) fn enqueue(&mut self, timeline: u32, work: Work) -> Answer {
        if 0 < self.live_captures {
            if self.live(timeline).capture.is_some() {
                return self.capture_work(timeline, work);
            }
            self.refuse_implicit(timeline)?;
        }
        self.make_room(timeline)?;
        self.submit(timeline, work, Vec::new());
        self.after_submission()
    }

    /// A full queue makes the submitter wait until there is room.
    pub(crate) fn make_room(&mut self, timeline: u32) -> Answer {
        loop {
            let stream = self.stream(timeline).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
            if stream.queue.len() < QUEUE_MAX {
                return Ok(());
            }
            let next = stream.done + 1;
            self.complete(&[(timeline, next)])?;
        }
    }
}

impl State {
    /// Takes the operation's place in the order, compares its accesses, and queues it.
    pub(crate) fn submit(&mut self, timeline: u32, work: Work, after: Vec<(u32, u64)>) -> u64 {
        let mut after = after;
        self.legacy_edges(timeline, &mut after);
        let number = self.new_number();
        let place = self.live(timeline).submitted() + 1;
        self.hardware_queue(timeline, place, &mut after);
        let seen = Seen { epoch: Epoch { timeline, place }, number, label: work.label() };
        if let Work::Kernel(launch) = &work {
            let launch = std::sync::Arc::clone(launch);
            self.touch_all(&launch.accesses, seen);
        } else {
            self.touch_all(&accesses_of(&work), seen);
        }
        let is_host_function = matches!(work, Work::HostFunction(_));
        self.host_functions += usize::from(is_host_function);
        let submitted_at = self.time();
        let stream = self.live_mut(timeline);
        let clock = is_host_function.then(|| stream.clock.clone());
        let queued = Queued { number, work, after, submitted_at, clock, started: false };
        stream.queue.push_back(queued);
        self.note_busy(timeline);
        number
    }

    /// Streams that share a hardware queue run one after the other. That is no order to build
    /// on: it holds things up and proves nothing.
    fn hardware_queue(&mut self, timeline: u32, place: u64, after: &mut Vec<(u32, u64)>) {
        let device = self.context(self.live(timeline).context).device;
        let device = self.device_mut(device);
        let Some(count) = device.profile.hardware_queues else { return };
        let queue = timeline % count.get();
        let before = device.queue_tails.insert(queue, (timeline, place));
        after.extend(before.filter(|&(other, _)| other != timeline));
    }

    fn note_busy(&mut self, timeline: u32) {
        if self.live(timeline).busy_at.is_none() {
            let at = self.busy.len();
            self.busy.push(timeline);
            self.live_mut(timeline).busy_at = Some(at);
        }
    }

    pub(crate) fn note_idle(&mut self, timeline: u32) {
        let Some(at) = self.live_mut(timeline).busy_at.take() else { return };
        self.busy.swap_remove(at);
        if let Some(&moved) = self.busy.get(at) {
            self.live_mut(moved).busy_at = Some(at);
        }
    }

    /// The documented order of the legacy stream with the context's blocking streams.
    fn legacy_edges(&mut self, timeline: u32, after: &mut Vec<(u32, u64)>) {
        let stream = self.live(timeline);
        let kind = stream.kind;
        if kind == StreamKind::Legacy {
            let context = self.context(stream.context);
            let mut clock = stream.clock.clone();
            for &other in &context.blocking {
                let other = self.live(other);
                let place = other.submitted();
                let epoch = Epoch { timeline: other.timeline, place };
                clock.advance(epoch, &self.observed);
                clock.join(&other.clock, &self.observed, timeline);
                if other.done < place {
                    after.push((other.timeline, place));
                }
            }
            for (epoch, gone, _) in context.gone.iter().filter(|gone| gone.2) {
                clock.advance(*epoch, &self.observed);
                clock.join(gone, &self.observed, timeline);
            }
            self.live_mut(timeline).clock = clock;
        } else if kind.is_blocking() {
            let legacy = self.live(self.context(stream.context).legacy);
            let place = legacy.submitted();
            if stream.legacy_seen < place {
                let epoch = Epoch { timeline: legacy.timeline, place };
                let other = legacy.clock.clone();
                if legacy.done < place {
                    after.push((legacy.timeline, place));
                }
                self.learn(timeline, epoch, &other);
                self.live_mut(timeline).legacy_seen = place;
            }
        }
    }

    /// A stream's later operations come after `epoch` and all that `clock` knows.
    pub(crate) fn learn(&mut self, timeline: u32, epoch: Epoch, clock: &Clock) {
        let mut own = std::mem::take(&mut self.live_mut(timeline).clock);
        if epoch.timeline != timeline {
            own.advance(epoch, &self.observed);
        }
        own.join(clock, &self.observed, timeline);
        self.live_mut(timeline).clock = own;
    }

    pub(crate) fn touch_all(&mut self, accesses: &[Access], seen: Seen) {
        for access in accesses {
            self.touch(access, seen);
        }
    }

    /// Compares one access with those before it and remembers it.
    fn touch(&mut self, access: &Access, seen: Seen) {
        let (start, end) = (access.range.start, access.range.end);
        if start == end {
            return;
        }
        let Some(pieces) = self.memory.pieces(start, end - start) else { return };
        let timeline = seen.epoch.timeline;
        let clock = self.live(timeline).clock.clone();
        if self.settings.hazards && !self.tenancy.is_empty() {
            self.judge_tenancy(access, seen);
        }
        let mut address = start;
        for piece in pieces {
            let observed = &self.observed;
            let ordered = |earlier: &Seen| is_ordered(earlier, timeline, &clock, observed);
            if let Some(mapping) = self.memory.mappings.get_mut(&piece.mapping) {
                mapping.uses.retain(|earlier| {
                    earlier.epoch.timeline != timeline && !observed.covers(earlier.epoch)
                });
                mapping.uses.push(seen);
            }
            if !self.settings.hazards {
                continue;
            }
            let range = piece.offset..piece.offset + piece.bytes;
            let clash = self
                .memory
                .backing_mut(piece.backing)
                .and_then(|backing| backing.shadow.touch(range, access.kind, seen, ordered));
            if let Some(clash) = clash {
                let at = |offset: u64| address + (offset - piece.offset);
                let hazard = Hazard::Race {
                    first: self.describe(&clash.earlier),
                    first_kind: clash.earlier_kind,
                    second: self.describe(&seen),
                    second_kind: access.kind,
                    range: at(clash.range.start)..at(clash.range.end),
                    allocation: self.allocation(piece.mapping),
                };
                self.report(hazard);
            }
            address += piece.bytes;
        }
    }

    fn judge_tenancy(&mut self, access: &Access, seen: Seen) {
        if let Some((range, tenant)) = self.tenancy.find(&access.range, false) {
            let range = range.start.max(access.range.start)..range.end.min(access.range.end);
            let dead_on = tenant.stream.clone();
            let hazard = Hazard::UseAfterDeath { operation: self.describe(&seen), range, dead_on };
            self.report(hazard);
        }
    }

    /// Whether an operation submitted to a stream now would come after every earlier access.
    pub(crate) fn probe(&self, access: &Access, timeline: u32) -> Result<(), Box<Hazard>> {
        let clock = self.next_clock(timeline);
        let ordered = |earlier: &Seen| is_ordered(earlier, timeline, &clock, &self.observed);
        let (start, end) = (access.range.start, access.range.end);
        let mut address = start;
        for piece in self.memory.pieces(start, end - start).unwrap_or_default() {
            let range = piece.offset..piece.offset + piece.bytes;
            let clash = self
                .memory
                .backing(piece.backing)
                .and_then(|backing| backing.shadow.check(range, access.kind, ordered));
            if let Some(clash) = clash {
                let at = |offset: u64| address + (offset - piece.offset);
                return Err(Box::new(Hazard::Race {
                    first: self.describe(&clash.earlier),
                    first_kind: clash.earlier_kind,
                    second: Operation {
                        number: self.numbers() + 1,
                        what: String::from("the next operation"),
                        stream: self.stream_name(timeline),
                    },
                    second_kind: access.kind,
                    range: at(clash.range.start)..at(clash.range.end),
                    allocation: self.allocation(piece.mapping),
                }));
            }
            address += piece.bytes;
        }
        Ok(())
    }

    /// What an operation submitted to the stream now would come after.
    fn next_clock(&self, timeline: u32) -> Clock {
        let Some(stream) = self.stream(timeline) else { return Clock::default() };
        let mut clock = stream.clock.clone();
        let context = self.context(stream.context);
        let others: Vec<u32> = if stream.kind == StreamKind::Legacy {
            context.blocking.clone()
        } else if stream.kind.is_blocking() {
            vec![context.legacy]
        } else {
            Vec::new()
        };
        for other in others.into_iter().filter_map(|other| self.stream(other)) {
            let epoch = Epoch { timeline: other.timeline, place: other.submitted() };
            clock.advance(epoch, &self.observed);
            clock.join(&other.clock, &self.observed, timeline);
        }
        clock
    }

    /// An operation in a report's words.
    pub(crate) fn describe(&self, seen: &Seen) -> Operation {
        Operation {
            number: seen.number,
            what: self.label_text(seen.label),
            stream: self.stream_name(seen.epoch.timeline),
        }
    }

    pub(crate) fn label_text(&self, label: Label) -> String {
        match label {
            Label::Kernel(name) => {
                let name = self.kernel_names.get(crate::state::index(name));
                format!("kernel {}", name.map_or("?", |name| name))
            }
            Label::Fill => String::from("fill"),
            Label::Copy => String::from("copy"),
            Label::PoolFree => String::from("stream-ordered free"),
            Label::WriteValue => String::from("write value"),
            Label::WaitValue => String::from("wait value"),
            Label::Marker => String::from("marker"),
            Label::Record => String::from("event record"),
            Label::HostFunction => String::from("host function"),
        }
    }

    pub(crate) fn allocation(&self, mapping: u64) -> Allocation {
        let bytes = self.memory.mappings.get(&mapping).map_or(0, |mapping| mapping.bytes);
        Allocation { address: mapping, bytes }
    }
}

/// Whether `earlier` is known to come before the next operation of a timeline.
fn is_ordered(
    earlier: &Seen,
    timeline: u32,
    clock: &Clock,
    observed: &crate::clock::Observed,
) -> bool {
    earlier.epoch.timeline == timeline
        || observed.covers(earlier.epoch)
        || earlier.epoch.place <= clock.at(earlier.epoch.timeline)
}

/// The bytes that an operation other than a kernel uses.
fn accesses_of(work: &Work) -> Accesses {
    let mut accesses = Accesses::new();
    match work {
        Work::Fill { address, bytes, .. } => accesses.push(Access::write(*address, *bytes)),
        Work::Copy { to, from, bytes, .. } => {
            if let Place::Address(from) = from {
                accesses.push(Access::read(*from, *bytes));
            }
            if let Place::Address(to) = to {
                accesses.push(Access::write(*to, *bytes));
            }
        }
        Work::WriteValue { address, .. } | Work::WaitValue { address, .. } => {
            accesses.push(Access::atomic(*address, 8));
        }
        Work::Nothing
        | Work::Record(_)
        | Work::Kernel(_)
        | Work::HostFunction(_)
        | Work::Release(_)
        | Work::PoolFree { .. } => {}
    }
    accesses
}
