//! Puts together what a recording shows and what the search finds.

use trace::stream_trace::{Ending, OperationNumber, PlaceNumber, Recording, TextNumber, UseKind};

use super::advice::{Advice, GroupAdvice, LagUnit, Measured, Prediction, UseAdvice, Verdict};
use super::groups::{Group, Unit, groups};
use super::program::{BlockFacts, Program, index};
use super::search::{Found, Search};
use super::simulate::{Change, Simulated, simulate};

/// The most groups for which waits are tried; those that hold less are only listed.
pub const GROUPS_TRIED_MAX: usize = 16;
/// The most streams for which a recording is run on paper: the order between streams takes time
/// and memory with their number.
pub const STREAMS_RUN_MAX: usize = 1024;

/// Says for each pattern of blocks that other streams use where a wait would cost nothing.
///
/// Takes time in proportion to the recording for each wait that is tried: some twenty for each of
/// at most [`GROUPS_TRIED_MAX`] groups.
#[must_use]
pub fn advise(recording: &Recording, trace: impl Into<String>) -> Advice {
    let mut advice = Advice::empty(trace.into(), "stream_trace");
    let stream_count = recording.streams.len();
    if STREAMS_RUN_MAX < stream_count {
        advice.notes.push(format!(
            "the trace has {stream_count} streams; more than {STREAMS_RUN_MAX} are not run on paper"
        ));
        return advice;
    }
    let program = Program::new(recording);
    notes(recording, &program, &mut advice.notes);
    advice.recorded = Some(measured(recording, &program));
    let as_recorded = simulate(&program, &Change::default());
    advice.as_recorded = Some(Prediction::from(&as_recorded));
    let has_times = program.operations.iter().any(|facts| facts.recorded_end_ns.is_some());
    let mut search = Search::new(&program);
    for (rank, group) in groups(&program).iter().enumerate() {
        let told = Told { recording, program: &program, group, as_recorded: &as_recorded };
        let mut group_advice = told.advice();
        if !has_times {
            group_advice.verdict = Verdict::NoTimes;
        } else if rank < GROUPS_TRIED_MAX {
            told.add_found(&mut group_advice, search.find(group));
        }
        advice.groups.push(group_advice);
    }
    note_hosts(&program, &mut advice);
    if has_times {
        advice.advised = Some(search.accepted());
    }
    advice
}

fn notes(recording: &Recording, program: &Program, notes: &mut Vec<String>) {
    if let Ending::Cut { read_bytes, total_bytes } = recording.ending {
        notes.push(format!(
            "the trace has no end: {read_bytes} of {total_bytes} bytes were read, up to the last \
             whole entry"
        ));
    }
    if 0 < recording.unknown_count {
        notes.push(format!("{} entries are of kinds not known here", recording.unknown_count));
    }
    let timed = program.operations.iter().filter(|facts| facts.recorded_end_ns.is_some()).count();
    if timed == 0 && !program.operations.is_empty() {
        notes.push(
            "no device times were recorded, so no wait can be tried: record with device times"
                .to_owned(),
        );
    } else if 0 < program.guessed_count + program.untimed_count {
        notes.push(format!(
            "{} operations have no time of their own: {} take as long as others of their place, \
             {} count as taking none",
            program.guessed_count + program.untimed_count,
            program.guessed_count,
            program.untimed_count
        ));
    }
    if 0 < program.allocator_wait_count {
        notes.push(format!(
            "the allocator inserted {} waits of its own; what is predicted for waits is without \
             them",
            program.allocator_wait_count
        ));
    }
    if 0 < program.shared_count {
        notes.push(format!(
            "{} raw handles were given out: work that others queued there is not in the trace",
            program.shared_count
        ));
    }
    if 0 < program.captured_count {
        notes.push(format!("{} captured operations are left out", program.captured_count));
    }
}

/// A wait for a stream that waits for the host is a wait for the host (R5).
fn note_hosts(program: &Program, advice: &mut Advice) {
    let used = advice.groups.iter().filter(|group| group.verdict == Verdict::Wait);
    let mut streams: Vec<u32> =
        used.flat_map(|group| group.uses.iter().map(|used| used.stream)).collect();
    streams.sort_unstable();
    streams.dedup();
    for stream in streams.into_iter().filter(|stream| program.waits_for_host(*stream)) {
        advice.notes.push(format!(
            "stream {stream} runs host functions: a wait for it waits for the host as well, so do \
             not take the advice where the host waits for the one that is to wait"
        ));
    }
}

fn measured(recording: &Recording, program: &Program) -> Measured {
    let ends = || program.operations.iter().filter_map(|facts| facts.recorded_end_ns);
    // The first operation began as long before its end as it took.
    let begins = program.operations.iter().filter_map(|facts| {
        Some(facts.recorded_end_ns?.saturating_sub(facts.duration_ns.unwrap_or(0)))
    });
    Measured {
        time_ns: begins.min().zip(ends().max()).map(|(first, last)| last.saturating_sub(first)),
        peak_active_bytes: recording.figure("peak_active_bytes"),
        peak_reserved_bytes: recording.figure("peak_reserved_bytes"),
    }
}

/// What one group is told from.
struct Told<'a> {
    recording: &'a Recording,
    program: &'a Program,
    group: &'a Group,
    as_recorded: &'a Simulated,
}

impl Told<'_> {
    fn advice(&self) -> GroupAdvice {
        let key = &self.group.key;
        let unit = match self.group.unit {
            Unit::Allocation => LagUnit::Allocations,
            Unit::Operation => LagUnit::Operations,
        };
        let (pending_byte_ms, held_byte_ms) = self.byte_ms();
        let bytes = self.members().map(|block| block.bytes);
        GroupAdvice {
            stream: key.home.0,
            stream_made_at: self.made_at(key.home),
            allocated_at: self.place(key.allocated),
            freed_at: self.place(key.freed),
            blocks: self.group.members.len(),
            bytes_max: bytes.max().unwrap_or(0),
            pending_byte_ms,
            held_byte_ms,
            peak_share_permille: self.peak_share_permille(),
            uses: key.uses.iter().map(|used| self.use_advice(used.stream)).collect(),
            verdict: Verdict::NotTried,
            lag: None,
            unit,
            wait_before: None,
            never: None,
            around: Vec::new(),
        }
    }

    fn add_found(&self, advice: &mut GroupAdvice, found: Found) {
        let Found { never, lag, helps, around } = found;
        advice.verdict = if helps { Verdict::Wait } else { Verdict::Leave };
        advice.lag = helps.then_some(lag);
        advice.never = Some(never);
        advice.wait_before = match (lag, self.group.unit) {
            (0, _) => advice.freed_at.clone(),
            (_, Unit::Allocation) => advice.allocated_at.clone(),
            (_, Unit::Operation) => self
                .group
                .stop_operation(self.program, lag)
                .and_then(|operation| self.place(self.program.operation(operation).place)),
        };
        advice.around = around;
    }

    fn members(&self) -> impl Iterator<Item = &BlockFacts> {
        self.group.members.iter().map(|number| self.program.block(*number))
    }

    /// When an operation ended: as recorded, or on paper.
    fn end_ns(&self, operation: OperationNumber) -> u64 {
        let recorded = self.program.operation(operation).recorded_end_ns;
        let on_paper = self.as_recorded.ends_ns.get(index(operation.0)).copied();
        recorded.or(on_paper).unwrap_or(0)
    }

    /// Bytes times time: freed and in use, and behind the last use.
    fn byte_ms(&self) -> (u64, u64) {
        let (mut pending, mut held) = (0_u128, 0_u128);
        for block in self.members() {
            let ends = block.uses.iter().filter_map(|used| used.last);
            let done = ends.map(|last| self.end_ns(last)).max().unwrap_or(0);
            let freed = block.freed.map_or(0, |freed| freed.host_ns);
            let gone = block.replaced_ns.unwrap_or(self.program.end_ns);
            let bytes = u128::from(block.bytes);
            pending = pending.saturating_add(bytes * u128::from(done.saturating_sub(freed)));
            held = held.saturating_add(bytes * u128::from(gone.saturating_sub(done.max(freed))));
        }
        let ms = |byte_ns: u128| u64::try_from(byte_ns / 1_000_000).unwrap_or(u64::MAX);
        (ms(pending), ms(held))
    }

    fn peak_share_permille(&self) -> u64 {
        let peak_ns = self.as_recorded.peak_ns;
        let at_peak = self.group.members.iter().filter(|number| {
            let pending = self.as_recorded.pending.get(number.index()).copied().flatten();
            pending.is_some_and(|(from, to)| from <= peak_ns && peak_ns < to)
        });
        let bytes: u128 = at_peak.map(|number| u128::from(self.program.block(*number).bytes)).sum();
        let peak = u128::from(self.as_recorded.peak_bytes.max(1));
        u64::try_from(bytes * 1000 / peak).unwrap_or(1000)
    }

    fn use_advice(&self, stream: trace::StreamNumber) -> UseAdvice {
        let uses = || {
            self.members().filter_map(move |block| {
                let used = block.uses.iter().find(|used| used.stream == stream)?;
                Some((block, used))
            })
        };
        let first = uses().next().map(|(_, used)| *used);
        let last = first.and_then(|used| used.last).map(|last| *self.program.operation(last));
        let (mut count, mut after_free, mut held) = (0_u64, 0_u64, 0_u64);
        for (block, used) in uses() {
            let done = used.last.map_or(0, |last| self.end_ns(last));
            let freed = block.freed.map_or(0, |freed| freed.host_ns);
            let gone = block.replaced_ns.unwrap_or(self.program.end_ns);
            count += 1;
            after_free = after_free.saturating_add(done.saturating_sub(freed));
            held = held.saturating_add(gone.saturating_sub(done.max(freed)));
        }
        let kind = first.map_or(UseKind::ByOperation, |used| used.kind);
        let (user, home) = (stream.0, self.group.key.home.0);
        UseAdvice {
            stream: user,
            stream_made_at: self.made_at(stream),
            announced_by: match kind {
                UseKind::UntilFree => "record_stream",
                UseKind::UntilNow => "record_use",
                UseKind::ByOperation => "operation",
            }
            .to_owned(),
            announced_at: first.and_then(|used| self.place(used.place)),
            last_operation: last.and_then(|last| self.text(last.name)),
            last_operation_at: last.and_then(|last| self.place(last.place)),
            after_free_ns: after_free / count.max(1),
            held_ns: held / count.max(1),
            record_call: format!("let done_{user} = stream_{user}.record_event()?;"),
            wait_call: format!("stream_{home}.wait_event(&done_{user})?;"),
        }
    }

    fn made_at(&self, stream: trace::StreamNumber) -> Option<String> {
        self.recording.stream(stream).and_then(|stream| self.place(stream.place))
    }

    fn place(&self, place: Option<PlaceNumber>) -> Option<String> {
        place.and_then(|place| self.recording.place(place)).map(ToString::to_string)
    }

    fn text(&self, text: Option<TextNumber>) -> Option<String> {
        text.and_then(|text| self.recording.text(text)).map(str::to_owned)
    }
}
