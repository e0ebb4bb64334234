//! What earlier steps took, and how deep each stream waits because of that.
//!
//! Some frees are *watched*: the fences that they leave on the streams that used the block are
//! kept, with the fence of the home stream that these had waited for, and with what the home
//! stream was made to wait for since the step before. When all of them have passed, which polls
//! and synchronizations have found out, their times say how long everybody really worked, and
//! `depth` says how many bursts are needed. Nothing here asks the device whether it has come so
//! far, and nothing is waited for.
//!
//! A window of steps is watched at a time, and then none for a while, so that the questions for the
//! times do not count. Nothing is recorded for it: where the program made nobody wait for a fence
//! of the home stream, what it handed over is taken to be made when its quickest user was through.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use smallvec::SmallVec;
use streams::order::{Point, StreamSlot};
use streams::{Context, Fence, FenceTimer, StreamOrder};

use crate::config::WaitDepth;
use crate::depth::{Needed, Turn, needed};
use crate::sync::Mutex;

/// The most steps in a window.
const WINDOW_STEPS_MAX: usize = 192;
/// The fewest turns of which anything is concluded.
const WINDOW_TURNS_MIN: usize = 40;
/// Steps between two windows: after a change none, then so many, then twice as many each time.
const PAUSE_STEPS_FIRST: u32 = 512;
const PAUSE_STEPS_MAX: u32 = 16_384;
/// The streams whose depth is kept; the others wait as deep as was learned last.
const STREAMS_MAX: usize = 256;

/// The most steps that one free asks about: what a pause of the program leaves over is spread over
/// the frees after it, because the questions for all of it take the host milliseconds.
const SETTLED_STEPS_MAX: usize = 4;

/// The most fences that are kept of what a stream was made to wait for since its last step. One
/// that waits for more makes nothing that others use: then the step to come stands by itself.
const HELD_FENCES_MAX: usize = 256;

/// The latest ends of steps whose times are remembered: a stream that waits for one of them is not
/// asked about twice.
const KNOWN_ENDS_MAX: usize = 64;

/// What was learned of the streams that wait.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    streams: Mutex<Learned>,
}

#[derive(Debug, Default)]
struct Learned {
    /// What was concluded last, whatever stream it was about: what a new one begins with.
    latest: Option<usize>,
    by_slot: BTreeMap<StreamSlot, Maker>,
}

/// One stream whose blocks others use.
#[derive(Debug)]
struct Maker {
    stream_id: u64,
    depth: Option<usize>,
    /// What the last window said.
    said: Option<usize>,
    window: Window,
    /// What the stream was made to wait for since the last step.
    held: Held,
    /// Steps that are not watched before the next window begins.
    pause: u32,
    next_pause: u32,
}

/// Steps that follow each other.
#[derive(Debug, Default)]
struct Window {
    /// How many there were.
    count: usize,
    /// Those that are not known to be over, and one before them.
    steps: VecDeque<Step>,
    /// How far everybody was after those that are.
    clock: Clock,
    turns: Vec<Turn>,
    /// The next step does not follow the last one.
    is_broken: bool,
    /// A thread is asking for times.
    is_away: bool,
    /// Makes fences keep time until the window is full.
    timer: Option<FenceTimer>,
}

/// One block, or several, made by one stream and given to others.
#[derive(Debug)]
struct Step {
    /// What the maker was made to wait for before.
    held: Held,
    /// From where on the users had what was made, if there is a fence there.
    handed: Option<Fence>,
    /// Where each user was through with it.
    ends: SmallVec<[Fence; 2]>,
    /// How often memory had come or gone by then.
    remapped: u64,
    /// Memory came or went since the step before, or may have.
    is_after_remap: bool,
    /// What came between the step before and this one may have been the host's time: memory came
    /// or went before this step or the last one, a gate was closed, or the users were through with
    /// the step before when this one was noted.
    is_apart: bool,
    /// Nothing was under way any more when it was noted.
    is_after_idle: bool,
}

/// Fences of the waits that were inserted.
type Held = SmallVec<[Fence; 2]>;

impl Pace {
    /// How deep a stream waits; `first` if nothing was learned yet.
    pub(crate) fn depth_of(&self, order: &StreamOrder, first: usize) -> usize {
        let learned = self.streams.lock();
        let known = learned.by_slot.get(&order.slot());
        let own = known.filter(|maker| maker.stream_id == order.id()).and_then(|maker| maker.depth);
        own.or(learned.latest).unwrap_or(first)
    }

    /// `order` is about to be made to wait for `fences`. No driver call.
    pub(crate) fn note_wait(&self, order: &StreamOrder, fences: &[Fence]) {
        let mut learned = self.streams.lock();
        let found = learned.by_slot.get_mut(&order.slot());
        let Some(maker) = found.filter(|maker| maker.is_watching(order)) else { return };
        maker.held.extend(fences.iter().cloned());
        let mut too_many = Held::default();
        if HELD_FENCES_MAX < maker.held.len() {
            too_many = std::mem::take(&mut maker.held);
            maker.window.is_broken = true;
        }
        // Fences are dropped without the lock.
        drop(learned);
        drop(too_many);
    }

    /// A block of `order` was freed whose uses end with the fences `ends`; memory has come or gone
    /// `remapped` times so far.
    pub(crate) fn note_step(
        &self,
        context: &Context,
        order: &StreamOrder,
        ends: SmallVec<[Fence; 2]>,
        remapped: u64,
    ) {
        let handed =
            |end: &Fence| order.apart().fence_exactly(end.frontier().point_on(order.slot())?);
        let mut learned = self.streams.lock();
        let slot = order.slot();
        if !learned.by_slot.contains_key(&slot) && STREAMS_MAX <= learned.by_slot.len() {
            return;
        }
        let maker = learned.by_slot.entry(slot).or_insert_with(|| Maker::new(order.id()));
        let mut replaced = None;
        if maker.stream_id != order.id() {
            replaced = Some(std::mem::replace(maker, Maker::new(order.id())));
        }
        if maker.is_watching(order) && !maker.window.has(&ends) {
            let handed = ends.iter().filter_map(handed).max_by_key(Fence::point);
            let held = std::mem::take(&mut maker.held);
            if ends.iter().any(Fence::is_gated) {
                maker.window.is_broken = true;
            } else {
                maker.window.add(context, (held, handed, ends), remapped);
            }
        }
        maker.pause = maker.pause.saturating_sub(1);
        let window = maker.window.take_if_news();
        // Fences are dropped, and asked for their times, without the lock.
        drop(learned);
        drop(replaced);
        if let Some(mut window) = window {
            let over = window.settle();
            let is_done = window.is_done();
            if is_done {
                self.conclude(order, &window);
            }
            self.put_back(order, if is_done { Window::default() } else { window });
            drop(over);
        }
    }

    /// A window comes back from a thread that asked for times.
    fn put_back(&self, order: &StreamOrder, window: Window) {
        let mut learned = self.streams.lock();
        let found = learned.by_slot.get_mut(&order.slot());
        let replaced = found
            .filter(|maker| maker.stream_id == order.id())
            .map(|maker| std::mem::replace(&mut maker.window, window));
        drop(learned);
        drop(replaced);
    }

    /// A window says what depth is needed.
    fn conclude(&self, order: &StreamOrder, window: &Window) {
        let turns = &window.turns;
        let said = (WINDOW_TURNS_MIN <= turns.len()).then(|| needed(turns));
        let mut learned = self.streams.lock();
        let first = learned.latest.or(WaitDepth::Learned.first()).unwrap_or(1);
        let found = learned.by_slot.get_mut(&order.slot());
        let Some(maker) = found.filter(|maker| maker.stream_id == order.id()) else { return };
        // With many steps left out, what follows what is distorted: enough for a first idea only.
        let covered: usize = turns.iter().map(Turn::bursts_count).sum();
        let is_patchy = covered + covered / 8 < window.count && maker.depth.is_some();
        match said.filter(|_| !is_patchy) {
            Some(said) => learned.latest = Some(maker.believe(said, first)),
            None => maker.rest(),
        }
    }
}

impl Maker {
    fn new(stream_id: u64) -> Self {
        Self {
            stream_id,
            depth: None,
            said: None,
            window: Window::default(),
            held: Held::default(),
            pause: 0,
            next_pause: PAUSE_STEPS_FIRST,
        }
    }

    fn is_watching(&self, order: &StreamOrder) -> bool {
        let is_open = !self.window.is_away && self.window.count < WINDOW_STEPS_MAX;
        self.stream_id == order.id() && self.pause == 0 && is_open
    }

    /// Takes in what a window said; gives the depth from now on. Until now it was `first`, if
    /// nothing was learned.
    ///
    /// More is believed at once if the parts of a window agree on it, else when two windows say so;
    /// less when two windows say so.
    fn believe(&mut self, said: Needed, first: usize) -> usize {
        let current = self.depth.unwrap_or(first);
        let before = self.said.replace(said.depth);
        let depth = if said.depth <= current {
            said.depth.max(before.unwrap_or(said.depth)).min(current)
        } else if said.is_agreed {
            said.depth
        } else {
            said.depth.min(before.unwrap_or(current)).max(current)
        };
        if self.depth != Some(depth) {
            self.next_pause = PAUSE_STEPS_FIRST;
        } else if depth == said.depth {
            self.rest();
        }
        self.depth = Some(depth);
        depth
    }

    /// Watches nothing for a while.
    fn rest(&mut self) {
        self.pause = self.next_pause;
        self.next_pause = (2 * self.next_pause).min(PAUSE_STEPS_MAX);
    }
}

impl Window {
    /// Whether the last step ends there too: a burst is one step, however many blocks are freed.
    fn has(&self, ends: &[Fence]) -> bool {
        let is_in = |step: &Step, end: &Fence| step.ends.iter().any(|e| e.point() == end.point());
        self.steps.back().is_some_and(|step| ends.iter().all(|end| is_in(step, end)))
    }

    fn add(
        &mut self,
        context: &Context,
        (held, handed, ends): (Held, Option<Fence>, SmallVec<[Fence; 2]>),
        remapped: u64,
    ) {
        if self.timer.is_none() {
            self.timer = Some(context.time_fences());
        }
        let last = self.steps.back();
        let is_after_idle = last.is_some_and(Step::is_over);
        let is_after_remap = last.is_none_or(|last| last.remapped != remapped);
        // The host may have been busy behind what it queued for the last step.
        let is_apart = std::mem::take(&mut self.is_broken)
            || is_after_idle
            || is_after_remap
            || last.is_some_and(|last| last.is_after_remap);
        let step = Step { held, handed, ends, remapped, is_after_remap, is_apart, is_after_idle };
        self.steps.push_back(step);
        self.count += 1;
        if self.count == WINDOW_STEPS_MAX {
            self.timer = None;
        }
    }

    /// Takes the window to ask for times, if there is a step to ask about; an empty one stays that
    /// nobody adds to meanwhile.
    fn take_if_news(&mut self) -> Option<Self> {
        let mut steps = self.steps.iter();
        let is_news = steps.next().is_some_and(Step::is_over)
            && (steps.next().is_some() || self.count == WINDOW_STEPS_MAX);
        (is_news && !self.is_away)
            .then(|| std::mem::replace(self, Self { is_away: true, ..Self::default() }))
    }

    /// Asks for the times of steps that are over; gives what is not needed any more.
    fn settle(&mut self) -> Vec<Step> {
        let mut over = Vec::new();
        let is_full = self.count == WINDOW_STEPS_MAX;
        while over.len() < SETTLED_STEPS_MAX
            && self.steps.front().is_some_and(Step::is_over)
            && (is_full || 1 < self.steps.len())
            && let Some(step) = self.steps.pop_front()
        {
            self.turns.extend(self.clock.advance(&step));
            over.push(step);
        }
        over
    }

    /// Whether the window is full, or long enough and ended by an idle device, and over.
    fn is_done(&self) -> bool {
        let is_full = self.count == WINDOW_STEPS_MAX && self.steps.is_empty();
        let is_ended = self.steps.front().is_some_and(|step| step.is_after_idle);
        is_full || (is_ended && WINDOW_TURNS_MIN <= self.turns.len())
    }
}

impl Step {
    /// Whether the users are known to be through with it.
    fn is_over(&self) -> bool {
        self.ends.iter().all(Fence::is_known_complete)
    }
}

/// How far everybody was after a step, from the start of a window.
#[derive(Debug, Default)]
struct Clock {
    /// A fence, and when it passed: what the others are measured from. The latest that something
    /// was handed over at, so that the others come after it and distances are short: then one
    /// question each will do, and the answers are exact.
    base: Option<(Fence, Duration)>,
    made: Option<Duration>,
    held: Duration,
    users: SmallVec<[(StreamSlot, Duration); 4]>,
    /// Where the users were after the steps that are not handed over yet.
    ends: SmallVec<[(StreamSlot, Duration); 4]>,
    /// The latest ends of all, in the order in which they came.
    known: VecDeque<(Point, Duration)>,
    bursts: u32,
    is_broken: bool,
    /// Fences tell when steps were handed over.
    is_handed: bool,
}

impl Clock {
    /// When a fence passed, from the start of the window; `None` if that cannot be had.
    fn time_of(&self, fence: &Fence) -> Option<Duration> {
        if let Some((_, at)) = self.known.iter().rev().find(|known| known.0 == fence.point()) {
            return Some(*at);
        }
        let (base, at) = self.base.as_ref()?;
        // What passed before the base gives no time after it.
        match fence.time_since(base).ok()?? {
            Duration::ZERO => Some(at.saturating_sub(base.time_since(fence).ok()??)),
            after => Some(*at + after),
        }
    }

    /// Takes a step in, and gives what was done since the last one of which it is known when it was
    /// handed over.
    fn advance(&mut self, step: &Step) -> Option<Turn> {
        // The first steps of a window may have fences of before it.
        let first = step.ends.first().filter(|first| first.is_timed())?;
        if self.base.is_none() {
            self.base = Some((first.clone(), Duration::from_secs(1)));
        }
        self.bursts += 1;
        self.is_broken |= step.is_apart;
        for fence in &step.held {
            match self.time_of(fence) {
                Some(time) => self.held = self.held.max(time),
                None => self.is_broken = true,
            }
        }
        let handed = step.handed.as_ref().and_then(|fence| Some((fence, self.time_of(fence)?)));
        if let Some((fence, made)) = handed {
            self.base = Some((fence.clone(), made));
            self.is_handed = true;
        }
        let quickest = self.note_ends(step)?;
        let made = match handed {
            Some((_, made)) => made,
            // What follows the next one will count for this one too.
            None if self.is_handed => return None,
            None => quickest,
        };
        let turn = self.turn(made);
        if std::mem::take(&mut self.is_broken) { None } else { turn }
    }

    /// Remembers where the users were after a step; gives when the first of them was there.
    fn note_ends(&mut self, step: &Step) -> Option<Duration> {
        let mut quickest: Option<(&Fence, Duration)> = None;
        for end in &step.ends {
            let user = (end.point().stream, self.time_of(end)?);
            match self.ends.iter_mut().find(|known| known.0 == user.0) {
                Some(known) => *known = user,
                None => self.ends.push(user),
            }
            self.known.push_back((end.point(), user.1));
            if quickest.is_none_or(|(_, time)| user.1 < time) {
                quickest = Some((end, user.1));
            }
        }
        while KNOWN_ENDS_MAX < self.known.len() {
            self.known.pop_front();
        }
        let (fence, time) = quickest?;
        if !self.is_handed {
            self.base = Some((fence.clone(), time));
        }
        Some(time)
    }

    /// What was done since the last step of which it is known when it was handed over, if there
    /// was one; the latest was at `made`.
    fn turn(&mut self, made: Duration) -> Option<Turn> {
        let turn = self.made.map(|before| {
            let start = before.max(self.held).min(made);
            let use_of = |(user, end): &(StreamSlot, Duration)| {
                let known = self.users.iter().find(|known| known.0 == *user);
                known.map_or(Duration::ZERO, |known| end.saturating_sub(known.1.max(made)))
            };
            let uses = self.ends.iter().map(use_of).collect();
            Turn { make: made - start, uses, bursts: self.bursts }
        });
        (self.made, self.held) = (Some(made), Duration::ZERO);
        self.users = self.ends.clone();
        self.bursts = 0;
        turn
    }
}
