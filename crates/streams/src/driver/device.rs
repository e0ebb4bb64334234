//! The driver before there is a context: start, version, devices.

use std::ffi::{c_char, c_int};

use cuda_sys::{CUdevice, CUdevice_attribute, Table};

use super::{Parked, check, device_size};
use crate::error::{DriverError, Error};
use crate::sync::{Arc, AtomicUsize};

/// An initialised driver.
#[derive(Debug, Clone)]
pub(crate) struct Calls {
    table: Arc<Table>,
    /// How many guards forbid calls that wait for running work.
    forbidden: Arc<AtomicUsize>,
    /// What ended in host functions.
    parked: Arc<Parked>,
}

/// A device the driver has named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceHandle {
    pub(super) raw: CUdevice,
}

impl Calls {
    pub(crate) fn init(table: Arc<Table>) -> Result<Self, DriverError> {
        // SAFETY: `cuInit` may be called at any time and any number of times.
        let code = unsafe { table.init()(0) };
        check("cuInit", code)?;
        super::fork::watch();
        Ok(Self { table, forbidden: Arc::default(), parked: Arc::new(Parked::new()) })
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// How many guards forbid calls that wait for running work.
    pub(crate) fn forbidden(&self) -> &Arc<AtomicUsize> {
        &self.forbidden
    }

    /// What ended in host functions.
    pub(crate) fn parked(&self) -> &Arc<Parked> {
        &self.parked
    }

    pub(crate) fn device_count(&self) -> Result<u32, DriverError> {
        let mut count: c_int = 0;
        // SAFETY: the driver is initialised, and the result is ours to write.
        let code = unsafe { self.table.device_get_count()(&raw mut count) };
        check("cuDeviceGetCount", code)?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    pub(crate) fn device(&self, ordinal: u32) -> Result<DeviceHandle, Error> {
        let count = self.device_count()?;
        let missing = Error::NoDevice { ordinal, count };
        if count <= ordinal {
            return Err(missing);
        }
        let ordinal = c_int::try_from(ordinal).map_err(|_| missing)?;
        let mut raw: CUdevice = 0;
        // SAFETY: the driver is initialised, and the result is ours to write.
        let code = unsafe { self.table.device_get()(&raw mut raw, ordinal) };
        check("cuDeviceGet", code)?;
        Ok(DeviceHandle { raw })
    }

    pub(crate) fn device_name(&self, device: DeviceHandle) -> Result<String, DriverError> {
        let mut text: [c_char; 256] = [0; 256];
        // SAFETY: the buffer is ours and as long as said; the driver ends the text inside it.
        let code = unsafe { self.table.device_get_name()(text.as_mut_ptr(), 256, device.raw) };
        check("cuDeviceGetName", code)?;
        let bytes: Vec<u8> =
            text.iter().map(|&c| c.to_ne_bytes()[0]).take_while(|&byte| byte != 0).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn device_total_bytes(&self, device: DeviceHandle) -> Result<u64, DriverError> {
        let mut bytes = 0;
        // SAFETY: the result is ours to write.
        let code = unsafe { self.table.device_total_mem()(&raw mut bytes, device.raw) };
        check("cuDeviceTotalMem", code)?;
        Ok(device_size(bytes))
    }

    pub(crate) fn device_attribute(
        &self,
        device: DeviceHandle,
        attribute: CUdevice_attribute,
    ) -> Result<i32, DriverError> {
        let mut value: c_int = 0;
        // SAFETY: the result is ours to write; an unknown attribute is refused by the driver.
        let code =
            unsafe { self.table.device_get_attribute()(&raw mut value, attribute, device.raw) };
        check("cuDeviceGetAttribute", code)?;
        Ok(value)
    }
}

impl DeviceHandle {
    /// The device's number: the driver's handles are its ordinals.
    pub(crate) fn ordinal(self) -> u32 {
        u32::try_from(self.raw).unwrap_or(0)
    }
}
