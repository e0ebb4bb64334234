//! Copies, fills, launches, tokens; what owners of memory are told.
#![expect(unsafe_code, reason = "declaring a kernel is the unsafe step")]

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cuda_sim::{Access as Touched, FaultPlan, KernelBody, Machine, Schedule};
use cuda_sys::CUresult;
use streams::launch::{DeviceSlice, DeviceSliceMut, Reads, ReadsWrites, Writes};
use streams::observe::{Happening, Observer, What};
use streams::{
    Access, CaptureMode, CurrentStream, DeviceBytes, DeviceOwner, DevicePart, DeviceSpan, Driver,
    Error, Kernel, Module, Stream, StreamOptions, UseTicket, Used,
};

use crate::rig::{Block, Rig};

const PTX: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .entry scale(.param .u64 to, .param .u64 from, .param .u32 factor, .param .u64 count)
{ ret; }
.visible .entry bump(.param .u64 words, .param .u64 count) { ret; }
.visible .entry nothing() { ret; }
";

type Scale = (Writes<u32>, Reads<u32>, u32, u64);
type Bump = (ReadsWrites<u32>, u64);

fn module(rig: &Rig) -> Module {
    let scale = KernelBody::new(|call| {
        let (to, from) = (call.arguments().pointer(0), call.arguments().pointer(1));
        let (factor, count) = (call.arguments().u32(2), call.arguments().u64(3));
        for at in (0..count).map(|index| index * 4) {
            let word = call.read_u32(from + at);
            call.write_u32(to + at, word * factor);
        }
    })
    .accesses(|arguments| {
        let bytes = arguments.u64(3) * 4;
        vec![
            Touched::write(arguments.pointer(0), bytes),
            Touched::read(arguments.pointer(1), bytes),
        ]
    });
    let bump = KernelBody::new(|call| {
        let (words, count) = (call.arguments().pointer(0), call.arguments().u64(1));
        for at in (0..count).map(|index| index * 4) {
            let word = call.read_u32(words + at);
            call.write_u32(words + at, word + 1);
        }
    });
    rig.machine.register_kernel("scale", scale);
    rig.machine.register_kernel("bump", bump);
    rig.machine.register_kernel("nothing", KernelBody::new(|_| ()));
    Module::load(&rig.context, PTX).unwrap()
}

fn scale(module: &Module) -> Kernel<Scale> {
    // SAFETY: the kernel above takes and touches exactly this.
    unsafe { module.declare("scale") }.unwrap()
}

fn words(stream: &Stream, block: &Block, count: usize) -> Vec<u32> {
    let mut bytes = vec![0; count * 4];
    stream.copy_to_host(&mut bytes, &block.span, 0).unwrap();
    bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
}

/// Memory that keeps a diary of what it is told.
struct Diary {
    span: DeviceSpan,
    entries: RefCell<Vec<(Access, Option<Used>)>>,
}

impl Diary {
    fn of(block: &Block) -> Self {
        Self { span: block.span.span(), entries: RefCell::default() }
    }
}

impl DeviceBytes for Diary {
    fn whole(&self) -> DevicePart<'_> {
        DevicePart::of(self)
    }
}

// SAFETY: the block behind it goes last, and waits for everything.
unsafe impl DeviceOwner for Diary {
    fn span(&self) -> DeviceSpan {
        self.span
    }

    fn begin_use(&self, _: &Stream, access: Access) -> Result<UseTicket, Error> {
        let mut entries = self.entries.borrow_mut();
        entries.push((access, None));
        Ok(UseTicket(entries.len() as u64 - 1))
    }

    unsafe fn end_use(&self, _: &Stream, ticket: UseTicket, used: Used) {
        let at = usize::try_from(ticket.0).unwrap();
        self.entries.borrow_mut()[at].1 = Some(used);
    }

    fn hold(&self) -> Box<dyn Any + Send> {
        Box::new(self.span)
    }
}

impl DeviceSlice<u32> for Diary {}
impl DeviceSliceMut<u32> for Diary {}

#[test]
fn a_declared_kernel_is_launched_safely() {
    let rig = Rig::lazy();
    let (a, from, to) = (rig.stream(), rig.block(), rig.block());
    let kernel = scale(&module(&rig));
    assert_eq!(kernel.name(), "scale");
    a.fill_words(&from.span, 0, 8, 7).unwrap();
    let mut out = to.span;
    let launched = kernel.launch(&a, 1, (8, 1), 0, (&mut out, &from.span, 3_u32, 8_u64)).unwrap();
    assert!(!launched.is_captured());
    assert_eq!(words(&a, &to, 8), [21; 8]);
    assert!(a.order().is_complete(launched.point()));
}

#[test]
fn o13_owners_are_told_before_the_submission_and_exactly_after_it() {
    let rig = Rig::lazy();
    let (a, from, to) = (rig.stream(), rig.block(), rig.block());
    let (from, mut to) = (Diary::of(&from), Diary::of(&to));
    let kernel = scale(&module(&rig));
    let arguments = (&mut to, &from, 1_u32, 1_u64);
    let point = kernel.launch(&a, 1, 1, 0, arguments).unwrap().point();
    assert_eq!(*from.entries.borrow(), [(Access::Read, Some(Used::Until(point)))]);
    assert_eq!(*to.entries.borrow(), [(Access::Write, Some(Used::Until(point)))]);
    assert_eq!(a.order().position(), point);
}

#[test]
fn o13_a_submission_that_is_refused_was_no_use() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let memory = Diary::of(&block);
    rig.machine.fail(FaultPlan::next("cuMemsetD8Async", CUresult::CUDA_ERROR_INVALID_VALUE));
    let before = a.order().position();
    assert!(a.fill_bytes(&memory, 0, 8, 1).is_err());
    assert_eq!(*memory.entries.borrow(), [(Access::Write, Some(Used::Never))]);
    assert_eq!(a.order().position(), before);
}

#[test]
fn c3_in_a_capture_the_graph_holds_and_the_use_is_its() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let memory = Diary::of(&block);
    let capture = a.begin_capture(CaptureMode::Global).unwrap();
    a.fill_bytes(&memory, 0, 8, 1).unwrap();
    let graph = capture.end().unwrap();
    assert_eq!(*memory.entries.borrow(), [(Access::Write, Some(Used::ByGraph))]);
    assert_eq!(graph.hold_count(), 1);
}

#[test]
fn a_signature_that_was_compiled_otherwise_is_refused() {
    let rig = Rig::lazy();
    let module = module(&rig);
    // SAFETY: refused before it could be launched.
    let refused = unsafe { module.declare::<(Writes<u32>, Reads<u32>, u64, u64)>("scale") };
    let wrong = |index, declared, actual| Error::WrongSignature {
        kernel: "scale".to_owned(),
        index,
        declared,
        actual,
    };
    assert_eq!(refused.unwrap_err(), wrong(2, 8, 4));
    // SAFETY: as above.
    let refused = unsafe { module.declare::<(Writes<u32>, Reads<u32>, u32)>("scale") };
    assert_eq!(refused.unwrap_err(), wrong(3, 0, 8));
    // SAFETY: as above.
    assert!(unsafe { module.declare::<()>("absent") }.is_err());
    // SAFETY: it takes nothing and does nothing.
    let nothing = unsafe { module.declare::<()>("nothing") }.unwrap();
    nothing.launch(&rig.stream(), 1, 1, 0, ()).unwrap();
    let zero = Module::load(&rig.context, "a\0b").unwrap_err();
    assert_eq!(zero, Error::ZeroByte { at: 1 });
}

#[test]
fn a_token_is_waited_for_by_itself() {
    let rig = Rig::lazy();
    let ([a, b], block) = (rig.streams(), rig.block());
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let token = a.fill_bytes(&block.span, 0, 8, 1).unwrap();
    a.launch_host_function(move || gate.recv().unwrap()).unwrap();
    token.wait().unwrap();
    assert!(token.query().unwrap());
    assert!(a.order().is_gated(), "what was queued after it has not run");
    b.wait_submission(&token).unwrap();
    b.synchronize().unwrap();
    open.send(()).unwrap();
    a.synchronize().unwrap();
}

#[test]
fn a_token_is_waited_on_by_another_stream() {
    let rig = Rig::lazy();
    let ([a, b], block, other) = (rig.streams(), rig.block(), rig.block());
    let token = a.fill_bytes(&block.span, 0, 8, 1).unwrap();
    let late = rig.use_on(&a, &other);
    b.wait_submission(&token).unwrap();
    rig.assert_known(&b, token.point(), &block, true);
    rig.assert_known(&b, late, &other, false);
}

#[test]
fn a_token_dropped_costs_no_call() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    for _ in 0..10 {
        let _ = a.fill_bytes(&block.span, 0, 8, 1).unwrap();
    }
    assert_eq!((rig.calls("cuEventRecord"), rig.calls("cuEventCreate")), (0, 0));
}

#[test]
fn the_debug_mode_completes_every_operation_before_the_next() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    rig.context.set_synchronous(true);
    let used = rig.use_on(&a, &block);
    assert!(a.order().is_complete(used));
    rig.context.set_synchronous(false);
    let used = rig.use_on(&a, &block);
    assert!(!a.order().is_complete(used));
}

#[test]
fn copies_on_the_device_move_bytes() {
    let rig = Rig::with(Schedule::Seeded(3), cuda_sim::DeviceProfile::h200());
    let (a, from, to) = (rig.stream(), rig.block(), rig.block());
    a.copy_to_device(&from.span, 4, &[1, 2, 3, 4]).unwrap();
    a.copy_on_device(&to.span, 0, &from.span, 4, 4).unwrap();
    let mut bytes = [0; 4];
    a.copy_to_host(&mut bytes, &to.span, 0).unwrap();
    assert_eq!(bytes, [1, 2, 3, 4]);
}

#[test]
fn a_read_and_write_argument_is_both() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let module = module(&rig);
    // SAFETY: the kernel above takes and touches exactly this.
    let bump: Kernel<Bump> = unsafe { module.declare("bump") }.unwrap();
    a.fill_words(&block.span, 0, 4, 1).unwrap();
    let mut memory = Diary::of(&block);
    bump.launch(&a, 1, 1, 0, (&mut memory, 4_u64)).unwrap();
    assert_eq!(memory.entries.borrow()[0].0, Access::ReadWrite);
    assert_eq!(words(&a, &block, 4), [2; 4]);
}

#[test]
fn the_current_stream_is_a_thread_s_own_and_nests() {
    let rig = Rig::lazy();
    let [a, b] = rig.streams();
    let current = || CurrentStream::get(&rig.context).map(|stream| stream.id());
    assert_eq!(current(), None);
    let outer = CurrentStream::enter(&a);
    {
        let _inner = CurrentStream::enter(&b);
        assert_eq!(current(), Some(b.id()));
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(current(), None));
        });
    }
    assert_eq!(current(), Some(a.id()));
    drop(outer);
    assert_eq!(current(), None);
}

#[test]
fn a_pool_gives_its_streams_in_turn() {
    let rig = Rig::lazy();
    let pool = rig.context.stream_pool(3, StreamOptions::default()).unwrap();
    let turns: Vec<u64> = (0..6).map(|_| pool.take_turn().id()).collect();
    assert_eq!(turns[..3], turns[3..]);
    assert_eq!(pool.streams().len(), 3);
    assert!(turns[0] != turns[1] && turns[1] != turns[2]);
}

/// Whoever watches is not to panic; one who does is told of work that is queued.
struct Startled;

impl Observer for Startled {
    fn observe(&self, happening: &Happening<'_>) {
        assert!(!matches!(happening.what, What::Submitted { .. }), "somebody submits");
    }
}

/// Was: on the way out of a panic the use was ended as one that was refused, though the call had
/// been made.
#[test]
fn o13_a_panic_while_the_call_is_made_leaves_the_use_open() {
    let machine = Machine::builder().build();
    let driver = Driver::from_table_observed(machine.table(), Arc::new(Startled)).unwrap();
    let context = driver.device(0).unwrap().primary_context().unwrap();
    let rig = Rig { context, driver, machine };
    let (stream, block) = (rig.stream(), rig.block());
    let diary = Diary::of(&block);
    let filled = catch_unwind(AssertUnwindSafe(|| stream.fill_bytes(&diary, 0, 8, 1)));
    assert!(filled.is_err());
    assert_eq!(*diary.entries.borrow(), [(Access::Write, None)]);
}
