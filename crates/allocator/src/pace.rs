//! What waits on the device have cost, and how deep each stream waits because of that.
//!
//! Some of the waits that an allocator inserts are *watched*: the fence of the waiting stream right
//! before the wait, the fences it waits for, and the latest fence of each user are kept. When all
//! of them have passed, which earlier polls have found out, their times say how long everybody
//! really worked, and `depth` says how many bursts are needed. Nothing here asks the device whether
//! it has come so far, and nothing is waited for.
//!
//! A window of waits is watched at a time, and then none for a while, so that neither the
//! records before the waits nor the questions for the times count.

use std::collections::BTreeMap;
use std::time::Duration;

use smallvec::SmallVec;
use streams::order::{Point, StreamSlot};
use streams::{Fence, StreamOrder};

use crate::bursts::Bursts;
use crate::depth::{Turn, needed};
use crate::sync::Mutex;

/// The most waits in a window.
const WINDOW_WAITS_MAX: usize = 128;
/// The fewest waits of which anything is concluded.
const WINDOW_WAITS_MIN: usize = 48;
/// The users that are watched in one window.
const USERS_MAX: usize = 4;
/// Waits between two windows: after a change none, then so many, then twice as many each time.
const PAUSE_WAITS_FIRST: u32 = 256;
const PAUSE_WAITS_MAX: u32 = 8192;
/// The streams whose depth is kept; of more, those with the lowest slots.
const STREAMS_MAX: usize = 1024;

/// What was learned of the streams that wait.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    streams: Mutex<Learned>,
}

#[derive(Debug, Default)]
struct Learned {
    /// What was concluded last, whatever stream it was about: what a new one begins with.
    latest: Option<usize>,
    by_slot: BTreeMap<StreamSlot, Waiter>,
}

/// One stream that waits.
#[derive(Debug)]
struct Waiter {
    stream_id: u64,
    depth: usize,
    /// What the last window said.
    said: usize,
    window: Window,
    /// Waits that are not watched before the next window begins.
    pause: u32,
    next_pause: u32,
}

/// Waits that follow each other.
#[derive(Debug, Default)]
struct Window {
    users: SmallVec<[StreamSlot; USERS_MAX]>,
    waits: Vec<Wait>,
}

/// One wait, as it was made.
#[derive(Debug)]
struct Wait {
    /// Where the waiting stream was.
    before: Fence,
    /// What it was made to wait for.
    fences: SmallVec<[Fence; 2]>,
    /// By user of the window: what it had been given last.
    given: SmallVec<[Option<Given>; USERS_MAX]>,
    /// Nothing was under way any more when the wait was made: what came between it and the wait
    /// before was the host's time.
    idle_before: bool,
}

/// The latest burst of a user.
#[derive(Debug)]
struct Given {
    end: Fence,
    /// How many bursts it has had so far.
    bursts: u64,
    /// From where on it had what the waiting stream made, if there is a fence there.
    handed: Option<Fence>,
}

/// When things happened, from the start of a window.
type Times<'fences> = dyn Fn(&Fence) -> Option<Duration> + 'fences;

impl Pace {
    /// How deep a stream waits; `first` if nothing was learned yet.
    pub(crate) fn depth_of(&self, order: &StreamOrder, first: usize) -> usize {
        let learned = self.streams.lock();
        let known = learned.by_slot.get(&order.slot());
        let own = known.filter(|waiter| waiter.stream_id == order.id()).map(|waiter| waiter.depth);
        own.or(learned.latest).unwrap_or(first)
    }

    /// Before `order` is made to wait for `fences`: watches the wait if it is its turn. At most one
    /// record on the stream, and none if its latest fence is new enough.
    pub(crate) fn watch(
        &self,
        order: &StreamOrder,
        fences: &[Fence],
        bursts: &Bursts,
        first: usize,
    ) {
        let (is_watching, done) = self.turn_of(order, first);
        if let Some(window) = done {
            self.conclude(order, &window.turns());
        }
        // A stream that cannot be fenced is not watched.
        if is_watching && let Ok(before) = order.fence_now() {
            let mut learned = self.streams.lock();
            if let Some(waiter) = learned.by_slot.get_mut(&order.slot()) {
                waiter.window.add(order, before, fences, bursts);
            }
        }
    }

    /// Whether the next wait of this stream is to be watched, and a window that is over.
    fn turn_of(&self, order: &StreamOrder, first: usize) -> (bool, Option<Window>) {
        let mut learned = self.streams.lock();
        let first = learned.latest.unwrap_or(first);
        let slot = order.slot();
        if !learned.by_slot.contains_key(&slot) && STREAMS_MAX <= learned.by_slot.len() {
            return (false, None);
        }
        let waiter = learned.by_slot.entry(slot).or_insert_with(|| Waiter::new(order.id(), first));
        let mut replaced = None;
        if waiter.stream_id != order.id() {
            replaced = Some(std::mem::replace(waiter, Waiter::new(order.id(), first)));
        }
        let done = waiter.window.take_if_done();
        let is_full = waiter.window.waits.len() == WINDOW_WAITS_MAX;
        let is_watching = waiter.pause == 0 && !is_full && done.is_none();
        waiter.pause = waiter.pause.saturating_sub(1);
        // Fences are dropped without the lock.
        drop(learned);
        drop(replaced);
        (is_watching, done)
    }

    /// A window says what depth is needed. More is believed at once, less when it is said twice.
    fn conclude(&self, order: &StreamOrder, turns: &[Turn]) {
        let depth = (WINDOW_WAITS_MIN / 2 <= turns.len()).then(|| needed(turns));
        let mut learned = self.streams.lock();
        let Some(waiter) = learned.by_slot.get_mut(&order.slot()) else { return };
        let Some(said) = depth.filter(|_| waiter.stream_id == order.id()) else {
            waiter.rest();
            return;
        };
        let before = waiter.depth;
        waiter.depth = said.max(waiter.said);
        waiter.said = said;
        let depth_now = waiter.depth;
        if depth_now == before && depth_now == said {
            waiter.rest();
        } else {
            waiter.next_pause = PAUSE_WAITS_FIRST;
        }
        learned.latest = Some(depth_now);
    }
}

impl Waiter {
    fn new(stream_id: u64, depth: usize) -> Self {
        let window = Window::default();
        Self { stream_id, depth, said: depth, window, pause: 0, next_pause: PAUSE_WAITS_FIRST }
    }

    /// Watches nothing for a while.
    fn rest(&mut self) {
        self.pause = self.next_pause;
        self.next_pause = (2 * self.next_pause).min(PAUSE_WAITS_MAX);
    }
}

impl Window {
    fn add(&mut self, order: &StreamOrder, before: Fence, fences: &[Fence], bursts: &Bursts) {
        for stream in fences.iter().map(|fence| fence.point().stream) {
            if !self.users.contains(&stream) && self.users.len() < USERS_MAX {
                self.users.push(stream);
            }
        }
        let give = |user: &StreamSlot| {
            let (end, bursts) = bursts.latest(*user)?;
            let made = end.frontier().point_on(order.slot());
            let handed = made.and_then(|point: Point| order.fence_exactly(point));
            Some(Given { end, bursts, handed })
        };
        let given: SmallVec<[Option<Given>; USERS_MAX]> = self.users.iter().map(give).collect();
        let idle_before = given.iter().flatten().all(|given| given.end.is_known_complete());
        self.waits.push(Wait { before, fences: fences.into(), given, idle_before });
    }

    /// The window, if it is full, or ended long enough by an idle device, and all of it is known
    /// to be over.
    fn take_if_done(&mut self) -> Option<Self> {
        let last = self.waits.last()?;
        let full = self.waits.len() == WINDOW_WAITS_MAX;
        let ended = WINDOW_WAITS_MIN <= self.waits.len() && last.idle_before;
        let over = last.before.is_known_complete()
            && last.fences.iter().all(Fence::is_known_complete)
            && last.given.iter().flatten().all(|given| given.end.is_known_complete());
        ((full && over) || ended).then(|| std::mem::take(self))
    }

    /// What happened between each two waits.
    fn turns(&self) -> Vec<Turn> {
        let Some(base) = self.waits.first().map(|wait| wait.before.clone()) else {
            return Vec::new();
        };
        // A time that cannot be had leaves its turn out.
        let since = move |fence: &Fence| fence.time_since(&base).ok().flatten();
        let pairs = self.waits.iter().zip(self.waits.iter().skip(1));
        pairs.filter_map(|(wait, next)| self.turn(wait, next, &since)).collect()
    }

    /// What the stream and its users did between two waits.
    fn turn(&self, wait: &Wait, next: &Wait, since: &Times<'_>) -> Option<Turn> {
        if next.idle_before {
            return None;
        }
        let (came, left) = (since(&wait.before)?, since(&next.before)?);
        let mut start = came;
        for fence in &wait.fences {
            start = start.max(since(fence)?);
        }
        // What was handed over in this turn; where that is not known, all that was made.
        let is_new = |fence: &&Fence| wait.before.point() < fence.point();
        let handed = next.given.iter().flatten().filter_map(|given| given.handed.as_ref());
        let made = handed.filter(is_new).filter_map(since).max();
        let left = left.max(start);
        let made = made.unwrap_or(left).clamp(start, left);
        let mut turn =
            Turn { make: made - start, rest: left - made, uses: SmallVec::new(), bursts: 1 };
        for index in 0..self.users.len() {
            let ends = [wait, next].map(|wait| wait.given.get(index).and_then(Option::as_ref));
            let [Some(before), Some(after)] = ends else {
                turn.uses.push(Duration::ZERO);
                continue;
            };
            let begun = since(&before.end)?.max(made);
            turn.uses.push(since(&after.end)?.saturating_sub(begun));
            let bursts = after.bursts.saturating_sub(before.bursts);
            turn.bursts = turn.bursts.max(u32::try_from(bursts).unwrap_or(u32::MAX));
        }
        turn.bursts = turn.bursts.min(WINDOW_BURSTS_MAX);
        Some(turn)
    }
}

/// Into how many bursts one turn counts at most.
const WINDOW_BURSTS_MAX: u32 = 64;
