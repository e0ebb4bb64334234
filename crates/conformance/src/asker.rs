//! Asks on behalf of one case: makes the usual objects, and announces questions and answers.

use std::ffi::{CStr, CString};
use std::fmt;

use cuda_sys::{CUdevice, CUevent_flags, CUresult, CUstream_flags};

use crate::driver::{Context, Driver, Event, Function, Module, Stream};
use crate::environment::{Environment, Progress};
use crate::transcript::{Answer, HAZARD};

/// One case at work.
pub(crate) struct Asker<'place> {
    pub(crate) environment: Environment<'place>,
    pub(crate) driver: Driver,
    pub(crate) group: &'static str,
    pub(crate) device: CUdevice,
    pub(crate) context: Context,
    pub(crate) module: Module,
    pub(crate) kernels: Kernels,
}

/// The kernels that probes launch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kernels {
    pub(crate) nop: Function,
    pub(crate) spin: Function,
    pub(crate) put: Function,
    pub(crate) get: Function,
    pub(crate) write_bad: Function,
}

impl<'place> Asker<'place> {
    /// An asker of a driver that nobody has called yet.
    pub(crate) fn new(environment: &Environment<'place>, group: &'static str) -> Self {
        Self {
            environment: *environment,
            driver: Driver::new(environment.table),
            group,
            device: 0,
            context: Context::default(),
            module: Module::default(),
            kernels: Kernels::default(),
        }
    }

    /// Makes the primary context of device 0 current, loads the kernels and warms the device up.
    /// If that fails, the failure is announced as the answer to "set up" and `false` comes back.
    pub(crate) fn set_up(&mut self) -> bool {
        match self.try_set_up() {
            Ok(()) => true,
            Err((call, code)) => {
                let answer = format!("{call} answered {}", self.name(code));
                self.text("set up", answer);
                false
            }
        }
    }

    fn try_set_up(&mut self) -> Result<(), (&'static str, CUresult)> {
        let driver = self.driver.clone();
        let done = |call, code| match code {
            CUresult::CUDA_SUCCESS => Ok(()),
            failed => Err((call, failed)),
        };
        done("cuInit", driver.init(0))?;
        done("cuDeviceGet", driver.device_get(&mut self.device, 0))?;
        let retained = driver.primary_retain(&mut self.context, self.device);
        done("cuDevicePrimaryCtxRetain", retained)?;
        done("cuCtxSetCurrent", driver.ctx_set_current(self.context))?;
        let text = CString::new(self.environment.ptx).expect("PTX is text without zero bytes");
        done("cuModuleLoadData", driver.module_load(&mut self.module, &text))?;
        let (module, kernels) = (self.module, &mut self.kernels);
        for (function, name) in [
            (&mut kernels.nop, c"nop"),
            (&mut kernels.spin, c"spin"),
            (&mut kernels.put, c"put"),
            (&mut kernels.get, c"get"),
            (&mut kernels.write_bad, c"write_bad"),
        ] {
            done("cuModuleGetFunction", driver.module_get_function(function, module, name))?;
        }
        done("cuLaunchKernel of nop", self.nop(Stream::NULL))?;
        done("cuLaunchKernel of spin", self.spin(Stream::NULL, 1_000))?;
        done("cuCtxSynchronize", driver.ctx_synchronize())
    }

    /// Answers `probe` with the name of a result.
    pub(crate) fn code(&self, probe: &str, code: CUresult) {
        self.text(probe, self.name(code));
    }

    /// Answers `probe`.
    pub(crate) fn text(&self, probe: &str, answer: impl fmt::Display) {
        let (group, probe) = (self.group.to_owned(), probe.to_owned());
        let answer = Answer { group, probe, answer: answer.to_string() };
        (self.environment.announce)(Progress::Answered(&answer));
    }

    /// Asks what the real driver does not survive: a hazard is the answer if one was reported.
    pub(crate) fn fatal(&self, probe: &str, call: impl FnOnce() -> CUresult) {
        (self.environment.hazard_seen)();
        (self.environment.announce)(Progress::Asking { group: self.group, probe });
        let code = call();
        if (self.environment.hazard_seen)() {
            self.text(probe, HAZARD);
        } else {
            self.code(probe, code);
        }
    }

    /// The name of a result, without the prefix that all names have.
    pub(crate) fn name(&self, code: CUresult) -> String {
        let name = self.driver.name_of(code);
        let bare = name.strip_prefix("CUDA_ERROR_").or_else(|| name.strip_prefix("CUDA_"));
        bare.unwrap_or(&name).to_owned()
    }

    /// A kernel of the module; null if it has none of that name.
    pub(crate) fn kernel(&self, name: &CStr) -> Function {
        let mut function = Function::default();
        self.driver.module_get_function(&mut function, self.module, name);
        function
    }

    /// A new non-blocking stream; null if the driver gives none.
    pub(crate) fn stream(&self) -> Stream {
        new_stream(&self.driver)
    }

    /// A new stream that is ordered with the legacy stream.
    pub(crate) fn blocking_stream(&self) -> Stream {
        let mut stream = Stream::NULL;
        self.driver.stream_create(&mut stream, CUstream_flags::CU_STREAM_DEFAULT.0);
        stream
    }

    /// A new event without timing; null if the driver gives none.
    pub(crate) fn event(&self) -> Event {
        new_event(&self.driver)
    }

    /// A new event with timing.
    pub(crate) fn timing_event(&self) -> Event {
        let mut event = Event::default();
        self.driver.event_create(&mut event, CUevent_flags::CU_EVENT_DEFAULT.0);
        event
    }

    pub(crate) fn nop(&self, stream: Stream) -> CUresult {
        self.driver.launch(self.kernels.nop, stream, &[])
    }

    pub(crate) fn spin(&self, stream: Stream, nanoseconds: u64) -> CUresult {
        self.driver.launch(self.kernels.spin, stream, &[nanoseconds])
    }

    pub(crate) fn pass_milliseconds(&self, milliseconds: u64) {
        (self.environment.pass_time)(milliseconds * MILLISECOND);
    }
}

/// A millisecond in nanoseconds.
pub(crate) const MILLISECOND: u64 = 1_000_000;

/// A new non-blocking stream; null if the driver gives none.
pub(crate) fn new_stream(driver: &Driver) -> Stream {
    let mut stream = Stream::NULL;
    driver.stream_create(&mut stream, CUstream_flags::CU_STREAM_NON_BLOCKING.0);
    stream
}

/// A new event without timing; null if the driver gives none.
pub(crate) fn new_event(driver: &Driver) -> Event {
    let mut event = Event::default();
    driver.event_create(&mut event, CUevent_flags::CU_EVENT_DISABLE_TIMING.0);
    event
}
