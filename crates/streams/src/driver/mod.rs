//! One call, one `Result`, one owner: the only place here that calls the driver's table.
//!
//! Every type owns its handle and keeps its context alive, so no call of this module can reach a
//! destroyed object, and its functions are safe to call. What is *not* promised here is order: an
//! owner of device memory may be dropped while queued work still touches it. That work then fails
//! on the device; who drops it answers for that.
//!
//! A destructor makes no call when its context has failed, counts an error nobody can be told of,
//! and inside a host function puts its handle aside until the next call from elsewhere.

#![allow(unsafe_code, reason = "this folder is where the driver is called")]

mod borrow;
mod context;
mod copy;
mod device;
mod event;
mod fork;
mod graph;
mod host;
mod host_words;
mod launch;
mod memory;
mod owner;
mod parked;
mod stream;
mod vmm;

pub use borrow::BorrowPromises;
pub(crate) use context::{Current, DriverContext};
pub(crate) use device::{Calls, DeviceHandle};
pub(crate) use event::{DriverEvent, EventKind};
pub use fork::Generation;
pub(crate) use graph::{DriverExec, DriverGraph};
pub(crate) use host::HostFunction;
pub use host::in_host_function;
pub(crate) use host_words::WordOnDevice;
pub use launch::ParameterValue;
pub(crate) use launch::{DriverFunction, DriverModule, Shape};
pub(crate) use memory::{DriverHostMemory, DriverMemory};
pub(crate) use owner::OpenUses;
pub use owner::{DeviceOwner, RawSpan};
pub(crate) use parked::Parked;
pub(crate) use stream::{DriverStream, Special};
pub(crate) use vmm::{DriverPhysical, DriverRange, granularity};

use cuda_sys::CUresult;

use crate::error::{Code, DriverError};

/// A driver handle. Handles name objects of the process, and the driver locks for itself.
#[derive(Debug, Clone, Copy)]
struct Handle<T>(T);

// SAFETY: the driver's handles are not tied to a thread, and the driver's calls are thread-safe;
// the pointer inside is never followed by us.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above; a shared handle gives nothing but its copy.
unsafe impl<T> Sync for Handle<T> {}

impl<T: Copy> Handle<T> {
    /// The handle itself; a method so that closures take hold of the whole.
    fn get(self) -> T {
        self.0
    }
}

/// The driver's answer as a `Result`.
fn check(call: &'static str, code: CUresult) -> Result<(), DriverError> {
    if code == CUresult::CUDA_SUCCESS {
        Ok(())
    } else {
        Err(DriverError { call, code: Code::of(code) })
    }
}

/// A size as the host counts it. What does not fit is refused by the driver as too large.
fn host_size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// A size as the device counts it.
fn device_size(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
