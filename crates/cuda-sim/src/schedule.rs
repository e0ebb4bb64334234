//! Who runs next, and what a query answers: the choices of a run and where they come from.

/// Where the choices of a run come from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Schedule {
    /// A seed: the same seed gives the same run, bit for bit. Between calls some of the queued
    /// operations run, and a query may say "not ready" a few times before it says "ready".
    Seeded(u64),
    /// A list of choices, zero once it has run out; nothing runs before something needs it.
    /// Zero is: a query says "ready", a host function does not start early, the thread goes on.
    Scripted(Vec<u32>),
    /// Every operation runs as soon as nothing holds it up.
    Eager,
    /// Nothing runs until something needs it; queries refuse as often as they may.
    Lazy,
    /// Operations run when virtual time says so: what a quiet device would do.
    Timed,
    /// Operations take real time, on a thread of their own.
    RealTime,
}

/// Draws choices and remembers the scripted ones.
#[derive(Debug)]
pub(crate) struct Chooser {
    schedule: Schedule,
    random: u64,
    /// Each choice made from the script: which, and of how many.
    taken: Vec<(u32, u32)>,
}

impl Chooser {
    pub(crate) fn new(schedule: Schedule) -> Self {
        let seed = if let Schedule::Seeded(seed) = schedule { seed } else { 0 };
        Self { schedule, random: seed, taken: Vec::new() }
    }

    pub(crate) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    pub(crate) fn is_seeded(&self) -> bool {
        matches!(self.schedule, Schedule::Seeded(_))
    }

    pub(crate) fn is_scripted(&self) -> bool {
        matches!(self.schedule, Schedule::Scripted(_))
    }

    /// Whether operations run by the clock.
    pub(crate) fn is_timed(&self) -> bool {
        matches!(self.schedule, Schedule::Timed | Schedule::RealTime)
    }

    /// One of `count` possibilities that the host can tell apart.
    pub(crate) fn choose(&mut self, count: u32) -> u32 {
        if count < 2 {
            return 0;
        }
        match &self.schedule {
            Schedule::Seeded(_) => self.draw(count),
            Schedule::Scripted(script) => {
                let choice = script.get(self.taken.len()).copied().unwrap_or(0).min(count - 1);
                self.taken.push((choice, count));
                choice
            }
            Schedule::Eager | Schedule::Lazy | Schedule::Timed | Schedule::RealTime => 0,
        }
    }

    /// One of `count` possibilities that the host cannot tell apart in a program without races.
    pub(crate) fn draw(&mut self, count: u32) -> u32 {
        if !self.is_seeded() || count < 2 {
            return 0;
        }
        u32::try_from(self.next() % u64::from(count)).unwrap_or(0)
    }

    /// Whether something that happens once in `odds` times happens.
    pub(crate) fn once_in(&mut self, odds: u32) -> bool {
        self.is_seeded() && self.draw(odds) == 0
    }

    pub(crate) fn taken(&self) -> &[(u32, u32)] {
        &self.taken
    }

    /// The generator known as splitmix64.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}
