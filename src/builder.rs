//! The one place that composes driver, device, source and allocator.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use allocator::{Allocator, Bound, Config, PlainSource, Policy, Source, SourceError, VmmSource};
use streams::{Context, Driver};

use crate::checking::Checking;
use crate::error::OpenError;
use crate::observers::{Observer, Observers};
use crate::recorder::{Clock, Destination, RecordSettings, Recorder};
use crate::runtime::{Origin, Runtime};
#[cfg(feature = "sim")]
use crate::simulation::Simulation;

/// Makes a source for a context; the way to memory of one's own.
type MakeSource = dyn Fn(&Context) -> Result<Arc<dyn Source>, SourceError> + Send + Sync;

/// The way memory arrives.
#[derive(Clone, Default)]
enum SourceChoice {
    /// VMM where the device has it, else plain.
    #[default]
    Best,
    Vmm,
    Plain,
    Custom(Arc<MakeSource>),
}

/// The settings of a [`Runtime`].
///
/// ```
/// # #[cfg(feature = "sim")] fn main() -> Result<(), wellspring::Error> {
/// use wellspring::cuda_sim::DeviceProfile;
/// use wellspring::{Builder, Policy, Simulation};
///
/// let runtime = Builder::new()
///     .policy(Policy::Deterministic)
///     .limit_bytes(4 << 30)
///     .plain_source()
///     .simulation(Simulation::of(DeviceProfile::h200()))
///     .simulated()?;
/// assert_eq!(runtime.allocator().source_name(), "plain");
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sim"))] fn main() {}
/// ```
#[derive(Clone, Default)]
#[must_use = "a builder does nothing until it opens a device"]
pub struct Builder {
    ordinal: u32,
    config: Config,
    source: SourceChoice,
    observers: Observers,
    checked: bool,
    record: RecordSettings,
    #[cfg(feature = "sim")]
    simulation: Simulation,
}

impl Builder {
    /// Device 0, the default settings, the best source the device has.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another device, counted from zero.
    pub fn device(mut self, ordinal: u32) -> Self {
        self.ordinal = ordinal;
        self
    }

    /// All settings of the allocator at once.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// What may decide between waiting, asking and growing.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.config = self.config.with_policy(policy);
        self
    }

    /// The most bytes that may be reserved of the device.
    pub fn limit_bytes(mut self, bytes: u64) -> Self {
        self.config = self.config.with_limit(bytes);
        self
    }

    /// Above this many bytes that were freed but are still in use, a stream is made to wait for
    /// them rather than that the allocator grows.
    pub fn pending_bytes_max(mut self, bytes: u64) -> Self {
        self.config = self.config.with_pending_max(bytes);
        self
    }

    /// A bound on what is in flight of each stream's memory, at which the host or the stream is
    /// held up.
    pub fn stream_bound(mut self, bound: Bound) -> Self {
        self.config = self.config.with_stream_bound(bound);
        self
    }

    /// The same bound on what is in flight of all memory together.
    pub fn pool_bound(mut self, bound: Bound) -> Self {
        self.config = self.config.with_pool_bound(bound);
        self
    }

    /// Memory that is mapped into reserved addresses: segments grow in place, and idle pages go
    /// back alone. The default where the device has it.
    pub fn vmm_source(mut self) -> Self {
        self.source = SourceChoice::Vmm;
        self
    }

    /// Memory of `cuMemAlloc`, which every device has.
    pub fn plain_source(mut self) -> Self {
        self.source = SourceChoice::Plain;
        self
    }

    /// Memory of your own.
    pub fn custom_source(
        mut self,
        make: impl Fn(&Context) -> Result<Arc<dyn Source>, SourceError> + Send + Sync + 'static,
    ) -> Self {
        self.source = SourceChoice::Custom(Arc::new(make));
        self
    }

    /// Somebody who is told of everything that happens on the streams and to the memory. Several
    /// are told in the order in which they were given. Without one, nothing is spent on it.
    ///
    /// An observed runtime opens the driver anew: what was opened before without its observers has
    /// no part in it. Of a context that is open already ([`Builder::open_in`]) only the memory is
    /// observed; its streams are if its driver was opened with an observer of its own.
    pub fn observer<O: Observer + 'static>(mut self, observer: &Arc<O>) -> Self {
        self.observers.add(observer);
        self
    }

    /// With the checker on: [`Runtime::checker`] gives it, and what it found. It watches everything
    /// that happens on the streams and to the memory, and slows the program down. The environment
    /// variable `WELLSPRING_CHECK` turns it on without this, see [`crate::CHECK_VARIABLE`].
    ///
    /// Not for [`Builder::open_in`], whose streams are not this runtime's.
    pub fn checked(mut self) -> Self {
        self.checked = true;
        self
    }

    /// Records what the runtime does to a stream trace at `path`, in place of what is there:
    /// operations, allocations, uses, records, waits, with their places in the source.
    ///
    /// The trace is complete when the last clone of the runtime is dropped, or by
    /// [`Runtime::finish_recording`]. Without this, the environment variable `WELLSPRING_RECORD`
    /// names the file ([`crate::RECORD_VARIABLE`]); further runtimes of the process record to files
    /// with `.2`, `.3` and so on behind that name.
    ///
    /// As for [`Builder::observer`], a recorded runtime opens the driver anew, and of a context
    /// that is open already only the memory is recorded.
    pub fn record_to(mut self, path: impl Into<PathBuf>) -> Self {
        self.record.path = Some(path.into());
        self
    }

    /// Records without device times: without a timing event behind each operation. Advice needs
    /// them.
    pub fn record_without_times(mut self) -> Self {
        self.record.without_times = true;
        self
    }

    /// The machine to make where a simulated device is opened.
    #[cfg(feature = "sim")]
    pub fn simulation(mut self, simulation: Simulation) -> Self {
        self.simulation = simulation;
        self
    }

    /// Opens the device of the installed driver.
    ///
    /// # Errors
    /// What is missing: the driver, an entry point of it, the device, or what the source needs.
    pub fn open(&self) -> Result<Runtime, OpenError> {
        let watch = self.watch(Clock::host())?;
        let loaded = match watch.observers.of_order() {
            None => Driver::load(),
            Some(observer) => Driver::load_observed(observer),
        };
        let driver = loaded.map_err(|cause| OpenError::from_driver(self.ordinal, 0, cause))?;
        self.open_driver(&driver, Origin::Gpu, watch)
    }

    /// Builds a runtime in a context that is open already, for example a borrowed one.
    ///
    /// # Errors
    /// What the source needs is missing, or the driver's answer.
    pub fn open_in(&self, context: &Context) -> Result<Runtime, OpenError> {
        let mut watch = Watch::of(&self.observers);
        if let Some(path) = &self.record.path {
            let destination = Destination::unnumbered(path);
            watch.add_recorder(Recorder::create(destination, Clock::host(), false)?);
        }
        self.compose(context, Origin::Gpu, watch)
    }

    /// Makes a simulated machine and opens its device.
    ///
    /// # Errors
    /// Too many simulated machines live in this process, or the profile lacks what the source
    /// needs.
    #[cfg(feature = "sim")]
    pub fn simulated(&self) -> Result<Runtime, OpenError> {
        let machine = self.simulation.build(self.ordinal)?;
        self.open_machine(&machine)
    }

    /// Opens a device of a simulated machine, and gives the machine the kernels of the crate
    /// `kernels`.
    ///
    /// # Errors
    /// The machine lacks the device, or what the source needs.
    #[cfg(feature = "sim")]
    pub fn open_machine(&self, machine: &cuda_sim::Machine) -> Result<Runtime, OpenError> {
        self.open_simulated(machine, None)
    }

    /// Opens the device of the installed driver; if that fails, a simulated one.
    /// [`Runtime::describe`] says which, and [`Runtime::fallback_reason`] why.
    ///
    /// # Errors
    /// As for [`Builder::simulated`].
    #[cfg(feature = "sim")]
    pub fn open_or_simulated(&self) -> Result<Runtime, OpenError> {
        match self.open() {
            Ok(runtime) => Ok(runtime),
            Err(reason) => {
                let machine = self.simulation.build(self.ordinal)?;
                self.open_simulated(&machine, Some(reason))
            }
        }
    }

    #[cfg(feature = "sim")]
    fn open_simulated(
        &self,
        machine: &cuda_sim::Machine,
        reason: Option<OpenError>,
    ) -> Result<Runtime, OpenError> {
        kernels::simulated::register(machine);
        let watch = self.watch(Clock::of_machine(machine))?;
        let opened = match watch.observers.of_order() {
            None => Driver::from_table(machine.table()),
            Some(observer) => Driver::from_table_observed(machine.table(), observer),
        };
        let driver = opened.map_err(|cause| OpenError::from_driver(self.ordinal, 0, cause))?;
        self.open_driver(&driver, Origin::Simulated { machine: machine.clone(), reason }, watch)
    }

    /// Everybody who is to be told: the observers, the checker and the recorder, if they are
    /// wanted.
    fn watch(&self, clock: Clock) -> Result<Watch, OpenError> {
        let mut watch = Watch::of(&self.observers);
        watch.checking = Checking::wanted(self.checked);
        if let Some(checking) = &watch.checking {
            watch.observers.add(checking.checker());
        }
        if let Some(destination) = self.record.file() {
            let wants_times = !self.record.without_times;
            watch.add_recorder(Recorder::create(destination, clock, wants_times)?);
        }
        Ok(watch)
    }

    fn open_driver(
        &self,
        driver: &Driver,
        origin: Origin,
        watch: Watch,
    ) -> Result<Runtime, OpenError> {
        let ordinal = self.ordinal;
        let failed = |count| move |cause| OpenError::from_driver(ordinal, count, cause);
        let count = driver.device_count().map_err(failed(0))?;
        if count <= ordinal {
            return Err(OpenError::NoDevice { ordinal, count });
        }
        let device = driver.device(ordinal).map_err(failed(count))?;
        let context = device.primary_context().map_err(failed(count))?;
        self.compose(&context, origin, watch)
    }

    fn compose(
        &self,
        context: &Context,
        origin: Origin,
        watch: Watch,
    ) -> Result<Runtime, OpenError> {
        let allocator = self.allocator(context, &watch)?;
        let ordinal = context.device().ordinal();
        Runtime::assemble(allocator, origin, watch)
            .map_err(|cause| OpenError::Driver { ordinal, cause })
    }

    fn allocator(&self, context: &Context, watch: &Watch) -> Result<Allocator, OpenError> {
        let ordinal = context.device().ordinal();
        let of_driver = |cause| OpenError::Driver { ordinal, cause };
        let config = self.config.clone();
        let source: Arc<dyn Source> = match &self.source {
            SourceChoice::Best => {
                return Ok(match watch.observers.of_memory() {
                    None => Allocator::new(context, config)?,
                    Some(observer) => Allocator::new_observed(context, config, observer)?,
                });
            }
            SourceChoice::Plain => Arc::new(PlainSource::new(context)),
            SourceChoice::Vmm => {
                let vmm = VmmSource::new(context).map_err(of_driver)?;
                Arc::new(vmm.ok_or(OpenError::NoVirtualMemory { ordinal })?)
            }
            SourceChoice::Custom(make) => {
                make(context).map_err(|error| OpenError::from_source(ordinal, error))?
            }
        };
        Ok(match watch.observers.of_memory() {
            None => Allocator::with_source(context, config, source)?,
            Some(observer) => Allocator::with_source_observed(context, config, source, observer)?,
        })
    }
}

/// Who is told what one runtime does.
pub(crate) struct Watch {
    observers: Observers,
    pub(crate) checking: Option<Checking>,
    pub(crate) recorder: Option<Arc<Recorder>>,
}

impl Watch {
    fn of(observers: &Observers) -> Self {
        Self { observers: observers.clone(), checking: None, recorder: None }
    }

    fn add_recorder(&mut self, recorder: Recorder) {
        let recorder = Arc::new(recorder);
        self.observers.add(&recorder);
        self.recorder = Some(recorder);
    }
}

impl fmt::Debug for SourceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Best => "best",
            Self::Vmm => "vmm",
            Self::Plain => "plain",
            Self::Custom(_) => "custom",
        })
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("ordinal", &self.ordinal)
            .field("config", &self.config)
            .field("source", &self.source)
            .field("observers", &self.observers)
            .field("record", &self.record)
            .finish()
    }
}
