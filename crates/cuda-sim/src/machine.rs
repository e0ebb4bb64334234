//! Machines: a simulated host with devices, its table of driver calls, and the test's side of it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use cuda_sys::Table;

use crate::call::{Call, SLOT_COUNT, slot, thread_key};
use crate::context::Device;
use crate::fault::FaultPlan;
use crate::hazard::Hazard;
use crate::journal::Journal;
use crate::kernel::{Access, KernelBody};
use crate::profile::DeviceProfile;
use crate::schedule::{Chooser, Schedule};
use crate::state::{Settings, State};

/// All places for machines are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{SLOT_COUNT} simulated machines are alive already; drop one first")]
pub struct TooManyMachines;

/// What a machine is built from.
#[derive(Debug, Clone)]
#[must_use]
pub struct MachineBuilder {
    profiles: Vec<DeviceProfile>,
    schedule: Schedule,
    settings: Settings,
}

impl MachineBuilder {
    fn new() -> Self {
        let settings = Settings {
            hazards: true,
            refusals_max: 3,
            patience: Duration::from_secs(5),
            late_reads: false,
        };
        Self { profiles: Vec::new(), schedule: Schedule::Seeded(0), settings }
    }

    /// Adds a device. A machine without any gets one [`DeviceProfile::h200`].
    pub fn device(mut self, profile: DeviceProfile) -> Self {
        self.profiles.push(profile);
        self
    }

    /// Says where choices come from; the default is `Schedule::Seeded(0)`.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// Switches the hazard checker off or on; it is on by default.
    pub fn hazards(mut self, on: bool) -> Self {
        self.settings.hazards = on;
        self
    }

    /// Says how often in a row a query may answer "not ready" where it could answer "ready"; the
    /// default is 3.
    pub fn refusals(mut self, count_max: u32) -> Self {
        self.settings.refusals_max = count_max;
        self
    }

    /// Says how long, in real time, a call waits for a host that may open a gate before it
    /// reports a deadlock; the default is five seconds. While a host function is on its way that
    /// only lacks a processor, no time counts.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// Lets a seeded run read the pageable source of an asynchronous copy when the copy runs,
    /// as a choice; the default is to read it at the call. Only for programs that leave the
    /// source where it is until the copy is done, as the driver's documentation asks.
    pub fn late_pageable_reads(mut self, on: bool) -> Self {
        self.settings.late_reads = on;
        self
    }

    /// Builds the machine, waiting for a place where all are taken.
    #[must_use]
    pub fn build(self) -> Machine {
        let slot = take_slot(true).expect("a wait for a place ends with a place");
        self.build_in(slot)
    }

    /// Builds the machine if there is a place for it.
    ///
    /// # Errors
    /// As many machines as there are places are alive.
    pub fn try_build(self) -> Result<Machine, TooManyMachines> {
        let slot = take_slot(false).ok_or(TooManyMachines)?;
        Ok(self.build_in(slot))
    }

    fn build_in(mut self, number: usize) -> Machine {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        crate::shims::raw::watch_forks();
        if self.profiles.is_empty() {
            self.profiles.push(DeviceProfile::h200());
        }
        let devices = self.profiles.into_iter().map(Device::new).collect();
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let state = State::new(serial, devices, Chooser::new(self.schedule), self.settings);
        let table = crate::table::fill(number, state.driver_version(), |entry| {
            entry.required || state.has_entry(entry)
        });
        slot(number).occupy(state);
        Machine { seat: Arc::new(Seat { number, table: Arc::new(table) }) }
    }
}

/// A place among the slots; leaving it ends the machine.
struct Seat {
    number: usize,
    table: Arc<Table>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let slot = slot(self.number);
        let state = slot.lock().take();
        slot.changed.notify_all();
        drop(state);
        give_slot(self.number);
    }
}

/// A simulated machine. Clones are the same machine; it ends with the last one.
///
/// ```
/// use cuda_sim::{DeviceProfile, Machine, Schedule};
/// use cuda_sys::CUresult;
///
/// let machine =
///     Machine::builder().device(DeviceProfile::h200()).schedule(Schedule::Seeded(7)).build();
/// let table = machine.table();
/// // SAFETY: the call takes a number.
/// assert_eq!(unsafe { table.init()(0) }, CUresult::CUDA_SUCCESS);
/// assert_eq!(machine.calls("cuInit"), 1);
/// ```
#[derive(Clone)]
pub struct Machine {
    seat: Arc<Seat>,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("slot", &self.seat.number).finish_non_exhaustive()
    }
}

impl Machine {
    /// Starts to build a machine.
    pub fn builder() -> MachineBuilder {
        MachineBuilder::new()
    }

    fn aside(&self) -> Call {
        Call::aside(self.seat.number).expect("a machine lives as long as its handle")
    }

    /// The machine's driver calls. Calls through it after the machine has ended give
    /// `CUDA_ERROR_DEINITIALIZED`, so keep the machine as long as the table is used.
    #[must_use]
    pub fn table(&self) -> Arc<Table> {
        Arc::clone(&self.seat.table)
    }

    /// Gives a kernel its body, by the name of the module's entry.
    pub fn register_kernel(&self, name: impl Into<String>, body: impl Into<KernelBody>) {
        self.aside().kernel_bodies.insert(name.into(), body.into());
    }

    /// The kernels that have a body.
    #[must_use]
    pub fn kernels(&self) -> BTreeSet<String> {
        self.aside().kernel_bodies.keys().cloned().collect()
    }

    /// Declares that a range inside an allocation now belongs to somebody on a stream, by the
    /// stream's raw handle.
    pub fn born(&self, address: u64, bytes: u64, stream: usize) {
        let mut call = self.aside();
        let now = call.raw_stream_name(stream);
        let range = address..address.saturating_add(bytes);
        if let Some((living, tenant)) = call.tenancy.find(&range, true) {
            let range = living.start.max(address)..living.end.min(range.end);
            let before = tenant.stream.clone();
            call.report(Hazard::BornTwice { range, now: now.clone(), before });
        }
        call.tenancy.set(range, true, now);
    }

    /// Declares that a range belongs to nobody any more: whoever uses it before it is born again
    /// is reported.
    pub fn dead(&self, address: u64, bytes: u64, stream: usize) {
        let mut call = self.aside();
        let name = call.raw_stream_name(stream);
        let range = address..address.saturating_add(bytes);
        if !call.tenancy.is_alive(&range) {
            call.report(Hazard::DeadTwice { range: range.clone() });
        }
        call.tenancy.set(range, false, name);
    }

    /// Whether an operation that writes the range, submitted to the stream now, would come after
    /// every earlier access to these bytes. With the checker off there is nothing to compare
    /// with, and every probe is answered well.
    ///
    /// # Errors
    /// The race it would be. It is not among [`Machine::hazards`].
    pub fn probe(&self, address: u64, bytes: u64, stream: usize) -> Result<(), Box<Hazard>> {
        let call = self.aside();
        let Some(timeline) = call.raw_timeline(stream) else { return Ok(()) };
        call.probe(&Access::write(address, bytes), timeline)
    }

    /// What went wrong so far, oldest first.
    #[must_use]
    pub fn hazards(&self) -> Vec<Hazard> {
        self.aside().hazards.clone()
    }

    /// What went wrong so far; the list is empty afterwards.
    #[must_use]
    pub fn take_hazards(&self) -> Vec<Hazard> {
        std::mem::take(&mut self.aside().hazards)
    }

    /// How many hazards there were so far, taken ones and those beyond the 4096 that are kept
    /// included.
    #[must_use]
    pub fn hazard_count(&self) -> u64 {
        self.aside().hazard_count
    }

    /// How often each entry point was called so far.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.aside().journal.clone()
    }

    /// How many calls were made so far.
    #[must_use]
    pub fn call_count(&self) -> u64 {
        self.aside().journal.total()
    }

    /// How often one entry point was called so far.
    #[must_use]
    pub fn calls(&self, name: &str) -> u64 {
        self.aside().journal.calls(name)
    }

    /// Has a call to come fail.
    ///
    /// # Panics
    /// There is no such call, or its turn is number zero.
    pub fn fail(&self, plan: FaultPlan) {
        self.aside().faults.add(plan, None);
    }

    /// Has a call to come of this host thread fail; those of other threads are not counted.
    ///
    /// # Panics
    /// There is no such call, or its turn is number zero.
    pub fn fail_here(&self, plan: FaultPlan) {
        self.aside().faults.add(plan, Some(thread_key()));
    }

    /// Forgets the failures that have not happened.
    pub fn clear_faults(&self) {
        self.aside().faults.clear();
    }

    /// Forgets the failures of this host thread's calls that have not happened; how many there
    /// were.
    pub fn clear_faults_here(&self) -> usize {
        self.aside().faults.clear_of(thread_key())
    }

    /// Resets a device as another library would, by `cuDevicePrimaryCtxReset`: its primary context
    /// and everything in it is gone. Nothing happens where there is none.
    pub fn reset_device(&self, ordinal: usize) {
        let mut call = self.aside();
        if let Some(context) = call.devices.get(ordinal).and_then(|device| device.primary) {
            call.destroy_context(context);
        }
    }

    /// Changes how much memory every device has to give; what is taken stays taken.
    pub fn set_capacity(&self, bytes: u64) {
        for device in &mut self.aside().devices {
            device.profile.capacity_bytes = bytes;
        }
    }

    /// How much device memory is taken, over all devices.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.aside().devices.iter().map(|device| device.used_bytes).sum()
    }

    /// The host's time, in nanoseconds since the machine was built.
    #[must_use]
    pub fn virtual_time(&self) -> u64 {
        self.aside().time()
    }

    /// Lets virtual time pass for the host, as a sleep would.
    pub fn advance(&self, nanoseconds: u64) {
        let mut call = self.aside();
        call.now += nanoseconds;
        let _gone = call.drift();
    }

    /// How much host memory stands behind device memory.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.aside().memory.resident()
    }

    /// How many operations have been submitted and have not run.
    #[must_use]
    pub fn pending_operations(&self) -> usize {
        let call = self.aside();
        call.busy.iter().map(|&timeline| call.live(timeline).queue.len()).sum()
    }

    /// A place where the schedule may switch to another host thread.
    pub fn yield_point(&self) {
        crate::threads::yield_point();
    }

    /// Waits until a condition holds that another thread of [`Machine::run_threads`] brings
    /// about; on any other thread it tries again and again.
    pub fn wait_until(&self, mut condition: impl FnMut() -> bool) {
        while !condition() {
            if crate::threads::block() != crate::threads::Blocked::Progress {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }

    /// How often a thread of [`Machine::run_threads`] lost its turn because it waited for
    /// something that the schedule does not know of, such as a lock. Of a run in which that
    /// happened the schedule does not tell everything.
    #[must_use]
    pub fn passed_over_count(&self) -> u64 {
        self.aside().passed_over
    }

    /// Runs host threads under the schedule, one at a time: it may switch at every driver call,
    /// at [`Machine::yield_point`], and where a thread waits. Returns when all have ended.
    ///
    /// # Panics
    /// One of them panicked.
    pub fn run_threads(&self, bodies: Vec<Box<dyn FnOnce() + Send + '_>>) {
        crate::threads::run(self.seat.number, bodies);
    }

    /// Reads device memory as it is now, without being an operation; false where a part of the
    /// range means nothing.
    #[must_use]
    pub fn peek(&self, address: u64, into: &mut [u8]) -> bool {
        self.aside().memory.read(address, into)
    }

    /// The raw handle of the living stream to which `cuStreamGetId` gave this id, so that a rig
    /// can name a stream without asking its owner for the handle.
    #[must_use]
    pub fn stream_with_id(&self, id: u64) -> Option<usize> {
        let call = self.aside();
        let named = |timeline: u32| call.stream(timeline).is_some_and(|stream| stream.id == id);
        call.stream_handles.live().find(|(_, timeline)| named(**timeline)).map(|(handle, _)| handle)
    }

    /// The ranges declared alive that overlap `range`: for tests of the rig itself.
    #[must_use]
    pub fn alive_in(&self, range: Range<u64>) -> Option<Range<u64>> {
        self.aside().tenancy.find(&range, true).map(|(range, _)| range)
    }

    /// The choices that a scripted run has made: which, and of how many.
    pub(crate) fn choices(&self) -> Vec<(u32, u32)> {
        self.aside().chooser.taken().to_vec()
    }
}

impl Call {
    /// The timeline of a raw stream handle, the default ones included.
    pub(crate) fn raw_timeline(&self, stream: usize) -> Option<u32> {
        match stream {
            0 | 1 => Some(self.context(self.current(self.thread)?).legacy),
            2 => {
                let context = self.current(self.thread)?;
                self.context(context).per_thread.get(&self.thread).copied()
            }
            stream => self.stream_handles.get(stream).ok().copied(),
        }
    }

    fn raw_stream_name(&self, stream: usize) -> String {
        self.raw_timeline(stream).map_or_else(
            || format!("an unknown stream ({stream:#x})"),
            |timeline| self.stream_name(timeline),
        )
    }
}

static FREE_SLOTS: Mutex<Option<Vec<usize>>> = Mutex::new(None);
static SLOT_FREED: Condvar = Condvar::new();

fn take_slot(wait: bool) -> Option<usize> {
    let mut free = FREE_SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let list = free.get_or_insert_with(|| (0..SLOT_COUNT).rev().collect());
        if let Some(number) = list.pop() {
            return Some(number);
        }
        if !wait {
            return None;
        }
        free = SLOT_FREED.wait(free).unwrap_or_else(PoisonError::into_inner);
    }
}

fn give_slot(number: usize) {
    let mut free = FREE_SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(list) = free.as_mut() {
        list.push(number);
    }
    SLOT_FREED.notify_one();
}
