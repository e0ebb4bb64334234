//! An opened device with its allocator: a GPU, or a simulated one that says so.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use allocator::{Allocator, Config, Pool, Stats};
use checker::Checker;
use streams::{Context, Device, Driver, Module, Stream, StreamOptions};

use crate::builder::Builder;
use crate::builder::Watch;
use crate::checking::Checking;
use crate::error::{Error, OpenError};
use crate::recorder::Recorder;

/// Opens GPU 0 with the default settings.
///
/// # Errors
/// What is missing: the driver, an entry point of it, or the device.
///
/// ```no_run
/// let runtime = wellspring::open()?;
/// let stream = runtime.create_stream()?;
/// # Ok::<(), wellspring::Error>(())
/// ```
pub fn open() -> Result<Runtime, OpenError> {
    Builder::new().open()
}

/// Opens a GPU, counted from zero, with the default settings.
///
/// # Errors
/// What is missing: the driver, an entry point of it, or the device.
pub fn open_device(ordinal: u32) -> Result<Runtime, OpenError> {
    Builder::new().device(ordinal).open()
}

/// Makes a simulated machine and opens its device with the default settings.
///
/// # Errors
/// Too many simulated machines live in this process.
#[cfg(feature = "sim")]
pub fn simulated(simulation: crate::Simulation) -> Result<Runtime, OpenError> {
    Builder::new().simulation(simulation).simulated()
}

/// Opens GPU 0; if that fails, a simulated H200. [`Runtime::describe`] says which.
///
/// # Errors
/// There is no GPU, and too many simulated machines live in this process.
///
/// ```
/// let runtime = wellspring::open_or_simulated()?;
/// println!("{}", runtime.describe());
/// # Ok::<(), wellspring::OpenError>(())
/// ```
#[cfg(feature = "sim")]
pub fn open_or_simulated() -> Result<Runtime, OpenError> {
    Builder::new().open_or_simulated()
}

/// Where a runtime's device came from.
#[derive(Debug)]
pub(crate) enum Origin {
    Gpu,
    #[cfg(feature = "sim")]
    Simulated {
        machine: cuda_sim::Machine,
        /// Why it is not a GPU, where one was tried first.
        reason: Option<OpenError>,
    },
}

/// What kind of device a runtime has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// A device of the installed driver.
    Gpu,
    /// A device in software.
    Simulated,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gpu => "GPU",
            Self::Simulated => "simulated device",
        })
    }
}

/// An opened device, its primary context, and the allocator of its memory.
///
/// Cheap to clone; clones share everything. `Send` and `Sync`. Buffers and streams keep their
/// context alive; a simulated machine ends with the last clone of its runtime.
/// Dropping the last clone **may block**: for replays of graphs that were destroyed under way, and,
/// when no block is left, for the streams that used the memory.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// let runtime = wellspring::open_or_simulated()?;
/// let stream = runtime.create_stream()?;
/// let block = runtime.allocator().allocate(&stream, 3 << 20).map_err(wellspring::Error::from)?;
/// assert_eq!(runtime.stats().allocated_bytes.current, 3 << 20);
/// drop(block);
/// assert_eq!(runtime.stats().allocated_bytes.current, 0);
/// # }
/// # Ok::<(), wellspring::Error>(())
/// ```
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    allocator: Allocator,
    device_name: String,
    recorder: Option<Arc<Recorder>>,
    /// After the allocator: what happens at its end is checked too.
    checking: Option<Checking>,
    /// Last: a simulated machine goes after the context that lies in it.
    origin: Origin,
}

impl Drop for Inner {
    /// A destroyed graph holds blocks until its last replay is done; blocks keep the allocator,
    /// and that the context. So the end waits for such replays; what cannot be waited for keeps
    /// all of it alive.
    fn drop(&mut self) {
        let _still_held = self.allocator.context().finish_destroyed_graphs();
        // Nobody is left to be told why a trace could not be finished.
        let _written = self.finish_recording();
    }
}

impl Inner {
    fn finish_recording(&self) -> io::Result<()> {
        let Some(recorder) = &self.recorder else { return Ok(()) };
        self.allocator.context().tell_times();
        recorder.finish(&self.allocator.stats())
    }
}

impl Runtime {
    pub(crate) fn assemble(
        allocator: Allocator,
        origin: Origin,
        watch: Watch,
    ) -> Result<Self, streams::Error> {
        let Watch { recorder, checking, .. } = watch;
        let checking = checking.map(Checking::opened);
        let device_name = allocator.context().device().name()?;
        if let Some(recorder) = &recorder {
            recorder.opened();
            recorder.set("device", &device_name);
            recorder.set("policy", &format!("{:?}", allocator.config().policy));
            recorder.set("source", allocator.source_name());
        }
        Ok(Self { inner: Arc::new(Inner { allocator, device_name, recorder, checking, origin }) })
    }

    /// Where the runtime records itself, if it does: see [`Builder::record_to`].
    #[must_use]
    pub fn recording_path(&self) -> Option<&Path> {
        self.inner.recorder.as_ref().map(|recorder| recorder.path())
    }

    /// Ends the trace that the runtime records, if it does: what happens from now on is not in it.
    /// A drop of the last clone does the same, but cannot say what went wrong. Operations that have
    /// not ended by then have no device time in it: synchronize before.
    ///
    /// # Errors
    /// The trace could not be written; the operating system's reason, whenever it came.
    pub fn finish_recording(&self) -> io::Result<()> {
        self.inner.finish_recording()
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.context().driver()
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.context().device()
    }

    /// The device's primary context, or the one the runtime was built in.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.inner.allocator.context()
    }

    /// The allocator of the device's memory.
    #[must_use]
    pub fn allocator(&self) -> &Allocator {
        &self.inner.allocator
    }

    /// The allocator's figures now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.allocator.stats()
    }

    /// Learns how far the device came, for idle phases, without waiting for it; returns the bytes
    /// that came free. See [`Allocator::poll`].
    pub fn poll(&self) -> u64 {
        self.inner.allocator.poll()
    }

    /// A private pool of the device's memory, with a policy, limit and figures of its own. See
    /// [`Allocator::create_pool`], [`DeviceBuffer::new_in`](crate::DeviceBuffer::new_in) and
    /// [`CurrentPool`](crate::CurrentPool). No driver call.
    #[must_use = "a pool that is not kept goes at once"]
    pub fn create_pool(&self, config: Config) -> Pool {
        self.inner.allocator.create_pool(config)
    }

    /// The checker, if it is on: [`Builder::checked`], or the environment variable.
    #[must_use]
    pub fn checker(&self) -> Option<&Arc<Checker>> {
        self.inner.checking.as_ref().map(Checking::checker)
    }

    /// A new stream, which runs beside all others.
    ///
    /// # Errors
    /// The driver's answer, or that too many streams are alive.
    #[track_caller]
    pub fn create_stream(&self) -> Result<Stream, Error> {
        self.create_stream_with(StreamOptions::default())
    }

    /// A new stream with a priority, or other options.
    ///
    /// # Errors
    /// The driver's answer, or that too many streams are alive.
    #[track_caller]
    pub fn create_stream_with(&self, options: StreamOptions) -> Result<Stream, Error> {
        Ok(self.context().create_stream(options)?)
    }

    /// Loads a module of PTX text.
    ///
    /// Declaring a kernel, with what it reads and writes, is the `unsafe` step; launching it is
    /// safe, and counts as a use of every buffer it is given.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use wellspring::DeviceBuffer;
    /// use wellspring::launch::Writes;
    ///
    /// let runtime = wellspring::open_or_simulated()?;
    /// let stream = runtime.create_stream()?;
    /// let module = runtime.load_module(wellspring::kernels::PTX)?;
    /// // SAFETY: `fill_u32(out, count, value)` writes `count` words from `out` on, and the launch
    /// // below passes no more than the buffer has.
    /// let fill = unsafe { module.declare::<(Writes<u32>, u64, u32)>("fill_u32")? };
    /// let mut buffer = DeviceBuffer::<u32>::new(&runtime, &stream, 1000)?;
    /// let _queued = fill.launch(&stream, 4, 256, 0, (&mut buffer, 1000_u64, 7_u32))?;
    /// assert_eq!(buffer.to_vec(&stream)?, [7; 1000]);
    /// # }
    /// # Ok::<(), wellspring::Error>(())
    /// ```
    ///
    /// # Errors
    /// The driver's answer.
    pub fn load_module(&self, ptx: &str) -> Result<Module, Error> {
        Ok(Module::load(self.context(), ptx)?)
    }

    /// Blocks until everything submitted to any stream of the context is done.
    ///
    /// # Errors
    /// A stream of the context captures, or the driver's answer.
    #[track_caller]
    pub fn synchronize(&self) -> Result<(), Error> {
        Ok(self.context().synchronize()?)
    }

    /// Whether this is a GPU or a simulated device.
    #[must_use]
    pub fn device_kind(&self) -> DeviceKind {
        match self.inner.origin {
            Origin::Gpu => DeviceKind::Gpu,
            #[cfg(feature = "sim")]
            Origin::Simulated { .. } => DeviceKind::Simulated,
        }
    }

    /// The device's name, as its driver tells it.
    #[must_use]
    pub fn device_name(&self) -> &str {
        &self.inner.device_name
    }

    /// Why the device is simulated, where a GPU was tried first.
    #[must_use]
    pub fn fallback_reason(&self) -> Option<&OpenError> {
        match &self.inner.origin {
            Origin::Gpu => None,
            #[cfg(feature = "sim")]
            Origin::Simulated { reason, .. } => reason.as_ref(),
        }
    }

    /// One line that says what was opened.
    #[must_use]
    pub fn describe(&self) -> String {
        let kind = self.device_kind();
        let ordinal = self.device().ordinal();
        let source = self.inner.allocator.source_name();
        let mut line = format!("{kind} {ordinal}: {}", self.inner.device_name);
        if let Some(version) = self.driver().version() {
            line += &format!(", driver for CUDA {}.{}", version / 1000, version % 1000 / 10);
        }
        line += &format!(", source {source}");
        if let Some(reason) = self.fallback_reason() {
            line += &format!(" (no GPU was opened: {reason})");
        }
        line
    }

    /// The simulated machine, if this is one.
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn machine(&self) -> Option<&cuda_sim::Machine> {
        match &self.inner.origin {
            Origin::Gpu => None,
            Origin::Simulated { machine, .. } => Some(machine),
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("device", &self.describe()).finish_non_exhaustive()
    }
}
