//! Takes what happened in order, and says what is wrong about it.
//!
//! One act gives at most one report for each part of memory it touches: the one that says most. An
//! act that was reported is blamed, so that what follows from it, such as a hand-out of memory that
//! the allocator could not know to be in use, is not reported again.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is told beyond what is named here is nothing to judge"
)]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use allocator::observe::{Happening as MemoryHappening, UseKind, What as MemoryWhat};
use streams::observe::{Accessed, Happening, Operation, Place, Reached, Scope, WaitedFor, What};

use crate::memory::{Act, BlockSeen, Memory, Said, Trace, Wrong};
use crate::report::{Buffer, Deed, Kind, Line, Report, StreamName};
use crate::timeline::{Seen, Timeline};

/// Operations that are kept of one capture.
const CAPTURED_MAX: usize = 1 << 16;

/// An operation that went into a graph.
#[derive(Debug, Clone)]
struct Captured {
    part: Accessed,
    place: Option<Place>,
    work: Arc<str>,
}

/// Everything that was seen, and what was found since it was last taken.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    timeline: Timeline,
    memory: Memory,
    captures: HashMap<u64, Vec<Captured>>,
    names: HashSet<Arc<str>>,
    /// Counts acts and waits, so that it is known which came first.
    clock: u64,
    found: Vec<Report>,
}

impl Judge {
    pub(crate) fn take_found(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.found)
    }

    pub(crate) fn hear_of_streams(&mut self, happening: &Happening<'_>) {
        let place = happening.place;
        self.clock += 1;
        match happening.what {
            What::StreamOpened { stream, context, kind, non_blocking, .. } => {
                self.timeline.open(stream, Seen::new(context, kind, non_blocking, place));
            }
            What::HandleGivenOut { stream } => self.timeline.share(stream),
            What::StreamRetired { stream } => self.timeline.retire(stream),
            What::Submitted { stream, ordinal, capture, operation, accesses } => {
                let work = self.name(operation);
                match capture {
                    Some(capture) => self.capture(capture, (operation, accesses), place, &work),
                    None => self.submit(stream, ordinal, (operation, accesses), (place, &work)),
                }
            }
            What::Recorded { stream, ordinal, capture: None, record, .. } => {
                self.timeline.record(record, stream, ordinal, place);
            }
            What::Waited { stream, ordinal, capture: None, on, .. } => match on {
                WaitedFor::Record(record) => {
                    self.timeline.wait((stream, ordinal), record, place, self.clock);
                }
                _ => self.timeline.wait_for_anything(stream, ordinal),
            },
            What::NothingToWaitFor { stream, .. } => self.report_empty_wait(stream, place),
            What::Passed { scope, reached, .. } => self.pass(scope, reached),
            What::GraphGone { capture } => drop(self.captures.remove(&capture)),
            _ => {}
        }
    }

    pub(crate) fn hear_of_memory(&mut self, happening: &MemoryHappening) {
        let place = happening.place;
        match happening.what {
            MemoryWhat::Opened { address, bytes } => self.memory.open(address, bytes),
            MemoryWhat::Closed { address, bytes } => self.close(address, bytes, place),
            MemoryWhat::Allocated { address, size, requested, stream, step, capturing } => {
                self.timeline.join_implied(stream);
                let block = BlockSeen {
                    serial: 0,
                    address,
                    size,
                    requested,
                    moved_to: stream.into(),
                    made_for: stream,
                    home_ordinal: self.timeline.ordinal(stream),
                    step,
                    is_complete: capturing,
                    place,
                };
                self.hand_out(block);
            }
            MemoryWhat::Used { address, stream, kind } => {
                let said = match kind {
                    UseKind::WholeStream => Said::Whole,
                    UseKind::UntilNow => Said::UntilNow,
                    UseKind::Begun => Said::Begun,
                    UseKind::Submitted => Said::Ended,
                    _ => Said::Cancelled,
                };
                self.memory.tell(address, stream, said);
            }
            MemoryWhat::Moved { address, stream } => self.memory.move_to(address, stream),
            MemoryWhat::Held { address } => self.memory.hold(address),
            MemoryWhat::HoldEnded { address } => self.memory.end_hold(address),
            MemoryWhat::Freed { address, .. } => self.free(address, place),
            _ => {}
        }
    }

    fn name(&mut self, operation: Operation<'_>) -> Arc<str> {
        let kernel;
        let text = match operation {
            Operation::Launch { kernel: name } => {
                kernel = format!("kernel {name}");
                &kernel
            }
            Operation::CopyToDevice => "copy to device",
            Operation::CopyToHost => "copy to host",
            Operation::CopyOnDevice => "copy on device",
            Operation::Fill => "fill",
            Operation::HostFunction => "host function",
            Operation::Graph { .. } => "graph",
            _ => "work",
        };
        if let Some(known) = self.names.get(text) {
            return Arc::clone(known);
        }
        let name: Arc<str> = Arc::from(text);
        self.names.insert(Arc::clone(&name));
        name
    }

    fn capture(
        &mut self,
        capture: u64,
        (operation, accesses): (Operation<'_>, &[Accessed]),
        place: Option<Place>,
        work: &Arc<str>,
    ) {
        let inner = match operation {
            Operation::Graph { capture } => self.captures.get(&capture).cloned(),
            _ => None,
        };
        let kept = self.captures.entry(capture).or_default();
        let own =
            accesses.iter().map(|part| Captured { part: *part, place, work: Arc::clone(work) });
        kept.extend(inner.into_iter().flatten().chain(own));
        kept.truncate(CAPTURED_MAX);
    }

    fn submit(
        &mut self,
        stream: u64,
        ordinal: u64,
        (operation, accesses): (Operation<'_>, &[Accessed]),
        (place, work): (Option<Place>, &Arc<str>),
    ) {
        self.timeline.add(stream, ordinal);
        let graph = match operation {
            Operation::Graph { capture } => self.captures.get(&capture).cloned(),
            _ => None,
        };
        let act = |place, replayed: Option<Option<Place>>, work: &Arc<str>, access, time| Act {
            stream,
            ordinal,
            place,
            replayed: replayed.flatten(),
            is_replayed: replayed.is_some(),
            work: Arc::clone(work),
            access,
            time,
            is_blamed: false.into(),
        };
        for part in accesses {
            self.touch(*part, act(place, None, work, part.access, self.clock));
        }
        for captured in graph.into_iter().flatten() {
            let (part, work) = (captured.part, &captured.work);
            let act = act(captured.place, Some(place), work, part.access, self.clock);
            self.touch(part, act);
        }
    }

    fn touch(&mut self, part: Accessed, act: Act) {
        let act = Arc::new(act);
        let wrong = self.memory.touch(part.address, part.bytes, &act, &self.timeline);
        let judged = wrong.into_iter().filter_map(|(block, wrong)| {
            let rank = self.rank(&act, block.as_deref(), &wrong)?;
            Some((rank, block, wrong))
        });
        let Some((kind, block, wrong)) = judged.min_by_key(|(kind, _, _)| severity(*kind)) else {
            return;
        };
        act.blame();
        self.report(kind, block.as_deref(), &wrong, &act);
    }

    /// Which kind of fault it is, if it is one.
    fn rank(&self, act: &Act, block: Option<&BlockSeen>, wrong: &Wrong) -> Option<Kind> {
        Some(match wrong {
            Wrong::AfterFree(_) | Wrong::Unowned => Kind::UseAfterFree,
            // Others may have written what nobody saw.
            Wrong::Stale(..) if self.timeline.has_strangers => return None,
            Wrong::Stale(..) => Kind::StaleRead,
            Wrong::BeforeAllocation(_) => Kind::UseBeforeAllocation,
            Wrong::Unordered(trace) => {
                let writer = trace.block.as_ref().map(|block| block.serial);
                if writer != block.map(|block| block.serial) {
                    Kind::UseBeforeAllocation
                } else if self.missed_by_wait(&trace.act, act.stream).is_some() {
                    Kind::WrongEvent
                } else {
                    Kind::UnorderedAccess
                }
            }
        })
    }

    /// A wait that was made after the act, and for a record before it.
    fn missed_by_wait(&self, act: &Act, waiter: u64) -> Option<String> {
        let wait = self.timeline.last_wait(waiter, act.stream)?;
        let missed = wait.ordinal < act.ordinal && act.time < wait.time;
        missed.then(|| {
            format!(
                "the wait at {} covers stream {} only up to the record at {}, which is before the \
                 {} at {}",
                Line(wait.waited),
                act.stream,
                Line(wait.recorded),
                act.work,
                Line(act.place)
            )
        })
    }

    fn report(&mut self, kind: Kind, block: Option<&BlockSeen>, wrong: &Wrong, act: &Act) {
        let later = self.deed(act);
        let (user, line) = (act.stream, later.line);
        let mut uncovered = None;
        let (earlier, remedy) = match wrong {
            Wrong::Unordered(trace) => {
                uncovered = self.missed_by_wait(&trace.act, user);
                (Some(self.deed(&trace.act)), wait_remedy(user, trace.act.stream, line))
            }
            Wrong::BeforeAllocation(block) => {
                (Some(self.hand_out_of(block)), wait_remedy(user, block.made_for, line))
            }
            Wrong::AfterFree(freed) => {
                let free = Deed {
                    what: "free".to_owned(),
                    stream: self.stream(freed.block.home()),
                    line: Line(freed.place),
                    replayed: None,
                };
                (Some(free), format!("free the buffer after {line}"))
            }
            Wrong::Unowned => (None, "use memory that is allocated".to_owned()),
            Wrong::Stale(write, block) => {
                let given = Line(block.place);
                let remedy = format!(
                    "keep the earlier buffer until after {line}; its memory was handed out again \
                     at {given}"
                );
                (Some(self.deed(&write.act)), remedy)
            }
        };
        let buffer = block.map(|block| self.buffer(block));
        self.found.push(Report { kind, buffer, earlier, later, uncovered, remedy, count: 1 });
    }

    fn report_empty_wait(&mut self, stream: u64, place: Option<Place>) {
        let line = Line(place);
        let later = Deed {
            what: "wait for an event that was never recorded".to_owned(),
            stream: self.stream(stream),
            line,
            replayed: None,
        };
        let remedy = format!("record the event after the work it stands for, before {line}");
        self.found.push(Report {
            kind: Kind::WrongEvent,
            buffer: None,
            earlier: None,
            later,
            uncovered: Some("nothing".to_owned()),
            remedy,
            count: 1,
        });
    }

    fn hand_out(&mut self, block: BlockSeen) {
        let (block, before) = self.memory.hand_out(block);
        let early = before.iter().find(|trace| {
            let (stream, ordinal) = (trace.act.stream, trace.act.ordinal);
            let fine = if block.is_complete {
                self.timeline.is_complete(stream, ordinal)
            } else {
                self.timeline.is_before(stream, ordinal, block.home())
            };
            !fine && !trace.act.is_blamed()
        });
        if let Some(trace) = early.cloned() {
            let later = self.hand_out_of(&block);
            let former = trace.block.as_deref().map(|former| self.buffer(former));
            self.report_allocator(Kind::HandedOutTooEarly, &trace, former, later);
        }
        self.memory.forget_before(&block, &self.timeline);
    }

    fn close(&mut self, address: u64, bytes: u64, place: Option<Place>) {
        let acts = self.memory.close(address, bytes);
        let early = acts.iter().find(|trace| {
            let (stream, ordinal) = (trace.act.stream, trace.act.ordinal);
            !self.timeline.is_complete(stream, ordinal) && !trace.act.is_blamed()
        });
        if let Some(trace) = early {
            let later = Deed {
                what: "return of the memory to the device".to_owned(),
                stream: self.stream(trace.act.stream),
                line: Line(place),
                replayed: None,
            };
            let former = trace.block.as_deref().map(|former| self.buffer(former));
            self.report_allocator(Kind::ReturnedTooEarly, trace, former, later);
        }
    }

    fn report_allocator(&mut self, kind: Kind, trace: &Trace, buffer: Option<Buffer>, later: Deed) {
        let earlier = Some(self.deed(&trace.act));
        let remedy = "none: this is a fault of the allocator".to_owned();
        self.found.push(Report { kind, buffer, earlier, later, uncovered: None, remedy, count: 1 });
    }

    fn free(&mut self, address: u64, place: Option<Place>) {
        let Some((block, untold)) = self.memory.free(address, place) else { return };
        self.timeline.join_implied(block.home());
        for act in untold {
            if self.timeline.is_before(act.stream, act.ordinal, block.home()) || act.is_blamed() {
                continue;
            }
            act.blame();
            let uncovered = self.missed_by_wait(&act, block.home());
            let kind = if uncovered.is_some() { Kind::WrongEvent } else { Kind::UntoldUse };
            let line = Line(place);
            let (user, home) = (act.stream, block.home());
            let remedy = format!(
                "record_stream(&stream {user}) on the buffer, or stream {home}.wait_stream(&stream \
                 {user}), before {line}"
            );
            let later =
                Deed { what: "free".to_owned(), stream: self.stream(home), line, replayed: None };
            let (earlier, buffer) = (Some(self.deed(&act)), Some(self.buffer(&block)));
            self.found.push(Report { kind, buffer, earlier, later, uncovered, remedy, count: 1 });
        }
    }

    fn pass(&mut self, scope: Scope, reached: &[Reached]) {
        match scope {
            Scope::Record(record) => self.timeline.pass_record(record),
            Scope::Stream { .. } => {
                reached.iter().for_each(|reached| self.timeline.pass(*reached));
            }
            Scope::Context { context } => self.timeline.pass_context(context, reached),
            _ => {}
        }
    }

    fn stream(&self, id: u64) -> StreamName {
        StreamName { id, opened: Line(self.timeline.seen(id).and_then(|seen| seen.opened)) }
    }

    fn buffer(&self, block: &BlockSeen) -> Buffer {
        Buffer {
            address: block.address,
            size: block.size,
            requested: block.requested,
            allocated: Line(block.place),
            home: self.stream(block.home()),
        }
    }

    fn hand_out_of(&self, block: &BlockSeen) -> Deed {
        let (what, line) = ("allocation".to_owned(), Line(block.place));
        Deed { what, stream: self.stream(block.made_for), line, replayed: None }
    }

    fn deed(&self, act: &Act) -> Deed {
        Deed {
            what: act.work.to_string(),
            stream: self.stream(act.stream),
            line: Line(act.place),
            replayed: act.is_replayed.then_some(Line(act.replayed)),
        }
    }
}

fn wait_remedy(later: u64, earlier: u64, line: Line) -> String {
    format!("stream {later}.wait_stream(&stream {earlier}) before {line}")
}

/// Of several faults of one act, the first says most.
fn severity(kind: Kind) -> u32 {
    match kind {
        Kind::UseAfterFree => 0,
        Kind::StaleRead => 1,
        Kind::WrongEvent => 2,
        Kind::UnorderedAccess => 3,
        Kind::UseBeforeAllocation => 4,
        Kind::UntoldUse | Kind::HandedOutTooEarly | Kind::ReturnedTooEarly => 5,
    }
}
