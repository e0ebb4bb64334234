//! One driver call: from the C function of a slot to the machine behind its lock.
//!
//! A machine lives in one of [`SLOTS`]; the C functions are generic over the slot's number. A
//! call locks the slot, counts, charges virtual time, lets the schedule run what it wants, and
//! only then does its job. The lock is dropped while a host function runs and while a call waits.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cuda_sys::{CUresult, Table};

use crate::cost;
use crate::hazard::Hazard;
use crate::shims::raw::fork_generation;
use crate::state::{Answer, State};

/// How many machines can live at the same time.
pub(crate) const SLOT_COUNT: usize = 64;

/// A place for a machine.
#[derive(Debug)]
pub(crate) struct Slot {
    state: Mutex<Option<Box<State>>>,
    pub(crate) changed: Condvar,
    fork: AtomicU64,
}

/// All places for machines.
pub(crate) static SLOTS: [Slot; SLOT_COUNT] = [const { Slot::new() }; SLOT_COUNT];

type Guard = MutexGuard<'static, Option<Box<State>>>;

impl Slot {
    const fn new() -> Self {
        Self { state: Mutex::new(None), changed: Condvar::new(), fork: AtomicU64::new(0) }
    }

    pub(crate) fn lock(&'static self) -> Guard {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn occupy(&'static self, state: State) {
        self.fork.store(fork_generation(), Ordering::Relaxed);
        *self.lock() = Some(Box::new(state));
    }
}

/// The slot of a number.
pub(crate) fn slot(number: usize) -> &'static Slot {
    SLOTS.get(number).expect("slot numbers come from the list of slots")
}

/// The place of an entry point in the table, found when the shims are compiled.
pub(crate) const fn entry_index(name: &str) -> usize {
    let mut index = 0;
    let entries = Table::ENTRY_POINTS;
    while index < entries.len() {
        #[expect(clippy::indexing_slicing, reason = "iterators do not run in constants")]
        if equal(entries[index].name.as_bytes(), name.as_bytes()) {
            return index;
        }
        index += 1;
    }
    panic!("no such entry point")
}

const fn equal(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        #[expect(clippy::indexing_slicing, reason = "iterators do not run in constants")]
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}

pub(crate) fn entry_name(entry: usize) -> &'static str {
    Table::ENTRY_POINTS.get(entry).map_or("?", |entry| entry.name)
}

thread_local! {
    static THREAD_KEY: u64 = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
    /// Set while this thread runs a host function or a kernel of a machine.
    static INSIDE: Cell<Inside> = const { Cell::new(Inside::Nothing) };
}

/// What of a machine's a thread is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inside {
    Nothing,
    HostFunction,
    /// The lock is held; a call made here is remembered until it is not.
    Kernel {
        called: Option<&'static str>,
    },
}

pub(crate) fn set_inside(inside: Inside) -> Inside {
    INSIDE.replace(inside)
}

/// Tells host threads apart.
pub(crate) fn thread_key() -> u64 {
    THREAD_KEY.with(|key| *key)
}

/// A call that holds its machine's lock.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) slot: &'static Slot,
    guard: Option<Guard>,
    pub(crate) entry: usize,
    /// The calling thread's place in the machine.
    pub(crate) thread: usize,
}

impl Deref for Call {
    type Target = State;

    fn deref(&self) -> &State {
        let state = self.guard.as_deref().and_then(Option::as_deref);
        state.expect("a call ends when its machine does")
    }
}

impl DerefMut for Call {
    fn deref_mut(&mut self) -> &mut State {
        let state = self.guard.as_deref_mut().and_then(Option::as_deref_mut);
        state.expect("a call ends when its machine does")
    }
}

impl Call {
    /// Locks a machine from the test's side.
    pub(crate) fn aside(number: usize) -> Option<Self> {
        let slot = slot(number);
        let guard = slot.lock();
        guard.as_ref()?;
        let mut call = Self { slot, guard: Some(guard), entry: usize::MAX, thread: 0 };
        call.thread = call.thread_index(thread_key());
        Some(call)
    }

    /// Locks a machine from its own thread; nothing when it is gone.
    pub(crate) fn of_worker(slot: &'static Slot, serial: u64) -> Option<Self> {
        let guard = slot.lock();
        let here = guard.as_ref().is_some_and(|state| state.serial == serial);
        here.then(|| Self { slot, guard: Some(guard), entry: usize::MAX, thread: 0 })
    }

    /// Drops the lock until something changes or the time is over.
    ///
    /// # Errors
    /// The machine is gone.
    pub(crate) fn wait(&mut self, at_most: Duration) -> Answer {
        let serial = self.serial;
        let guard = self.guard.take().expect("a call holds its lock");
        let (guard, _) =
            self.slot.changed.wait_timeout(guard, at_most).unwrap_or_else(PoisonError::into_inner);
        self.resume(guard, serial)
    }

    /// Drops the lock while `work` runs.
    ///
    /// # Errors
    /// The machine is gone.
    pub(crate) fn unlocked<R>(&mut self, work: impl FnOnce() -> R) -> Answer<R> {
        let serial = self.serial;
        drop(self.guard.take());
        let result = work();
        let guard = self.slot.lock();
        self.resume(guard, serial)?;
        Ok(result)
    }

    fn resume(&mut self, guard: Guard, serial: u64) -> Answer {
        let same = guard.as_ref().is_some_and(|state| state.serial == serial);
        if !same {
            return Err(CUresult::CUDA_ERROR_DEINITIALIZED);
        }
        self.guard = Some(guard);
        Ok(())
    }

    /// The name of the entry point.
    pub(crate) fn name(&self) -> &'static str {
        entry_name(self.entry)
    }
}

/// Does a driver call in the machine of a slot.
pub(crate) fn run(number: usize, entry: usize, body: impl FnOnce(&mut Call) -> Answer) -> CUresult {
    match enter(number, entry).and_then(|mut call| body(&mut call)) {
        Ok(()) => CUresult::CUDA_SUCCESS,
        Err(code) => code,
    }
}

fn enter(number: usize, entry: usize) -> Answer<Call> {
    let slot = slot(number);
    if fork_generation() != slot.fork.load(Ordering::Relaxed) {
        return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED);
    }
    refuse_inside(slot, entry)?;
    crate::threads::yield_point();
    let guard = slot.lock();
    if guard.is_none() {
        return Err(CUresult::CUDA_ERROR_DEINITIALIZED);
    }
    let mut call = Call { slot, guard: Some(guard), entry, thread: 0 };
    call.journal.note(entry);
    call.now += cost::of_call(entry);
    if !call.initialized && !works_before_init(entry) {
        return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED);
    }
    call.thread = call.thread_index(thread_key());
    if let Some(plan) = call.faults.strike(entry, thread_key()) {
        if plan.sticky
            && let Some(context) = call.current(call.thread)
        {
            call.break_context(context, plan.code);
        }
        return Err(plan.code);
    }
    call.drift()?;
    Ok(call)
}

/// Driver calls inside a host function or a kernel are not permitted.
fn refuse_inside(slot: &'static Slot, entry: usize) -> Answer {
    match INSIDE.get() {
        Inside::Nothing => return Ok(()),
        Inside::HostFunction => {
            if let Some(state) = slot.lock().as_mut() {
                state.journal.note(entry);
                state.report(Hazard::CallInHostFunction { call: entry_name(entry) });
            }
        }
        Inside::Kernel { .. } => {
            INSIDE.set(Inside::Kernel { called: Some(entry_name(entry)) });
        }
    }
    Err(CUresult::CUDA_ERROR_NOT_PERMITTED)
}

fn works_before_init(entry: usize) -> bool {
    const FREE: [usize; 5] = [
        entry_index("cuInit"),
        entry_index("cuDriverGetVersion"),
        entry_index("cuGetErrorName"),
        entry_index("cuGetErrorString"),
        entry_index("cuGetProcAddress"),
    ];
    FREE.contains(&entry)
}
