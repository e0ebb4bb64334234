//! The driver's calls as functions, for probes only: the one file of this crate with `unsafe`.
//!
//! The functions are not marked `unsafe`, although many probes ask what the driver must not be
//! asked. What makes that bearable: they are private to this crate, each case runs against a
//! driver that nothing else uses and that is thrown away afterwards, and every pointer that is
//! written through is checked by its type here. What a broken call does to the driver itself is
//! exactly the question.
//!
//! Handles are numbers, so that they can be copied, compared and used by another thread after
//! the driver has forgotten them. An entry point that the driver lacks answers `NOT_FOUND`.
#![expect(unsafe_code, reason = "a driver is asked through its function pointers")]

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use cuda_sys::{
    CUcontext, CUctx_st, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUevent_st, CUfunc_st,
    CUfunction, CUgraph, CUgraph_st, CUgraphExec, CUgraphExec_st, CUmemAccessDesc,
    CUmemAllocationProp, CUmemGenericAllocationHandle, CUmod_st, CUmodule, CUresult, CUstream,
    CUstream_st, CUstreamCaptureMode, CUstreamCaptureStatus, Table,
};

macro_rules! handles {
    ($($name:ident, $raw:ty, $pointee:ty;)*) => {$(
        /// A handle of the driver's, as a number; the default is the null handle.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub(crate) struct $name(usize);

        impl $name {
            fn raw(self) -> $raw {
                ptr::with_exposed_provenance_mut::<$pointee>(self.0)
            }

            /// Makes a call that gives a handle; the handle is what the call left there.
            fn given_by(&mut self, call: impl FnOnce(*mut $raw) -> CUresult) -> CUresult {
                let mut raw = self.raw();
                let code = call(&raw mut raw);
                self.0 = raw.expose_provenance();
                code
            }
        }
    )*};
}

handles! {
    Context, CUcontext, CUctx_st;
    Stream, CUstream, CUstream_st;
    Event, CUevent, CUevent_st;
    Module, CUmodule, CUmod_st;
    Function, CUfunction, CUfunc_st;
    Graph, CUgraph, CUgraph_st;
    Exec, CUgraphExec, CUgraphExec_st;
}

impl Stream {
    /// The null handle, which also means the legacy default stream.
    pub(crate) const NULL: Self = Self(0);
    /// The legacy default stream, by its own handle.
    pub(crate) const LEGACY: Self = Self(1);
    /// The calling thread's default stream.
    pub(crate) const PER_THREAD: Self = Self(2);
}

/// Pinned host memory, by its address.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pinned(usize);

impl Pinned {
    /// The address as a kernel takes it.
    pub(crate) fn address(self) -> u64 {
        u64::try_from(self.0).expect("addresses have at most 64 bits")
    }

    /// Writes the first word, which a kernel may be waiting for.
    pub(crate) fn set_word(self, value: u32) {
        let word = ptr::with_exposed_provenance_mut::<u32>(self.0);
        // SAFETY: probes write only what `mem_host_alloc` gave and nobody freed; a kernel that
        // reads it at the same time reads it as volatile.
        unsafe { word.write_volatile(value) }
    }

    /// Reads the first word, which a kernel may have written.
    pub(crate) fn word(self) -> u32 {
        let word = ptr::with_exposed_provenance::<u32>(self.0);
        // SAFETY: probes read only what `mem_host_alloc` gave and nobody freed, when the stream
        // that writes it has been synchronized.
        unsafe { word.read_volatile() }
    }
}

/// Calls an entry point, required or optional.
macro_rules! call {
    ($driver:ident.$entry:ident($($argument:expr),* $(,)?)) => {{
        let function = $driver.table.$entry();
        // SAFETY: handles and addresses may be wrong, which is what the probe asks; results are
        // written to places that the caller borrows for the call.
        unsafe { function($($argument),*) }
    }};
    ($driver:ident.$entry:ident?($($argument:expr),* $(,)?)) => {{
        match $driver.table.$entry() {
            // SAFETY: handles and addresses may be wrong, which is what the probe asks; results
            // are written to places that the caller borrows for the call.
            Ok(function) => unsafe { function($($argument),*) },
            Err(missing) => CUresult::from(missing),
        }
    }};
}

/// A driver that can be asked anything.
#[derive(Debug, Clone)]
pub(crate) struct Driver {
    table: Arc<Table>,
}

impl Driver {
    pub(crate) fn new(table: &Arc<Table>) -> Self {
        Self { table: Arc::clone(table) }
    }

    /// The driver's own name for a result.
    pub(crate) fn name_of(&self, code: CUresult) -> String {
        let mut name = ptr::null();
        let found = call!(self.get_error_name(code, &raw mut name));
        if found != CUresult::CUDA_SUCCESS || name.is_null() {
            return format!("code {}", code.0);
        }
        // SAFETY: the driver gave a text that ends with a zero byte and is never freed.
        let name = unsafe { CStr::from_ptr(name) };
        name.to_string_lossy().into_owned()
    }

    pub(crate) fn init(&self, flags: u32) -> CUresult {
        call!(self.init(flags))
    }
    pub(crate) fn device_get(&self, device: &mut CUdevice, ordinal: i32) -> CUresult {
        call!(self.device_get(device, ordinal))
    }
    pub(crate) fn device_get_count(&self, count: &mut i32) -> CUresult {
        call!(self.device_get_count(count))
    }
    pub(crate) fn device_get_attribute(
        &self,
        value: &mut i32,
        attribute: CUdevice_attribute,
        device: CUdevice,
    ) -> CUresult {
        call!(self.device_get_attribute(value, attribute, device))
    }

    pub(crate) fn primary_retain(&self, context: &mut Context, device: CUdevice) -> CUresult {
        context.given_by(|raw| call!(self.device_primary_ctx_retain(raw, device)))
    }
    pub(crate) fn primary_release(&self, device: CUdevice) -> CUresult {
        call!(self.device_primary_ctx_release(device))
    }
    pub(crate) fn primary_reset(&self, device: CUdevice) -> CUresult {
        call!(self.device_primary_ctx_reset(device))
    }
    pub(crate) fn primary_get_state(
        &self,
        device: CUdevice,
        flags: &mut c_uint,
        active: &mut c_int,
    ) -> CUresult {
        call!(self.device_primary_ctx_get_state(device, flags, active))
    }
    pub(crate) fn ctx_set_current(&self, context: Context) -> CUresult {
        call!(self.ctx_set_current(context.raw()))
    }
    pub(crate) fn ctx_get_current(&self, context: &mut Context) -> CUresult {
        context.given_by(|raw| call!(self.ctx_get_current(raw)))
    }
    pub(crate) fn ctx_synchronize(&self) -> CUresult {
        call!(self.ctx_synchronize())
    }
    pub(crate) fn priority_range(&self, least: &mut i32, greatest: &mut i32) -> CUresult {
        call!(self.ctx_get_stream_priority_range(least, greatest))
    }

    pub(crate) fn module_load(&self, module: &mut Module, text: &CStr) -> CUresult {
        module.given_by(|raw| call!(self.module_load_data(raw, text.as_ptr().cast())))
    }
    pub(crate) fn module_get_function(
        &self,
        function: &mut Function,
        module: Module,
        name: &CStr,
    ) -> CUresult {
        let (module, name) = (module.raw(), name.as_ptr());
        function.given_by(|raw| call!(self.module_get_function(raw, module, name)))
    }
    /// Launches one thread.
    pub(crate) fn launch(&self, kernel: Function, stream: Stream, arguments: &[u64]) -> CUresult {
        self.launch_many(kernel, [1, 1], stream, arguments)
    }
    /// Launches so many blocks of so many threads. Each argument is a word, of which the kernel
    /// takes as many of the low bytes as its parameter has.
    pub(crate) fn launch_many(
        &self,
        kernel: Function,
        [blocks, threads]: [u32; 2],
        stream: Stream,
        arguments: &[u64],
    ) -> CUresult {
        const { assert!(cfg!(target_endian = "little"), "a word begins with its low bytes") };
        let mut words = arguments.to_vec();
        let mut pointers: Vec<*mut c_void> =
            words.iter_mut().map(|word| ptr::from_mut(word).cast()).collect();
        let (kernel, stream, extra) = (kernel.raw(), stream.raw(), ptr::null_mut());
        // A kernel without parameters is given none: the driver must not look at an empty list.
        let pointers = if words.is_empty() { ptr::null_mut() } else { pointers.as_mut_ptr() };
        call!(self.launch_kernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, pointers, extra))
    }
    /// Queues a host function. What it captures is leaked if the function never runs.
    pub(crate) fn launch_host_function(
        &self,
        stream: Stream,
        function: impl FnOnce() + Send + 'static,
    ) -> CUresult {
        let function: HostFunction = Box::new(function);
        let user_data = Box::into_raw(Box::new(function)).cast();
        call!(self.launch_host_func(stream.raw(), Some(run_host_function), user_data))
    }

    pub(crate) fn stream_create(&self, stream: &mut Stream, flags: u32) -> CUresult {
        stream.given_by(|raw| call!(self.stream_create(raw, flags)))
    }
    pub(crate) fn stream_create_with_priority(
        &self,
        stream: &mut Stream,
        flags: u32,
        priority: i32,
    ) -> CUresult {
        stream.given_by(|raw| call!(self.stream_create_with_priority(raw, flags, priority)))
    }
    pub(crate) fn stream_destroy(&self, stream: Stream) -> CUresult {
        call!(self.stream_destroy(stream.raw()))
    }
    pub(crate) fn stream_query(&self, stream: Stream) -> CUresult {
        call!(self.stream_query(stream.raw()))
    }
    pub(crate) fn stream_synchronize(&self, stream: Stream) -> CUresult {
        call!(self.stream_synchronize(stream.raw()))
    }
    pub(crate) fn stream_wait_event(&self, stream: Stream, event: Event) -> CUresult {
        call!(self.stream_wait_event(stream.raw(), event.raw(), 0))
    }
    pub(crate) fn stream_get_id(&self, stream: Stream, id: &mut u64) -> CUresult {
        call!(self.stream_get_id?(stream.raw(), id))
    }
    pub(crate) fn stream_get_priority(&self, stream: Stream, priority: &mut i32) -> CUresult {
        call!(self.stream_get_priority(stream.raw(), priority))
    }
    pub(crate) fn stream_is_capturing(
        &self,
        stream: Stream,
        status: &mut CUstreamCaptureStatus,
    ) -> CUresult {
        call!(self.stream_is_capturing(stream.raw(), status))
    }
    pub(crate) fn begin_capture(&self, stream: Stream, mode: CUstreamCaptureMode) -> CUresult {
        call!(self.stream_begin_capture(stream.raw(), mode))
    }
    pub(crate) fn end_capture(&self, stream: Stream, graph: &mut Graph) -> CUresult {
        graph.given_by(|raw| call!(self.stream_end_capture(stream.raw(), raw)))
    }
    pub(crate) fn exchange_capture_mode(&self, mode: &mut CUstreamCaptureMode) -> CUresult {
        call!(self.thread_exchange_stream_capture_mode(mode))
    }

    pub(crate) fn event_create(&self, event: &mut Event, flags: u32) -> CUresult {
        event.given_by(|raw| call!(self.event_create(raw, flags)))
    }
    pub(crate) fn event_destroy(&self, event: Event) -> CUresult {
        call!(self.event_destroy(event.raw()))
    }
    pub(crate) fn event_record(&self, event: Event, stream: Stream) -> CUresult {
        call!(self.event_record(event.raw(), stream.raw()))
    }
    pub(crate) fn event_query(&self, event: Event) -> CUresult {
        call!(self.event_query(event.raw()))
    }
    pub(crate) fn event_synchronize(&self, event: Event) -> CUresult {
        call!(self.event_synchronize(event.raw()))
    }
    pub(crate) fn event_elapsed_time(
        &self,
        milliseconds: &mut f32,
        begin: Event,
        end: Event,
    ) -> CUresult {
        call!(self.event_elapsed_time(milliseconds, begin.raw(), end.raw()))
    }

    pub(crate) fn mem_alloc(&self, address: &mut CUdeviceptr, bytes: usize) -> CUresult {
        call!(self.mem_alloc(address, bytes))
    }
    pub(crate) fn mem_free(&self, address: CUdeviceptr) -> CUresult {
        call!(self.mem_free(address))
    }
    pub(crate) fn mem_get_info(&self, free: &mut usize, total: &mut usize) -> CUresult {
        call!(self.mem_get_info(free, total))
    }
    pub(crate) fn mem_host_alloc(&self, pinned: &mut Pinned, bytes: usize) -> CUresult {
        let mut pointer = ptr::with_exposed_provenance_mut(pinned.0);
        let code = call!(self.mem_host_alloc(&raw mut pointer, bytes, 0));
        pinned.0 = pointer.expose_provenance();
        code
    }
    pub(crate) fn mem_free_host(&self, pinned: Pinned) -> CUresult {
        call!(self.mem_free_host(ptr::with_exposed_provenance_mut(pinned.0)))
    }
    pub(crate) fn mem_alloc_async(
        &self,
        address: &mut CUdeviceptr,
        bytes: usize,
        stream: Stream,
    ) -> CUresult {
        call!(self.mem_alloc_async?(address, bytes, stream.raw()))
    }
    pub(crate) fn mem_free_async(&self, address: CUdeviceptr, stream: Stream) -> CUresult {
        call!(self.mem_free_async?(address, stream.raw()))
    }
    pub(crate) fn memset_d8(&self, address: CUdeviceptr, value: u8, bytes: usize) -> CUresult {
        call!(self.memset_d8(address, value, bytes))
    }
    pub(crate) fn memset_d8_async(
        &self,
        address: CUdeviceptr,
        value: u8,
        bytes: usize,
        stream: Stream,
    ) -> CUresult {
        call!(self.memset_d8_async(address, value, bytes, stream.raw()))
    }
    pub(crate) fn memcpy_htod(&self, to: CUdeviceptr, from: &[u8]) -> CUresult {
        call!(self.memcpy_htod(to, from.as_ptr().cast(), from.len()))
    }
    pub(crate) fn memcpy_dtoh(&self, to: &mut [u8], from: CUdeviceptr) -> CUresult {
        call!(self.memcpy_dtoh(to.as_mut_ptr().cast(), from, to.len()))
    }
    pub(crate) fn memcpy_dtod(&self, to: CUdeviceptr, from: CUdeviceptr, bytes: usize) -> CUresult {
        call!(self.memcpy_dtod(to, from, bytes))
    }
    pub(crate) fn memcpy_dtod_async(
        &self,
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
        stream: Stream,
    ) -> CUresult {
        call!(self.memcpy_dtod_async(to, from, bytes, stream.raw()))
    }

    pub(crate) fn mem_create(
        &self,
        handle: &mut CUmemGenericAllocationHandle,
        bytes: usize,
        properties: &CUmemAllocationProp,
    ) -> CUresult {
        call!(self.mem_create?(handle, bytes, properties, 0))
    }
    pub(crate) fn mem_release(&self, handle: CUmemGenericAllocationHandle) -> CUresult {
        call!(self.mem_release?(handle))
    }
    pub(crate) fn mem_address_reserve(&self, address: &mut CUdeviceptr, bytes: usize) -> CUresult {
        call!(self.mem_address_reserve?(address, bytes, 0, 0, 0))
    }
    pub(crate) fn mem_address_free(&self, address: CUdeviceptr, bytes: usize) -> CUresult {
        call!(self.mem_address_free?(address, bytes))
    }
    pub(crate) fn mem_map(
        &self,
        address: CUdeviceptr,
        bytes: usize,
        offset: usize,
        handle: CUmemGenericAllocationHandle,
    ) -> CUresult {
        call!(self.mem_map?(address, bytes, offset, handle, 0))
    }
    pub(crate) fn mem_unmap(&self, address: CUdeviceptr, bytes: usize) -> CUresult {
        call!(self.mem_unmap?(address, bytes))
    }
    pub(crate) fn mem_set_access(
        &self,
        address: CUdeviceptr,
        bytes: usize,
        access: &CUmemAccessDesc,
    ) -> CUresult {
        call!(self.mem_set_access?(address, bytes, access, 1))
    }

    pub(crate) fn graph_instantiate(&self, exec: &mut Exec, graph: Graph) -> CUresult {
        exec.given_by(|raw| call!(self.graph_instantiate_with_flags?(raw, graph.raw(), 0)))
    }
    pub(crate) fn graph_launch(&self, exec: Exec, stream: Stream) -> CUresult {
        call!(self.graph_launch(exec.raw(), stream.raw()))
    }
    pub(crate) fn graph_exec_destroy(&self, exec: Exec) -> CUresult {
        call!(self.graph_exec_destroy(exec.raw()))
    }
    pub(crate) fn graph_destroy(&self, graph: Graph) -> CUresult {
        call!(self.graph_destroy(graph.raw()))
    }
}

type HostFunction = Box<dyn FnOnce() + Send>;

/// What the driver calls; `user_data` came from `launch_host_function`.
unsafe extern "C" fn run_host_function(user_data: *mut c_void) {
    // SAFETY: the pointer came from `Box::into_raw` of this very type, and the driver calls a
    // host function once, because no probe replays a graph that holds one.
    let function = unsafe { Box::from_raw(user_data.cast::<HostFunction>()) };
    function();
}
