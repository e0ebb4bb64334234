//! Exhaustive search: every run that a host could tell from every other.
//!
//! A run is repeated with every combination of choices that the host can observe: answers of
//! queries, early starts of host functions, switches between threads.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::machine::{Machine, MachineBuilder};
use crate::schedule::Schedule;

/// What a search covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// How many schedules were run.
    pub schedules: u64,
    /// Whether that was all of them.
    pub complete: bool,
}

impl Coverage {
    /// Takes a search that hit its budget for the failure that it is.
    ///
    /// # Panics
    /// The search was not complete.
    pub fn assert_complete(self) -> Self {
        assert!(self.complete, "the search stopped at its budget of {} schedules", self.schedules);
        self
    }
}

/// A search to come.
#[derive(Debug, Clone)]
#[must_use]
pub struct Explorer {
    builder: MachineBuilder,
    schedules_max: u64,
}

impl Default for Explorer {
    fn default() -> Self {
        Self::new(Machine::builder().refusals(1))
    }
}

impl Explorer {
    /// A search over machines built like this one, whatever its schedule.
    pub fn new(builder: MachineBuilder) -> Self {
        Self { builder, schedules_max: 100_000 }
    }

    /// Stops after so many schedules; the default is 100,000.
    pub fn schedules_max(mut self, count: u64) -> Self {
        self.schedules_max = count;
        self
    }

    /// Runs `body` once for each schedule, on a new machine each time.
    ///
    /// # Panics
    /// The body panicked; the message tells the script, for [`Schedule::Scripted`].
    pub fn run(self, mut body: impl FnMut(&Machine)) -> Coverage {
        let mut script: Vec<u32> = Vec::new();
        let mut schedules = 0;
        loop {
            if schedules == self.schedules_max {
                return Coverage { schedules, complete: false };
            }
            schedules += 1;
            let schedule = Schedule::Scripted(script.clone());
            let machine = self.builder.clone().schedule(schedule).build();
            let result = catch_unwind(AssertUnwindSafe(|| body(&machine)));
            let choices = machine.choices();
            if let Err(panic) = result {
                let taken: Vec<u32> = choices.iter().map(|choice| choice.0).collect();
                panic!("schedule {taken:?}: {}", panic_text(panic.as_ref()));
            }
            match next_script(&choices) {
                Some(next) => script = next,
                None => return Coverage { schedules, complete: true },
            }
        }
    }
}

/// Runs `body` under every schedule of a machine with one H200, up to 100,000.
///
/// ```
/// let coverage = cuda_sim::explore(|machine| {
///     machine.run_threads(vec![Box::new(|| machine.yield_point()), Box::new(|| ())]);
/// });
/// assert!(coverage.complete && 1 < coverage.schedules);
/// ```
pub fn explore(body: impl FnMut(&Machine)) -> Coverage {
    Explorer::default().run(body)
}

/// The next combination of choices, or `None` after the last.
fn next_script(choices: &[(u32, u32)]) -> Option<Vec<u32>> {
    let last = choices.iter().rposition(|&(choice, count)| choice + 1 < count)?;
    let mut script: Vec<u32> = choices.iter().take(last + 1).map(|choice| choice.0).collect();
    *script.last_mut()? += 1;
    Some(script)
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| String::from(*text)))
        .unwrap_or_default()
}
