//! Driver calls that fail inside the allocator: nothing is lost but the piece concerned, nothing
//! is handed out too early, and a context that has failed says so from then on (L4, L26).

use allocator::{AllocError, Config};
use cuda_sim::{FaultPlan, Schedule};
use cuda_sys::CUresult;

use crate::scenarios::rig::{Rig as _, WHOLE, take, take_used, try_take};
use crate::simulated_rig::SimulatedRig;

fn fails(rig: &SimulatedRig, call: &'static str, code: CUresult) {
    rig.machine().fail(FaultPlan::next(call, code));
}

fn is_clean(rig: &SimulatedRig) {
    assert_eq!(rig.desk().mismatches(), 0);
    let hazards = rig.take_hazards();
    assert!(hazards.is_empty(), "{hazards:#?}");
}

/// Was: addresses whose unmapping had failed were mapped again, which the driver refused for ever.
#[test]
fn addresses_that_could_not_be_unmapped_are_never_mapped_again() {
    let rig = SimulatedRig::new(Schedule::Lazy);
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let stream = desk.stream();
    let kept = take(&rig, &allocator, &stream, WHOLE).free();
    fails(&rig, "cuMemUnmap", CUresult::CUDA_ERROR_INVALID_VALUE);
    let refused = allocator.trim(u64::MAX).expect_err("the driver keeps it");
    assert!(matches!(refused, AllocError::Source(_)), "{refused}");
    assert_eq!(allocator.stats().reserved_bytes.current, WHOLE, "it is still the device's");
    let blocks = [0, 1].map(|_| take(&rig, &allocator, &stream, WHOLE));
    for block in &blocks {
        assert_ne!(block.address(), kept, "leaked, not reused");
        block.fill(&stream, 1);
        block.check(&stream, 1);
    }
    drop(blocks);
    is_clean(&rig);
}

/// Was: a growth that failed half-way, and whose unmapping failed too, left addresses mapped that
/// every later growth mapped again.
#[test]
fn a_growth_whose_undoing_fails_does_not_stop_the_next() {
    for (call, nth) in [("cuMemSetAccess", 1), ("cuMemCreate", 2), ("cuMemMap", 2)] {
        let rig = SimulatedRig::new(Schedule::Lazy);
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let stream = desk.stream();
        let code = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        rig.machine().fail(FaultPlan { call, nth, code, sticky: false });
        fails(&rig, "cuMemUnmap", CUresult::CUDA_ERROR_INVALID_VALUE);
        drop(try_take(&rig, &allocator, &stream, 16 * WHOLE));
        rig.machine().clear_faults();
        let block = take(&rig, &allocator, &stream, 16 * WHOLE);
        block.fill(&stream, 1);
        block.check(&stream, 1);
        drop(block);
        is_clean(&rig);
    }
}

/// A growth that fails half-way keeps nothing, and the next one succeeds.
#[test]
fn a_growth_that_fails_half_way_keeps_nothing() {
    let codes = [
        ("cuMemAddressReserve", CUresult::CUDA_ERROR_OUT_OF_MEMORY),
        ("cuMemCreate", CUresult::CUDA_ERROR_OUT_OF_MEMORY),
        ("cuMemMap", CUresult::CUDA_ERROR_INVALID_VALUE),
        ("cuMemSetAccess", CUresult::CUDA_ERROR_INVALID_VALUE),
    ];
    for (call, code) in codes {
        let rig = SimulatedRig::new(Schedule::Lazy);
        let desk = rig.desk();
        let before = rig.machine().used_bytes();
        let allocator = desk.allocator(Config::default());
        let stream = desk.stream();
        fails(&rig, call, code);
        let outcome = try_take(&rig, &allocator, &stream, WHOLE);
        if let Err(AllocError::OutOfMemory(refused)) = &outcome {
            panic!("{call} is no lack of memory: {refused}");
        }
        drop(outcome);
        rig.machine().clear_faults();
        let block = take(&rig, &allocator, &stream, WHOLE);
        block.fill(&stream, 1);
        block.give_back();
        stream.synchronize().expect("the stream ends");
        drop(allocator);
        assert_eq!(rig.machine().used_bytes(), before, "{call}");
        is_clean(&rig);
    }
}

/// A wait that fails adds no knowledge, and neither does a record that fails (L26).
#[test]
fn a_call_that_fails_adds_no_knowledge() {
    for call in ["cuStreamWaitEvent", "cuEventRecord"] {
        let rig = SimulatedRig::new(Schedule::Lazy);
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let [home, next] = desk.streams();
        let x = take(&rig, &allocator, &home, WHOLE);
        let gate = desk.hold(&home);
        x.fill(&home, 1);
        let freed = x.free();
        fails(&rig, call, CUresult::CUDA_ERROR_INVALID_VALUE);
        next.wait_stream(&home).expect_err("the call fails");
        let y = take(&rig, &allocator, &next, WHOLE);
        assert_ne!(y.address(), freed, "nobody waited");
        y.fill(&next, 2);
        next.wait_stream(&home).expect("a wait");
        let z = take(&rig, &allocator, &next, WHOLE);
        assert_eq!(z.address(), freed, "the dual");
        gate.open();
        drop((y, z));
        is_clean(&rig);
    }
}

/// A device-side wait of the allocator's own that fails leaves the block where it was.
#[test]
fn a_device_side_wait_that_fails_hands_nothing_out() {
    let rig = SimulatedRig::new(Schedule::Lazy);
    let desk = rig.desk();
    let config = Config::default().with_policy(allocator::Policy::Deterministic);
    let allocator = desk.allocator(config.with_pending_max(0));
    let [home, user] = desk.streams();
    let x = take_used(&rig, &allocator, [&home, &user]);
    let freed = x.free();
    fails(&rig, "cuStreamWaitEvent", CUresult::CUDA_ERROR_INVALID_VALUE);
    let y = take(&rig, &allocator, &home, WHOLE);
    assert_ne!(y.address(), freed, "nobody waited");
    let z = take(&rig, &allocator, &home, WHOLE);
    assert_eq!(z.address(), freed, "the next wait is made");
    z.fill(&home, 2);
    drop((y, z));
    is_clean(&rig);
}

/// A fence that could not be recorded at a free is told, and the block waits for a
/// synchronisation.
#[test]
fn a_free_without_its_fence_keeps_the_block_until_a_synchronisation() {
    let rig = SimulatedRig::new(Schedule::Lazy);
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let x = take(&rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    let gate = desk.hold(&user);
    x.check(&user, 1);
    x.block().record_stream(&user);
    let freed = x.address();
    fails(&rig, "cuEventRecord", CUresult::CUDA_ERROR_INVALID_VALUE);
    let told = x.try_free().expect_err("the fence failed");
    let text = told.to_string();
    assert!(text.starts_with("the block was freed, but its uses could not be fenced: "), "{text}");
    let y = take(&rig, &allocator, &home, WHOLE);
    assert_ne!(y.address(), freed, "the user still reads it");
    gate.open();
    desk.context().synchronize().expect("all ends");
    let z = take(&rig, &allocator, &home, WHOLE);
    assert_eq!(z.address(), freed);
    drop((y, z));
    is_clean(&rig);
}

/// After an error that the context does not survive, every request reports that first error,
/// frees succeed, nothing is reused, and everything may be dropped (L4).
#[test]
fn a_context_that_has_failed_says_so_and_frees_succeed() {
    let rig = SimulatedRig::new(Schedule::Lazy);
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let [plain, used] = [0, 1].map(|_| take(&rig, &allocator, &home, WHOLE));
    desk.busy(&user);
    used.block().record_stream(&user);
    let code = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    let plan = FaultPlan { call: "cuStreamSynchronize", nth: 1, code, sticky: true };
    rig.machine().fail(plan);
    home.synchronize().expect_err("the context fails here");
    let first = desk.context().first_error().expect("it is remembered");
    assert_eq!(first.call, "cuStreamSynchronize");
    let texts = [3 * WHOLE, WHOLE].map(|bytes| {
        let refused = allocator.allocate(&home, bytes).expect_err("the context has failed");
        refused.to_string()
    });
    let wanted = "cuStreamSynchronize answered ILLEGAL_ADDRESS (700): work queued before this \
                  call failed, not the call";
    assert!(texts.iter().all(|text| text == wanted), "{texts:?}");
    plain.try_free().expect("frees succeed");
    used.try_free().expect("frees succeed");
    let again = allocator.allocate(&home, WHOLE).expect_err("nothing is reused");
    assert_eq!(again.to_string(), wanted);
    drop((allocator, home, user));
}

/// A stream of another context is refused, and the stream's id is named.
#[test]
fn a_stream_of_another_context_is_refused() {
    let machine = cuda_sim::Machine::builder()
        .device(cuda_sim::DeviceProfile::h200())
        .device(cuda_sim::DeviceProfile::h200())
        .build();
    let driver = streams::Driver::from_table(machine.table()).expect("the driver starts");
    let contexts = [0, 1].map(|ordinal| {
        driver.device(ordinal).expect("two devices").primary_context().expect("a context")
    });
    let allocator =
        allocator::Allocator::new(&contexts[0], Config::default()).expect("an allocator");
    let foreign = contexts[1].create_stream(streams::StreamOptions::default()).expect("a stream");
    let refused = allocator.allocate(&foreign, 512).expect_err("another context's stream");
    assert_eq!(refused, AllocError::ForeignStream { stream_id: foreign.id() });
}
