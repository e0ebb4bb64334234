//! The driver and its devices.

use cuda_sys::{CUdevice_attribute, Table};

use crate::context::{Context, ContextCore};
use crate::driver::{Calls, DeviceHandle, DriverContext};
use crate::error::{DriverError, Error};
use crate::observe::{Observer, Watch};
use crate::order::Registry;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, OnceLock, Ordering, Weak, lock};

/// A driver: the installed one, or a simulated one. Clones are the same driver. `Send`, `Sync`.
#[derive(Debug, Clone)]
pub struct Driver {
    inner: Arc<DriverInner>,
}

#[derive(Debug)]
struct DriverInner {
    calls: Calls,
    registry: Arc<Registry>,
    contexts: Mutex<Vec<Weak<ContextCore>>>,
    watch: Watch,
    next_id: AtomicU64,
}

impl Drop for DriverInner {
    /// Nobody is left who would come by and end what ended in host functions.
    fn drop(&mut self) {
        self.calls.parked().end();
    }
}

/// Forbids calls that may wait for running work; see [`Driver::forbid_blocking`].
#[derive(Debug)]
pub struct NoBlocking {
    count: Arc<AtomicUsize>,
}

impl Drop for NoBlocking {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Ids that we give where the driver has none count from here.
const OWN_IDS: u64 = 1 << 63;

impl Driver {
    /// Opens the installed driver; once it succeeded, gives the same one every time.
    ///
    /// # Errors
    /// There is no driver, it lacks a required entry point, or it does not start.
    pub fn load() -> Result<Self, Error> {
        static LOADED: OnceLock<Driver> = OnceLock::new();
        if let Some(driver) = LOADED.get() {
            return Ok(driver.clone());
        }
        let driver = Self::from_table(cuda_sys::load()?)?;
        Ok(LOADED.get_or_init(|| driver).clone())
    }

    /// Starts the driver behind `table`. Two drivers from one table know nothing of each other's
    /// streams.
    ///
    /// # Errors
    /// The driver does not start.
    pub fn from_table(table: Arc<Table>) -> Result<Self, Error> {
        Self::watched(table, None)
    }

    /// Opens the installed driver anew, with an observer of everything that happens on its streams.
    ///
    /// This is another driver than the one that [`Driver::load`] gives: the two know nothing of
    /// each other's streams, so a program uses one of them.
    ///
    /// # Errors
    /// As for [`Driver::load`].
    pub fn load_observed(observer: Arc<dyn Observer>) -> Result<Self, Error> {
        Self::from_table_observed(cuda_sys::load()?, observer)
    }

    /// As [`Driver::from_table`], with an observer of everything that happens on its streams.
    ///
    /// # Errors
    /// The driver does not start.
    pub fn from_table_observed(
        table: Arc<Table>,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, Error> {
        Self::watched(table, Some(observer))
    }

    fn watched(table: Arc<Table>, observer: Option<Arc<dyn Observer>>) -> Result<Self, Error> {
        let calls = Calls::init(table)?;
        Ok(Self {
            inner: Arc::new(DriverInner {
                calls,
                registry: Arc::new(Registry::new()),
                contexts: Mutex::default(),
                watch: Watch::new(observer),
                next_id: AtomicU64::new(OWN_IDS),
            }),
        })
    }

    /// Until the guard is dropped, nothing here makes a call by its own choice that may wait for
    /// running work: no cached memory is given back, no host waits for the device on behalf of a
    /// request or a destructor. For the time between two launches that wait for each other on the
    /// device, such as the two halves of a collective on two devices: a free in between may hang.
    ///
    /// A request that would need such a call fails for want of memory instead. Memory of
    /// `cuMemAlloc` and pinned memory that is dropped meanwhile is freed by a later call, and so is
    /// that of an allocator that ends meanwhile ([`Context::leave`]). What the program itself asks
    /// for by name, such as `synchronize`, is done. Guards add up, over all threads.
    #[must_use = "blocking calls are allowed again when the guard is dropped"]
    pub fn forbid_blocking(&self) -> NoBlocking {
        let count = Arc::clone(self.inner.calls.forbidden());
        count.fetch_add(1, Ordering::AcqRel);
        NoBlocking { count }
    }

    /// The CUDA version the driver is for, as `1000 * major + 10 * minor`, if it told one.
    #[must_use]
    pub fn version(&self) -> Option<u32> {
        self.inner.calls.table().driver_version()
    }

    /// What is known about the streams of this driver.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.inner.registry
    }

    /// How many devices there are.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn device_count(&self) -> Result<u32, Error> {
        Ok(self.inner.calls.device_count()?)
    }

    /// The device with this number, counted from zero.
    ///
    /// # Errors
    /// There is no such device.
    pub fn device(&self, ordinal: u32) -> Result<Device, Error> {
        let handle = self.inner.calls.device(ordinal)?;
        Ok(Device { driver: self.clone(), handle })
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.inner.calls
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.inner.watch
    }

    pub(crate) fn fresh_id(&self) -> u64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Every context that is open, borrowed or owned.
    pub(crate) fn contexts(&self) -> Vec<Context> {
        let mut contexts = lock(&self.inner.contexts);
        contexts.retain(|context| 0 < context.strong_count());
        contexts.iter().filter_map(Weak::upgrade).map(Context::from_core).collect()
    }

    /// The context with this id if it is open; else makes it known, from `make`.
    pub(crate) fn adopt(&self, id: u64, make: impl FnOnce() -> ContextCore) -> Context {
        let mut contexts = lock(&self.inner.contexts);
        contexts.retain(|context| 0 < context.strong_count());
        let open = contexts.iter().filter_map(Weak::upgrade).find(|context| context.id() == id);
        if let Some(core) = open {
            drop(contexts);
            return Context::from_core(core);
        }
        let core = Arc::new(make());
        contexts.push(Arc::downgrade(&core));
        drop(contexts);
        Context::from_core(core)
    }
}

/// One device of a driver. `Send`, `Sync`.
#[derive(Debug, Clone)]
pub struct Device {
    driver: Driver,
    handle: DeviceHandle,
}

impl Device {
    pub(crate) fn of(driver: &Driver, context: &DriverContext) -> Self {
        Self { driver: driver.clone(), handle: context.device() }
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The device's number, counted from zero.
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.handle.ordinal()
    }

    pub(crate) fn handle(&self) -> DeviceHandle {
        self.handle
    }

    /// The device's name.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn name(&self) -> Result<String, Error> {
        Ok(self.driver.calls().device_name(self.handle)?)
    }

    /// All memory of the device.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn total_bytes(&self) -> Result<u64, Error> {
        Ok(self.driver.calls().device_total_bytes(self.handle)?)
    }

    /// One attribute, in the driver's own numbers.
    ///
    /// # Errors
    /// The driver's answer; an old driver does not know a new attribute.
    pub fn attribute(&self, attribute: CUdevice_attribute) -> Result<i32, DriverError> {
        self.driver.calls().device_attribute(self.handle, attribute)
    }

    /// Whether addresses and physical memory can be had apart: the device says so, and the driver
    /// has every call for it.
    #[must_use]
    pub fn has_virtual_memory(&self) -> bool {
        let table = self.driver.calls().table();
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
        self.attribute(attribute).is_ok_and(|value| value != 0)
            && table.mem_address_reserve().is_ok()
            && table.mem_address_free().is_ok()
            && table.mem_create().is_ok()
            && table.mem_release().is_ok()
            && table.mem_map().is_ok()
            && table.mem_unmap().is_ok()
            && table.mem_set_access().is_ok()
            && table.mem_get_allocation_granularity().is_ok()
    }

    /// The device's primary context, which the runtime API and most libraries use too.
    ///
    /// Given again while it is open, it is the same context.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn primary_context(&self) -> Result<Context, Error> {
        Context::primary(self)
    }
}
