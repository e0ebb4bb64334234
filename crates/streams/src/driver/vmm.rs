//! Addresses and physical memory apart: reserve, create, map, allow, unmap, release.

use cuda_sys::{
    CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationType,
    CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType,
};

use super::{DriverContext, device_size, host_size, in_host_function};
use crate::error::Error;
use crate::sync::Arc;

fn location(context: &DriverContext) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: context.device().raw,
    }
}

fn properties(context: &DriverContext) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: location(context),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: cuda_sys::CUmemAllocationProp_st__bindgen_ty_1::default(),
    }
}

/// Sizes of physical memory are multiples of this.
pub(crate) fn granularity(context: &DriverContext) -> Result<u64, Error> {
    context.ready()?;
    let _current = context.current()?;
    let call = context.table().mem_get_allocation_granularity()?;
    let properties = properties(context);
    let minimum = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    let mut bytes = 0;
    // SAFETY: the properties are whole, and the result is ours to write.
    let code = unsafe { call(&raw mut bytes, &raw const properties, minimum) };
    context.check("cuMemGetAllocationGranularity", code)?;
    Ok(device_size(bytes))
}

/// Physical memory of `cuMemCreate`.
#[derive(Debug)]
pub(crate) struct DriverPhysical {
    context: Arc<DriverContext>,
    handle: CUmemGenericAllocationHandle,
    bytes: u64,
    released: bool,
}

impl DriverPhysical {
    pub(crate) fn create(context: &Arc<DriverContext>, bytes: u64) -> Result<Self, Error> {
        context.ready()?;
        let call = context.table().mem_create()?;
        let _current = context.current()?;
        let _relaxed = context.relaxed()?;
        let properties = properties(context);
        let mut handle = 0;
        // SAFETY: the properties are whole, and the result is ours to write.
        let code = unsafe { call(&raw mut handle, host_size(bytes), &raw const properties, 0) };
        context.check("cuMemCreate", code)?;
        Ok(Self { context: Arc::clone(context), handle, bytes, released: false })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn release(mut self) -> Result<(), Error> {
        if in_host_function() {
            // The destructor puts it aside.
            return Ok(());
        }
        self.released = true;
        if self.context.first_error().is_some() {
            return Ok(());
        }
        self.context.ready()?;
        let _current = self.context.current()?;
        // SAFETY: the handle came from `cuMemCreate`, and `released` was false until now.
        let code = unsafe { self.context.table().mem_release()?(self.handle) };
        self.context.check("cuMemRelease", code)
    }
}

impl Drop for DriverPhysical {
    fn drop(&mut self) {
        if !self.released
            && let Ok(call) = self.context.table().mem_release()
        {
            let handle = self.handle;
            // SAFETY: the handle came from `cuMemCreate` and this was its only owner; mappings
            // of it keep the memory until they are unmapped.
            self.context.dispose(move |_| unsafe { call(handle) });
        }
    }
}

/// Addresses of `cuMemAddressReserve`.
#[derive(Debug)]
pub(crate) struct DriverRange {
    context: Arc<DriverContext>,
    start: CUdeviceptr,
    bytes: u64,
    freed: bool,
}

impl DriverRange {
    pub(crate) fn reserve(
        context: &Arc<DriverContext>,
        bytes: u64,
        alignment: u64,
    ) -> Result<Self, Error> {
        context.ready()?;
        let call = context.table().mem_address_reserve()?;
        let _current = context.current()?;
        let mut start = 0;
        // SAFETY: the result is ours to write; zero asks for any address.
        let code = unsafe { call(&raw mut start, host_size(bytes), host_size(alignment), 0, 0) };
        context.check("cuMemAddressReserve", code)?;
        Ok(Self { context: Arc::clone(context), start, bytes, freed: false })
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Maps all of `physical` at `offset`, which the caller has checked to lie inside.
    pub(crate) fn map(&self, offset: u64, physical: &DriverPhysical) -> Result<(), Error> {
        self.context.ready()?;
        let call = self.context.table().mem_map()?;
        let _current = self.context.current()?;
        let _relaxed = self.context.relaxed()?;
        let bytes = host_size(physical.bytes);
        // SAFETY: the range is reserved and the handle live; overlap is refused by the driver.
        let code = unsafe { call(self.start + offset, bytes, 0, physical.handle, 0) };
        self.context.check("cuMemMap", code)
    }

    /// Lets the context's own device read and write whole mappings.
    pub(crate) fn set_access(&self, offset: u64, bytes: u64) -> Result<(), Error> {
        self.context.ready()?;
        let call = self.context.table().mem_set_access()?;
        let _current = self.context.current()?;
        let _relaxed = self.context.relaxed()?;
        let access = CUmemAccessDesc {
            location: location(&self.context),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the range is reserved, and one description is there to read.
        let code = unsafe { call(self.start + offset, host_size(bytes), &raw const access, 1) };
        self.context.check("cuMemSetAccess", code)
    }

    /// Unmaps whole mappings, which the caller has checked to be there.
    pub(crate) fn unmap(&self, offset: u64, bytes: u64) -> Result<(), Error> {
        if self.context.first_error().is_some() {
            return Ok(());
        }
        self.context.ready()?;
        let call = self.context.table().mem_unmap()?;
        let _current = self.context.current()?;
        let _relaxed = self.context.relaxed()?;
        // SAFETY: the range is reserved, and mapped by the caller's check.
        let code = unsafe { call(self.start + offset, host_size(bytes)) };
        self.context.check("cuMemUnmap", code)
    }

    /// Unmaps what is left, silently: for destructors.
    pub(crate) fn discard(&self, offset: u64, bytes: u64) {
        if let Ok(call) = self.context.table().mem_unmap() {
            let start = self.start + offset;
            // SAFETY: the range is reserved, and mapped by the caller's check.
            self.context.dispose(move |_| unsafe { call(start, host_size(bytes)) });
        }
    }

    pub(crate) fn release(mut self) -> Result<(), Error> {
        if in_host_function() {
            // The destructor puts it aside.
            return Ok(());
        }
        self.freed = true;
        if self.context.first_error().is_some() {
            return Ok(());
        }
        self.context.ready()?;
        let _current = self.context.current()?;
        let call = self.context.table().mem_address_free()?;
        // SAFETY: the range came from `cuMemAddressReserve`, and `freed` was false until now.
        let code = unsafe { call(self.start, host_size(self.bytes)) };
        self.context.check("cuMemAddressFree", code)
    }
}

impl Drop for DriverRange {
    fn drop(&mut self) {
        if !self.freed
            && let Ok(call) = self.context.table().mem_address_free()
        {
            let (start, bytes) = (self.start, self.bytes);
            // SAFETY: the range came from `cuMemAddressReserve` and this was its only owner.
            self.context.dispose(move |_| unsafe { call(start, host_size(bytes)) });
        }
    }
}
