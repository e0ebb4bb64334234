//! Several host threads under a scheduler: one runs at a time, and the schedule says which.
//!
//! A thread may be switched at every driver call, at [`crate::Machine::yield_point`], and where
//! it waits. One that waits for a lock the scheduler does not know of would hold everybody up;
//! after a second in which it was seen to wait another thread goes on without it, and the run is
//! then no longer decided by the schedule alone. [`crate::Machine::wait_until`] waits in a way that
//! is. A thread that only waits for a processor keeps its turn, however long that takes.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::call::Call;
use crate::vigil::{HostThread, Vigil};

/// How long a thread that waits may keep the others waiting in real time.
const OVERDUE: Duration = Duration::from_secs(1);

/// How often the others look.
const LOOK: Duration = Duration::from_millis(5);

/// What a thread that cannot go on learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// It is not one of the scheduler's threads.
    NotScheduled,
    /// Another thread ran meanwhile.
    Progress,
    /// Every thread of the scheduler is blocked.
    Everybody,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Runnable,
    /// It waits, and has looked when the count of steps was this.
    Blocked(u64),
    /// It was passed over: it waits for something unknown.
    Away,
    Done,
}

#[derive(Debug)]
struct Turn {
    current: usize,
    threads: Vec<Status>,
    /// Counts what threads did, so that a blocked one looks again only after news.
    steps: u64,
    /// Over the one whose turn it is.
    vigil: Vigil,
    /// Who they are for the host, those that have begun.
    hosts: Vec<Option<HostThread>>,
}

/// Whose turn it is.
#[derive(Debug)]
struct Baton {
    turn: Mutex<Turn>,
    changed: Condvar,
    slot: usize,
}

thread_local! {
    static SEAT: RefCell<Option<(Arc<Baton>, usize)>> = const { RefCell::new(None) };
}

impl Turn {
    /// Whether the thread whose turn it is has ended, or has been seen to wait for too long.
    fn is_overdue(&mut self) -> bool {
        if self.threads.get(self.current) == Some(&Status::Done) {
            return true;
        }
        if !self.vigil.is_time_to_look() {
            return false;
        }
        match self.hosts.get(self.current) {
            Some(&Some(thread)) => self.vigil.look(thread),
            // It is about to begin, or the first is yet to be chosen.
            Some(None) | None => self.vigil.somebody(),
        }
        OVERDUE <= self.vigil.waited()
    }
}

impl Baton {
    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The threads that could go on, `first` before the others.
    fn ready(turn: &Turn, first: usize) -> Vec<usize> {
        let is_ready = |index: &usize| match turn.threads.get(*index) {
            Some(Status::Runnable) => true,
            Some(Status::Blocked(looked)) => *looked < turn.steps,
            Some(Status::Away | Status::Done) | None => false,
        };
        let others = (0..turn.threads.len()).filter(|&other| other != first);
        std::iter::once(first).chain(others).filter(is_ready).collect()
    }

    fn choose(&self, count: usize) -> usize {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let Some(mut call) = Call::aside(self.slot) else { return 0 };
        crate::state::index(call.chooser.choose(count))
    }

    /// Gives the turn to one of `ready`.
    fn hand_over(&self, turn: &mut Turn, ready: &[usize]) {
        let choice = if ready.len() < 2 { 0 } else { self.choose(ready.len()) };
        if let Some(&next) = ready.get(choice) {
            turn.current = next;
            turn.vigil = Vigil::new();
            self.changed.notify_all();
        }
    }

    fn wait_for_turn<'a>(&'a self, mut turn: MutexGuard<'a, Turn>, own: usize) {
        while turn.current != own {
            turn = self.changed.wait_timeout(turn, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            // One that was passed over while it was only slow to wake is back.
            if let Some(status) = turn.threads.get_mut(own)
                && *status == Status::Away
            {
                *status = Status::Runnable;
            }
            if turn.current != own
                && turn.is_overdue()
                && Self::ready(&turn, own).first() == Some(&own)
            {
                let current = turn.current;
                if let Some(status) = turn.threads.get_mut(current)
                    && *status == Status::Runnable
                {
                    *status = Status::Away;
                    if let Some(mut call) = Call::aside(self.slot) {
                        call.passed_over += 1;
                    }
                }
                turn.current = own;
                turn.vigil = Vigil::new();
            }
        }
        if let Some(status) = turn.threads.get_mut(own) {
            *status = Status::Runnable;
        }
    }

    fn yield_point(&self, own: usize) {
        let turn = self.step(own, Status::Runnable);
        self.wait_for_turn(turn, own);
    }

    fn block(&self, own: usize) -> Blocked {
        let mut turn = self.lock();
        let steps = turn.steps;
        if let Some(status) = turn.threads.get_mut(own) {
            *status = Status::Blocked(steps);
        }
        let ready = Self::ready(&turn, own);
        if ready.is_empty() {
            let away = turn.threads.contains(&Status::Away);
            return if away { Blocked::Progress } else { Blocked::Everybody };
        }
        self.hand_over(&mut turn, &ready);
        self.wait_for_turn(turn, own);
        Blocked::Progress
    }

    fn leave(&self, own: usize) {
        drop(self.step(own, Status::Done));
    }

    /// The thread has done a step and is of that status now; whose turn it was hands it over.
    fn step(&self, own: usize, status: Status) -> MutexGuard<'_, Turn> {
        let mut turn = self.lock();
        turn.steps += 1;
        if let Some(known) = turn.threads.get_mut(own) {
            *known = status;
        }
        if turn.current == own {
            let ready = Self::ready(&turn, own);
            self.hand_over(&mut turn, &ready);
        }
        turn
    }
}

fn seat() -> Option<(Arc<Baton>, usize)> {
    // A thread that is ending, and runs the destructors of its own variables, has no seat.
    SEAT.try_with(|seat| seat.borrow().clone()).ok().flatten()
}

/// A place where the schedule may switch to another thread of [`crate::Machine::run_threads`];
/// nothing on any other thread. For locks and other code that makes no driver call (S7).
#[inline]
pub fn yield_point() {
    if let Some((baton, own)) = seat() {
        baton.yield_point(own);
    }
}

/// The calling thread waits for something that another thread may bring.
pub(crate) fn block() -> Blocked {
    seat().map_or(Blocked::NotScheduled, |(baton, own)| baton.block(own))
}

/// Gives up the turn for good when its thread ends, however it ends.
struct Leave(Arc<Baton>, usize);

impl Drop for Leave {
    fn drop(&mut self) {
        SEAT.set(None);
        self.0.leave(self.1);
    }
}

/// What a thread of [`run`] does.
pub(crate) type Body<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs threads under the schedule of a slot's machine until all have ended.
pub(crate) fn run(slot: usize, bodies: Vec<Body<'_>>) {
    let count = bodies.len();
    if count == 0 {
        return;
    }
    let turn = Turn {
        current: usize::MAX,
        threads: vec![Status::Runnable; count],
        steps: 0,
        vigil: Vigil::new(),
        hosts: vec![None; count],
    };
    let baton = Arc::new(Baton { turn: Mutex::new(turn), changed: Condvar::new(), slot });
    std::thread::scope(|scope| {
        for (index, body) in bodies.into_iter().enumerate() {
            let baton = Arc::clone(&baton);
            scope.spawn(move || {
                SEAT.set(Some((Arc::clone(&baton), index)));
                let leave = Leave(Arc::clone(&baton), index);
                let mut turn = baton.lock();
                if let Some(host) = turn.hosts.get_mut(index) {
                    *host = Some(HostThread::current());
                }
                baton.wait_for_turn(turn, index);
                body();
                drop(leave);
            });
        }
        let mut turn = baton.lock();
        let ready = Baton::ready(&turn, 0);
        baton.hand_over(&mut turn, &ready);
    });
}
