//! Plain and pinned memory.

use cuda_sys::CUresult;
use smallvec::SmallVec;

use crate::call::Call;
use crate::hazard::{Ending, Hazard};
use crate::memory::{Mapping, MappingKind, Store, host, size};
use crate::physical::SparseBytes;
use crate::shims::raw::{HostPlace, PinnedBytes};
use crate::state::{Answer, State};

/// What the driver aligns every allocation to.
const ALIGNMENT: u64 = 512;
/// What it aligns large ones to.
const LARGE: u64 = 2 << 20;

impl Call {
    pub(crate) fn allocate(&mut self, bytes: usize) -> Answer<u64> {
        let context = self.usable(self.thread)?;
        self.refuse_capture()?;
        if bytes == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let device = self.context(context).device;
        self.add_device_memory(size(bytes), device, context, MappingKind::Plain)
    }

    /// What forbids every free: a context that failed, and a capture.
    fn check_free(&mut self) -> Answer {
        if let Some(context) = self.current(self.thread) {
            self.check_context(context)?;
        }
        self.refuse_capture()
    }

    /// Waits for what still uses a plain allocation, and frees it.
    pub(crate) fn free(&mut self, address: u64) -> Answer {
        self.check_free()?;
        if address == 0 {
            return Ok(());
        }
        let mapping = self.memory.mappings.get(&address);
        let mapping = mapping.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let context = mapping.context;
        let pooled = matches!(mapping.kind, MappingKind::Pool(_)) && !mapping.freed;
        if mapping.kind != MappingKind::Plain && !pooled {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        self.check_context(context)?;
        self.end_addresses(address, Ending::Free, true)?;
        self.remove_mapping(address);
        Ok(())
    }

    pub(crate) fn allocate_pinned(&mut self, bytes: usize) -> Answer<u64> {
        let context = self.usable(self.thread)?;
        self.refuse_capture()?;
        if bytes == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let pinned = PinnedBytes::new(bytes).ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        let place = pinned.place();
        self.map_host(context, place, MappingKind::Pinned, Store::Pinned(pinned));
        Ok(size(place.address()))
    }

    pub(crate) fn free_pinned(&mut self, address: u64) -> Answer {
        self.check_free()?;
        if address == 0 {
            return Ok(());
        }
        let mapping = self.memory.mappings.get(&address);
        let pinned = mapping.filter(|mapping| mapping.kind == MappingKind::Pinned);
        let backing = pinned.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?.backing;
        self.end_addresses(address, Ending::FreeHost, true)?;
        self.memory.free_pinned(backing);
        self.remove_mapping(address);
        Ok(())
    }

    pub(crate) fn register(&mut self, place: HostPlace) -> Answer {
        let context = self.usable(self.thread)?;
        self.refuse_capture()?;
        let start = size(place.address());
        if start == 0 || place.bytes() == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let end = start.checked_add(size(place.bytes()));
        let end = end.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let before = self.memory.mappings.range(..end).next_back();
        if before.is_some_and(|(&from, mapping)| start < from + mapping.bytes) {
            return Err(CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.map_host(context, place, MappingKind::Registered, Store::Registered(place));
        Ok(())
    }

    pub(crate) fn unregister(&mut self, address: u64) -> Answer {
        self.refuse_capture()?;
        let mapping = self.memory.mappings.get(&address);
        if !mapping.is_some_and(|mapping| mapping.kind == MappingKind::Registered) {
            return Err(CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
        }
        self.end_addresses(address, Ending::Unregister, true)?;
        self.remove_mapping(address);
        Ok(())
    }

    fn map_host(&mut self, context: usize, place: HostPlace, kind: MappingKind, store: Store) {
        let device = self.context(context).device;
        let backing = self.memory.add_backing(store);
        let bytes = size(place.bytes());
        let mapping = new_mapping(bytes, backing, kind, device, context);
        self.memory.mappings.insert(size(place.address()), mapping);
    }

    /// Judges the end of a mapping's life. Whoever still uses it should have been seen complete;
    /// with `wait` what can still run of that runs first, as the real driver's free does.
    pub(crate) fn end_addresses(&mut self, address: u64, ending: Ending, wait: bool) -> Answer {
        let Some(mapping) = self.memory.mappings.get(&address) else { return Ok(()) };
        let bytes = mapping.bytes;
        let uses: SmallVec<[_; 4]> =
            mapping.uses.iter().copied().filter(|seen| !self.observed.covers(seen.epoch)).collect();
        if self.settings.hazards {
            for seen in &uses {
                let hazard = Hazard::EndedInUse {
                    ending,
                    operation: self.describe(seen),
                    allocation: self.allocation(address),
                };
                self.report(hazard);
            }
            let range = address..address + bytes;
            if let Some((range, tenant)) = self.tenancy.find(&range, true) {
                let hazard = Hazard::EndedAlive { ending, range, born_on: tenant.stream.clone() };
                self.report(hazard);
            }
        }
        self.tenancy.clear(&(address..address + bytes));
        if wait && !uses.is_empty() {
            let needs: SmallVec<[(u32, u64); 4]> =
                uses.iter().map(|seen| (seen.epoch.timeline, seen.epoch.place)).collect();
            self.complete(&needs)?;
        }
        Ok(())
    }
}

impl State {
    /// Takes device memory and gives it addresses.
    pub(crate) fn add_device_memory(
        &mut self,
        bytes: u64,
        device: usize,
        context: usize,
        kind: MappingKind,
    ) -> Answer<u64> {
        let out_of_memory = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let rounded = bytes.checked_next_multiple_of(ALIGNMENT).ok_or(out_of_memory)?;
        self.device_mut(device).charge(rounded)?;
        let alignment = if rounded < LARGE { ALIGNMENT } else { LARGE };
        let Some(address) = self.memory.plain.take(rounded, alignment) else {
            self.device_mut(device).refund(rounded);
            return Err(out_of_memory);
        };
        let backing = self.memory.add_backing(Store::Device(SparseBytes::new(bytes)));
        let mapping = new_mapping(bytes, backing, kind, device, context);
        self.memory.mappings.insert(address, mapping);
        Ok(address)
    }

    /// Forgets a mapping of any kind but virtual, and its bytes.
    pub(crate) fn remove_mapping(&mut self, address: u64) {
        let Some(mapping) = self.memory.mappings.remove(&address) else { return };
        self.memory.drop_backing(mapping.backing);
        if matches!(mapping.kind, MappingKind::Plain | MappingKind::Pool(_)) {
            let rounded = mapping.bytes.next_multiple_of(ALIGNMENT);
            self.memory.plain.give_back(address, rounded);
            self.device_mut(mapping.device).refund(rounded);
        }
        if let MappingKind::Pool(pool) = mapping.kind {
            self.note_pool_free(pool, mapping.bytes);
        }
    }

    /// Free and total bytes of the current context's device.
    pub(crate) fn memory_info(&mut self, context: usize) -> (usize, usize) {
        let device = self.context(context).device;
        let device = self.device_mut(device);
        let free = device.profile.capacity_bytes.saturating_sub(device.used_bytes);
        (host(free), host(device.profile.total_bytes))
    }
}

pub(crate) fn new_mapping(
    bytes: u64,
    backing: usize,
    kind: MappingKind,
    device: usize,
    context: usize,
) -> Mapping {
    Mapping { bytes, backing, kind, device, context, uses: SmallVec::new(), freed: false }
}
