//! A machine with a current context, and its calls in a form that tests can read.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cuda_sim::{Access, DeviceProfile, KernelBody, KernelCall, Machine, MachineBuilder, Schedule};
use cuda_sys::{CUcontext, CUevent, CUfunction, CUmodule, CUresult, CUstream, Table};

pub(crate) const SUCCESS: CUresult = CUresult::CUDA_SUCCESS;
pub(crate) const NOT_READY: CUresult = CUresult::CUDA_ERROR_NOT_READY;

/// Makes one driver call of a table; calls that a driver may lack end in `?`.
#[macro_export]
macro_rules! cu {
    ($rig:expr, $name:ident? ( $($argument:expr),* $(,)? )) => {{
        let call = $rig.table.$name().unwrap();
        // SAFETY: the test hands over what the call asks for.
        unsafe { call($($argument),*) }
    }};
    ($rig:expr, $name:ident ( $($argument:expr),* $(,)? )) => {{
        let call = $rig.table.$name();
        // SAFETY: the test hands over what the call asks for.
        unsafe { call($($argument),*) }
    }};
}

/// Makes a driver call that must succeed.
#[macro_export]
macro_rules! ok {
    ($($call:tt)*) => { assert_eq!($crate::cu!($($call)*), $crate::rig::SUCCESS) };
}

pub(crate) const MODULE: &str = "
.version 9.0
.target sm_75
.address_size 64
.visible .entry put(.param .u64 put_param_0, .param .u32 put_param_1) { ret; }
.visible .entry get(.param .u64 get_param_0, .param .u64 get_param_1) { ret; }
.visible .entry spin(.param .u64 spin_param_0) { ret; }
.visible .entry gate(.param .u64 gate_param_0) { ret; }
.visible .entry write_bad(.param .u64 write_bad_param_0) { ret; }
.visible .entry undeclared(.param .u64 undeclared_param_0) { ret; }
.visible .entry silent(.param .u64 silent_param_0) { ret; }
.visible .entry bodiless() { ret; }
";

pub(crate) struct Rig {
    pub(crate) machine: Machine,
    pub(crate) table: Arc<Table>,
    pub(crate) context: CUcontext,
    pub(crate) module: CUmodule,
}

// SAFETY: the handles are numbers, good on every thread.
unsafe impl Send for Rig {}
// SAFETY: as above.
unsafe impl Sync for Rig {}

impl Rig {
    pub(crate) fn new(schedule: Schedule) -> Self {
        Self::build(Machine::builder().device(DeviceProfile::h200()).schedule(schedule))
    }

    pub(crate) fn build(builder: MachineBuilder) -> Self {
        Self::on(&builder.build())
    }

    pub(crate) fn on(machine: &Machine) -> Self {
        let machine = machine.clone();
        let table = machine.table();
        register(&machine);
        let mut rig = Self { machine, table, context: ptr::null_mut(), module: ptr::null_mut() };
        ok!(rig, init(0));
        let mut context = ptr::null_mut();
        ok!(rig, device_primary_ctx_retain(&raw mut context, 0));
        ok!(rig, ctx_set_current(context));
        let text = std::ffi::CString::new(MODULE).unwrap();
        let mut module = ptr::null_mut();
        ok!(rig, module_load_data(&raw mut module, text.as_ptr().cast()));
        rig.context = context;
        rig.module = module;
        rig
    }

    pub(crate) fn stream(&self) -> CUstream {
        self.stream_with(1)
    }

    pub(crate) fn stream_with(&self, flags: u32) -> CUstream {
        let mut stream = ptr::null_mut();
        ok!(self, stream_create(&raw mut stream, flags));
        stream
    }

    pub(crate) fn event(&self) -> CUevent {
        self.event_with(2)
    }

    pub(crate) fn event_with(&self, flags: u32) -> CUevent {
        let mut event = ptr::null_mut();
        ok!(self, event_create(&raw mut event, flags));
        event
    }

    pub(crate) fn alloc(&self, bytes: usize) -> u64 {
        let mut address = 0;
        ok!(self, mem_alloc(&raw mut address, bytes));
        address
    }

    pub(crate) fn pinned(&self, bytes: usize) -> *mut c_void {
        let mut pointer = ptr::null_mut();
        ok!(self, mem_host_alloc(&raw mut pointer, bytes, 0));
        pointer
    }

    pub(crate) fn launch(&self, stream: CUstream, name: &str, arguments: &[Argument]) {
        assert_eq!(self.try_launch(stream, name, arguments), SUCCESS, "launch of {name}");
    }

    pub(crate) fn try_launch(
        &self,
        stream: CUstream,
        name: &str,
        arguments: &[Argument],
    ) -> CUresult {
        let name = std::ffi::CString::new(name).unwrap();
        let mut function: CUfunction = ptr::null_mut();
        ok!(self, module_get_function(&raw mut function, self.module, name.as_ptr()));
        let mut values: Vec<Vec<u8>> = arguments.iter().map(Argument::bytes).collect();
        let mut pointers: Vec<*mut c_void> =
            values.iter_mut().map(|value| value.as_mut_ptr().cast()).collect();
        let parameters = pointers.as_mut_ptr();
        cu!(self, launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, ptr::null_mut()))
    }

    pub(crate) fn put(&self, stream: CUstream, address: u64, value: u32) {
        self.launch(stream, "put", &[Argument::U64(address), Argument::U32(value)]);
    }

    pub(crate) fn get(&self, stream: CUstream, from: u64, to: u64) {
        self.launch(stream, "get", &[Argument::U64(from), Argument::U64(to)]);
    }

    pub(crate) fn peek(&self, address: u64) -> u32 {
        let mut bytes = [0; 4];
        assert!(self.machine.peek(address, &mut bytes));
        u32::from_le_bytes(bytes)
    }

    /// Makes `after` wait for all of `before`.
    pub(crate) fn order(&self, before: CUstream, after: CUstream) {
        let event = self.event();
        ok!(self, event_record(event, before));
        ok!(self, stream_wait_event(after, event, 0));
        ok!(self, event_destroy(event));
    }

    pub(crate) fn hazard_texts(&self) -> Vec<String> {
        self.machine.take_hazards().iter().map(ToString::to_string).collect()
    }

    pub(crate) fn assert_no_hazards(&self) {
        assert_eq!(self.hazard_texts(), Vec::<String>::new());
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Argument {
    U32(u32),
    U64(u64),
}

impl Argument {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::U32(value) => value.to_le_bytes().to_vec(),
            Self::U64(value) => value.to_le_bytes().to_vec(),
        }
    }
}

fn register(machine: &Machine) {
    let put = KernelBody::new(|call: &mut KernelCall<'_>| {
        call.write_u32(call.pointer(0), call.u32(1));
    });
    let get = KernelBody::new(|call: &mut KernelCall<'_>| {
        let value = call.read_u32(call.pointer(0));
        call.write_u32(call.pointer(1), value);
    });
    let gate = KernelBody::new(|_: &mut KernelCall<'_>| ());
    let bad = KernelBody::new(|call: &mut KernelCall<'_>| call.write_u32(call.pointer(0), 1));
    machine.register_kernel("put", put.accesses(|call| vec![Access::write(call.pointer(0), 4)]));
    machine.register_kernel(
        "get",
        get.accesses(|call| {
            vec![Access::read(call.pointer(0), 4), Access::write(call.pointer(1), 4)]
        }),
    );
    machine.register_kernel(
        "gate",
        gate.accesses(|call| vec![Access::read(call.pointer(0), 4)])
            .ready(|call| call.read_u32(call.pointer(0)) != 0),
    );
    machine.register_kernel(
        "spin",
        KernelBody::new(|_: &mut KernelCall<'_>| ()).duration(|call| call.u64(0)),
    );
    machine.register_kernel("write_bad", bad.clone().accesses(|_| Vec::new()));
    machine.register_kernel("undeclared", bad.clone().accesses(|_| Vec::new()));
    machine.register_kernel("silent", bad);
}
