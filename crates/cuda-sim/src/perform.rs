//! What an operation does to memory, events and contexts when its turn has come.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use cuda_sys::CUresult;

use crate::call::{Inside, set_inside};
use crate::clock::Epoch;
use crate::cost;
use crate::hazard::Hazard;
use crate::kernel::{KernelCall, KernelFault, Launch};
use crate::memory::{DEVICE_ADDRESSES, MappingKind};
use crate::shadow::Seen;
use crate::state::State;
use crate::stream::{Place, Queued, Work};

impl State {
    /// Does what the first operation of a timeline says; it is off the queue already.
    pub(crate) fn perform(&mut self, timeline: u32, queued: &Queued) {
        let place = self.live(timeline).done + 1;
        let epoch = Epoch { timeline, place };
        let seen = Seen { epoch, number: queued.number, label: queued.work.label() };
        let illegal = match &queued.work {
            Work::Fill { address, bytes, word } => {
                (!self.memory.fill(*address, *bytes, *word)).then_some(*address)
            }
            Work::Copy { to, from, bytes, source_then } => {
                self.compare_source(from, *source_then, *bytes, seen);
                self.copy(to, from, *bytes)
            }
            Work::Kernel(launch) => return self.run_kernel(&Arc::clone(launch), seen),
            Work::WriteValue { address, value } => {
                (!self.memory.write(*address, &value.to_le_bytes())).then_some(*address)
            }
            Work::WaitValue { address, .. } => {
                self.memory.pieces(*address, 8).is_none().then_some(*address)
            }
            Work::PoolFree { address } => {
                self.finish_pool_free(*address);
                None
            }
            Work::Release(objects) => {
                for &(object, count) in objects {
                    self.release_object(object, count);
                }
                None
            }
            Work::Nothing | Work::Record(_) | Work::HostFunction(_) => None,
        };
        if let Some(address) = illegal {
            self.illegal_address(address, seen);
        }
    }

    /// Pinned memory must still hold what it held when the copy was submitted.
    fn compare_source(&mut self, from: &Place, then: Option<u64>, bytes: u64, seen: Seen) {
        let (&Place::Address(address), Some(then)) = (from, then) else { return };
        let mut now = vec![0; crate::memory::host(bytes)];
        if self.memory.read(address, &mut now) && digest(&now) != then {
            let operation = self.describe(&seen);
            self.report(Hazard::HostWroteSource { operation, address });
        }
    }

    /// Copies; gives the address that means nothing, if there is one.
    fn copy(&mut self, to: &Place, from: &Place, bytes: u64) -> Option<u64> {
        let staged = match (to, from) {
            (Place::Address(to), Place::Address(from)) => {
                return (!self.memory.copy(*to, *from, bytes)).then_some(*to);
            }
            (_, Place::Staged(staged)) => Arc::clone(staged),
            (_, Place::Address(from)) => {
                let mut buffer = vec![0; crate::memory::host(bytes)];
                if !self.memory.read(*from, &mut buffer) {
                    return Some(*from);
                }
                Arc::from(buffer)
            }
            (_, Place::Host(place)) => {
                let mut buffer = vec![0; crate::memory::host(bytes)];
                place.read(0, &mut buffer);
                Arc::from(buffer)
            }
        };
        match to {
            Place::Address(to) => (!self.memory.write(*to, &staged)).then_some(*to),
            Place::Host(place) => {
                place.write(0, &staged);
                None
            }
            Place::Staged(_) => None,
        }
    }

    pub(crate) fn illegal_address(&mut self, address: u64, seen: Seen) {
        let operation = self.describe(&seen);
        self.report(Hazard::IllegalAddress { operation, address });
        let context = self.live(seen.epoch.timeline).context;
        self.break_context(context, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    }

    /// The first address of a launch that its device cannot reach.
    fn out_of_reach(&self, launch: &Launch, context: usize) -> Option<u64> {
        if self.devices.len() < 2 {
            return None;
        }
        let device = self.context(context).device;
        let within_reach = |address: u64| {
            self.memory.mapping_at(address).is_none_or(|(_, mapping)| match mapping.kind {
                MappingKind::Pinned | MappingKind::Registered => true,
                MappingKind::Virtual { devices, .. } => {
                    u32::try_from(device).is_ok_and(|device| devices >> device & 1 == 1)
                }
                MappingKind::Plain | MappingKind::Pool(_) => {
                    let peers = &self.context(context).peers;
                    mapping.device == device || peers.contains(&mapping.context)
                }
            })
        };
        let mut starts = launch.accesses.iter().map(|access| access.range.start);
        starts.find(|&start| !within_reach(start))
    }

    fn run_kernel(&mut self, launch: &Launch, seen: Seen) {
        let context = self.live(seen.epoch.timeline).context;
        if let Some(address) = self.out_of_reach(launch, context) {
            return self.illegal_address(address, seen);
        }
        let mut call = KernelCall::new(&mut self.memory, launch);
        let outside = set_inside(Inside::Kernel { called: None });
        let run = std::panic::AssertUnwindSafe(|| launch.body.run(&mut call));
        let result = std::panic::catch_unwind(run);
        let inside = set_inside(outside);
        let fault = call.into_fault();
        if let Inside::Kernel { called: Some(call) } = inside {
            self.report(Hazard::CallInHostFunction { call });
        }
        if let Err(panic) = result {
            let message = crate::explore::panic_text(panic.as_ref());
            let operation = self.describe(&seen);
            self.report(Hazard::KernelPanicked { operation, message });
            self.break_context(context, CUresult::CUDA_ERROR_LAUNCH_FAILED);
        }
        match fault {
            None => {}
            Some(KernelFault::Illegal(address)) => self.illegal_address(address, seen),
            Some(KernelFault::Raised(code)) => self.break_context(context, code),
            Some(KernelFault::Undeclared(range, kind)) => {
                let operation = self.describe(&seen);
                self.report(Hazard::Undeclared { operation, range, kind });
            }
        }
    }
}

/// What tells the contents of a source from any other.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// How long an operation keeps its stream busy, in virtual time.
pub(crate) fn duration(queued: &Queued) -> u64 {
    match &queued.work {
        Work::Nothing
        | Work::Record(_)
        | Work::PoolFree { .. }
        | Work::WaitValue { .. }
        | Work::Release(_) => 0,
        Work::Fill { bytes, .. } => cost::of_device_bytes(*bytes),
        Work::Copy { to: Place::Address(to), from: Place::Address(from), bytes, .. }
            if [to, from].into_iter().all(|at| DEVICE_ADDRESSES.contains(at)) =>
        {
            cost::of_device_bytes(*bytes)
        }
        Work::Copy { bytes, .. } => cost::of_bus_bytes(*bytes),
        Work::Kernel(launch) => launch.body.nanoseconds(&launch.arguments),
        Work::HostFunction(_) | Work::WriteValue { .. } => 2_000,
    }
}
