//! Virtual memory: addresses reserved, physical memory made, one mapped into the other.

use cuda_sys::{CUmemAllocationProp, CUmemAllocationType, CUmemLocationType, CUresult};

use super::memory::new_mapping;
use crate::call::Call;
use crate::hazard::Ending;
use crate::memory::{MappingKind, Store};
use crate::physical::SparseBytes;
use crate::state::{Answer, Physical};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

impl Call {
    fn granularity(&self) -> u64 {
        self.devices.first().map_or(2 << 20, |device| device.profile.granularity_bytes)
    }

    /// Virtual memory works in any usable context, or in none, but not on a broken device.
    fn check_vmm(&mut self) -> Answer {
        if let Some(context) = self.current(self.thread) {
            self.check_context(context)?;
        }
        Ok(())
    }

    pub(crate) fn reserve(&mut self, bytes: usize, alignment: usize, wanted: u64) -> Answer<u64> {
        self.check_vmm()?;
        let granularity = self.granularity();
        let bytes = crate::memory::size(bytes);
        let alignment = crate::memory::size(alignment).max(granularity);
        if bytes == 0 || !bytes.is_multiple_of(granularity) || !alignment.is_power_of_two() {
            return Err(INVALID);
        }
        // A wished-for address is a hint that the driver need not follow, and this one does not.
        let _hint = wanted;
        let address = self.memory.reserved.take(bytes, alignment);
        let address = address.ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        self.memory.reservations.insert(address, bytes);
        Ok(address)
    }

    pub(crate) fn free_reservation(&mut self, address: u64, bytes: usize) -> Answer {
        self.check_vmm()?;
        let bytes = crate::memory::size(bytes);
        if self.memory.reservations.get(&address) != Some(&bytes)
            || self.memory.mappings.range(address..address + bytes).next().is_some()
        {
            return Err(INVALID);
        }
        self.memory.reservations.remove(&address);
        self.memory.reserved.give_back(address, bytes);
        Ok(())
    }

    pub(crate) fn create_physical(
        &mut self,
        bytes: usize,
        properties: &CUmemAllocationProp,
    ) -> Answer<u64> {
        self.check_vmm()?;
        if properties.type_ != CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED {
            return Err(INVALID);
        }
        if properties.location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let device = self.device(properties.location.id)?;
        let bytes = crate::memory::size(bytes);
        if bytes == 0 || !bytes.is_multiple_of(self.granularity()) {
            return Err(INVALID);
        }
        self.device_mut(device).charge(bytes)?;
        let backing = self.memory.add_backing(Store::Device(SparseBytes::new(bytes)));
        let handle = self.physical.insert(Physical {
            backing,
            bytes,
            device,
            handle_types: properties.requestedHandleTypes.0,
            references: 1,
            mappings: 0,
        });
        Ok(crate::memory::size(handle))
    }

    /// The handle's number, if it names physical memory that may still be named.
    pub(crate) fn physical_handle(&self, handle: u64) -> Answer<usize> {
        let handle = crate::memory::host(handle);
        let physical = self.physical.get(handle).map_err(|_| INVALID)?;
        if physical.references == 0 { Err(INVALID) } else { Ok(handle) }
    }

    pub(crate) fn release_physical(&mut self, handle: u64) -> Answer {
        self.check_vmm()?;
        let handle = self.physical_handle(handle)?;
        self.physical.get_mut(handle)?.references -= 1;
        self.drop_physical_if_unused(handle);
        Ok(())
    }

    fn drop_physical_if_unused(&mut self, handle: usize) {
        let Ok(physical) = self.physical.get(handle) else { return };
        if physical.references == 0 && physical.mappings == 0 {
            let (backing, bytes, device) = (physical.backing, physical.bytes, physical.device);
            let _gone = self.physical.remove(handle);
            self.memory.drop_backing(backing);
            self.device_mut(device).refund(bytes);
        }
    }

    pub(crate) fn map(&mut self, address: u64, bytes: usize, offset: usize, handle: u64) -> Answer {
        self.check_vmm()?;
        let handle = self.physical_handle(handle)?;
        let bytes = crate::memory::size(bytes);
        let granularity = self.granularity();
        if bytes == 0 || !address.is_multiple_of(granularity) || !bytes.is_multiple_of(granularity)
        {
            return Err(INVALID);
        }
        let end = address.checked_add(bytes).ok_or(INVALID)?;
        let inside = self
            .memory
            .reservations
            .range(..=address)
            .next_back()
            .is_some_and(|(&start, &length)| end <= start + length);
        let before = self.memory.mappings.range(..end).next_back();
        let taken = before.is_some_and(|(&from, mapping)| address < from + mapping.bytes);
        if !inside || taken {
            return Err(INVALID);
        }
        let physical = self.physical.get_mut(handle)?;
        if offset != 0 || bytes != physical.bytes {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        physical.mappings += 1;
        let (backing, device) = (physical.backing, physical.device);
        self.memory.share_backing(backing);
        let kind = MappingKind::Virtual { handle, devices: 0 };
        let context = self.current(self.thread).unwrap_or(usize::MAX);
        self.memory.mappings.insert(address, new_mapping(bytes, backing, kind, device, context));
        Ok(())
    }

    /// The virtual mappings that make up a range exactly.
    fn whole_mappings(&self, address: u64, bytes: u64) -> Option<Vec<u64>> {
        let end = address.checked_add(bytes)?;
        let mut starts = Vec::new();
        let mut cursor = address;
        while cursor < end {
            let mapping = self.memory.mappings.get(&cursor)?;
            if !matches!(mapping.kind, MappingKind::Virtual { .. }) {
                return None;
            }
            starts.push(cursor);
            cursor += mapping.bytes;
        }
        (cursor == end).then_some(starts)
    }

    /// Lets devices use whole mappings, or no longer: each with the access it has from now on.
    pub(crate) fn set_access(
        &mut self,
        address: u64,
        bytes: usize,
        accesses: &[(usize, bool)],
    ) -> Answer {
        self.check_vmm()?;
        let starts = self.whole_mappings(address, crate::memory::size(bytes)).ok_or(INVALID)?;
        if starts.is_empty() {
            return Err(INVALID);
        }
        for start in starts {
            if let Some(mapping) = self.memory.mappings.get_mut(&start)
                && let MappingKind::Virtual { devices, .. } = &mut mapping.kind
            {
                for &(device, allowed) in accesses {
                    let bit = 1_u64.checked_shl(u32::try_from(device).unwrap_or(64)).unwrap_or(0);
                    *devices = if allowed { *devices | bit } else { *devices & !bit };
                }
            }
        }
        Ok(())
    }

    /// Unmaps whole mappings; a range that holds none is left as it is.
    pub(crate) fn unmap(&mut self, address: u64, bytes: usize) -> Answer {
        self.check_vmm()?;
        let bytes = crate::memory::size(bytes);
        let end = address.checked_add(bytes).ok_or(INVALID)?;
        if bytes == 0 || !address.is_multiple_of(self.granularity()) {
            return Err(INVALID);
        }
        let before = self.memory.mappings.range(..end).next_back();
        if before.is_none_or(|(&from, mapping)| from + mapping.bytes <= address) {
            let reserved = self.memory.reservations.range(..=address).next_back();
            let reserved = reserved.is_some_and(|(&start, &length)| end <= start + length);
            return if reserved { Ok(()) } else { Err(INVALID) };
        }
        for start in self.whole_mappings(address, bytes).ok_or(INVALID)? {
            self.end_addresses(start, Ending::Unmap, false)?;
            let Some(mapping) = self.memory.mappings.remove(&start) else { continue };
            self.memory.drop_backing(mapping.backing);
            if let MappingKind::Virtual { handle, .. } = mapping.kind {
                if let Ok(physical) = self.physical.get_mut(handle) {
                    physical.mappings -= 1;
                }
                self.drop_physical_if_unused(handle);
            }
        }
        Ok(())
    }
}
