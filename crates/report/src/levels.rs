//! How many bytes were allocated, pending and held at every moment.

use crate::history::{History, Moment, NEVER};
use crate::ranges::Range;

/// Bytes at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Level {
    pub(crate) allocated_bytes: u64,
    /// Freed, and waiting for other streams.
    pub(crate) pending_bytes: u64,
    pub(crate) reserved_bytes: u64,
}

impl Level {
    pub(crate) const fn active_bytes(&self) -> u64 {
        self.allocated_bytes.saturating_add(self.pending_bytes)
    }
}

/// The level at each moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Levels {
    /// One for each moment from 0 on.
    pub(crate) list: Vec<Level>,
    /// Where the most was active.
    pub(crate) peak_moment: Moment,
    pub(crate) peak_active_bytes: u64,
    pub(crate) peak_reserved_bytes: u64,
}

impl Levels {
    pub(crate) fn of(history: &History, ranges: &[Range]) -> Self {
        let mut steps = Steps::new(history.events.len() + 1);
        for life in &history.lives {
            steps.add(life.from, Step { allocated: life.bytes.into(), ..Step::default() });
            steps.add(life.freed, Step { allocated: -i128::from(life.bytes), ..Step::default() });
            if life.freed < life.completed {
                steps.add(life.freed, Step { pending: life.bytes.into(), ..Step::default() });
                let over = Step { pending: -i128::from(life.bytes), ..Step::default() };
                steps.add(life.completed, over);
            }
        }
        for range in ranges {
            steps.add(range.from, Step { reserved: range.bytes.into(), ..Step::default() });
            steps.add(range.to, Step { reserved: -i128::from(range.bytes), ..Step::default() });
        }
        steps.levels()
    }

    /// The highest of the levels from one moment to another, the latter not included, and the most
    /// that was reserved then.
    pub(crate) fn highest(&self, from: usize, to: usize) -> (Level, u64) {
        let to = to.max(from + 1).min(self.list.len());
        let part = self.list.get(from..to).unwrap_or_default();
        let highest = part.iter().copied().max_by_key(Level::active_bytes).unwrap_or_default();
        let reserved = part.iter().map(|level| level.reserved_bytes).max().unwrap_or(0);
        (highest, reserved)
    }
}

/// How the level changes at a moment. Wide and signed: a file may contradict itself.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    allocated: i128,
    pending: i128,
    reserved: i128,
}

struct Steps {
    list: Vec<Step>,
}

impl Steps {
    fn new(moment_count: usize) -> Self {
        Self { list: vec![Step::default(); moment_count] }
    }

    fn add(&mut self, at: Moment, step: Step) {
        let place = usize::try_from(at).ok().filter(|_| at != NEVER);
        if let Some(sum) = place.and_then(|place| self.list.get_mut(place)) {
            sum.allocated += step.allocated;
            sum.pending += step.pending;
            sum.reserved += step.reserved;
        }
    }

    fn levels(self) -> Levels {
        let mut now = Step::default();
        let mut levels = Levels::default();
        for (step, at) in self.list.iter().zip(0..) {
            now.allocated += step.allocated;
            now.pending += step.pending;
            now.reserved += step.reserved;
            let level = Level {
                allocated_bytes: clamp(now.allocated),
                pending_bytes: clamp(now.pending),
                reserved_bytes: clamp(now.reserved),
            };
            if levels.peak_active_bytes < level.active_bytes() || at == 0 {
                levels.peak_active_bytes = level.active_bytes();
                levels.peak_moment = at;
            }
            levels.peak_reserved_bytes = levels.peak_reserved_bytes.max(level.reserved_bytes);
            levels.list.push(level);
        }
        levels
    }
}

fn clamp(bytes: i128) -> u64 {
    u64::try_from(bytes.max(0)).unwrap_or(u64::MAX)
}
