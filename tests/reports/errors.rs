//! Errors: cured, lasting, half done, and of somebody else.

use allocator::{AllocError, Config};
use cuda_sim::{FaultPlan, Schedule};
use cuda_sys::CUresult;

use super::calls;
use crate::scenarios::rig::{Rig as _, WHOLE, take, take_used};
use crate::simulated_rig::SimulatedRig;

const LOST: CUresult = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;

/// A lack of memory that giving back cached memory cured leaves no error behind. From NVIDIA/cub
/// #47, `PaddlePaddle` PR #19794 and llama.cpp PR #7376.
#[test]
fn a_cured_lack_of_memory_leaves_no_error_behind() {
    let rig = SimulatedRig::new(Schedule::Lazy);
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [other, stream] = desk.streams();
    take(&rig, &allocator, &other, 4 * WHOLE).give_back();
    other.synchronize().expect("the stream ends");
    rig.machine().set_capacity(rig.machine().used_bytes());
    let block = take(&rig, &allocator, &stream, 6 * WHOLE / 2);
    assert_eq!(desk.context().first_error(), None);
    block.fill(&stream, 1);
    block.check(&stream, 1);
    drop(block);
    assert_eq!(desk.mismatches(), 0);
    assert_eq!(rig.take_hazards(), []);
}

/// A fault of earlier work that shows while memory is given back is told, not taken for the lack
/// of memory that was to be cured. From the same reports.
#[test]
fn a_fault_that_shows_while_memory_is_given_back_is_told() {
    let rig = SimulatedRig::new(Schedule::Lazy);
    let desk = rig.desk();
    let config = Config::default().with_limit(4 * WHOLE);
    let allocator = desk.allocator(config);
    let [other, stream] = desk.streams();
    take(&rig, &allocator, &other, 4 * WHOLE).give_back();
    other.synchronize().expect("the stream ends");
    let plan = FaultPlan { call: "cuMemUnmap", nth: 1, code: LOST, sticky: true };
    rig.machine().fail(plan);
    // Nothing of the cached memory fits, so it has to go back.
    let refused = allocator.allocate(&stream, 4 * WHOLE + 1).expect_err("above the limit");
    assert!(matches!(refused, AllocError::TooLarge { .. }), "{refused}");
    let _first = allocator.empty_cache();
    let refused = allocator.allocate(&stream, WHOLE).expect_err("the context has failed");
    let text = refused.to_string();
    assert!(text.contains("ILLEGAL_ADDRESS (700)"), "{text}");
    assert!(text.contains("work queued before this call failed"), "{text}");
}

/// After a lasting error drops are quiet, make no driver call, and are counted. From
/// EricLBuehler/mistral.rs #651 and #715, and chelsea0x3b/cudarc #33.
#[test]
fn drops_after_a_lasting_error_are_quiet_and_counted() {
    let rig = SimulatedRig::new(Schedule::Lazy);
    let desk = rig.desk();
    let sources = desk.sources();
    let allocators = sources.into_iter().map(|source| {
        let made = allocator::Allocator::with_source(desk.context(), Config::default(), source);
        made.expect("an allocator")
    });
    let allocators: Vec<_> = allocators.collect();
    let [home, user] = desk.streams();
    let blocks: Vec<_> = allocators
        .iter()
        .flat_map(|allocator| [0, 1].map(|_| take(&rig, allocator, &home, WHOLE)))
        .collect();
    desk.busy(&user);
    blocks.iter().for_each(|block| block.block().record_stream(&user));
    rig.machine().fail(FaultPlan { call: "cuStreamSynchronize", nth: 1, code: LOST, sticky: true });
    home.synchronize().expect_err("a kernel faulted");
    let first = desk.context().first_error();
    let before = rig.call_count();
    drop(blocks);
    assert_eq!(rig.call_count(), before, "frees went to the driver");
    for allocator in &allocators {
        let stats = allocator.stats();
        assert_eq!((stats.allocation_count, stats.free_total), (0, 2));
        let refused = allocator.allocate(&home, WHOLE).expect_err("the context is lost");
        assert_eq!(refused, AllocError::Driver(first.expect("the first error").into()));
        drop(allocator.clone());
    }
    drop((allocators, home, user));
    assert_eq!(rig.call_count(), before, "a destructor called");
    assert_eq!(desk.context().first_error(), first, "the first error stays the first");
}

/// A segment whose growth fails at any piece, in any call, is as it was before: what was mapped is
/// unmapped, nothing else is, and all handles go. From pytorch/pytorch #188008 and PR #187955.
#[test]
fn a_growth_that_fails_at_any_piece_unmaps_what_it_mapped() {
    const CALLS: [&str; 3] = ["cuMemCreate", "cuMemMap", "cuMemSetAccess"];
    let count_pieces = || {
        let rig = SimulatedRig::new(Schedule::Lazy);
        let allocator = rig.desk().allocator(Config::default());
        let stream = rig.desk().stream();
        let before = calls(rig.machine(), &["cuMemMap"]);
        take(&rig, &allocator, &stream, 16 * WHOLE).give_back();
        calls(rig.machine(), &["cuMemMap"]) - before
    };
    let pieces = count_pieces();
    assert!(2 < pieces, "a growth of several pieces");
    for call in CALLS {
        for nth in 1..=pieces {
            let rig = SimulatedRig::new(Schedule::Lazy);
            let (desk, machine) = (rig.desk(), rig.machine());
            let used = machine.used_bytes();
            let balance = |up: &str, down: &str| machine.calls(up) - machine.calls(down);
            let before = balance("cuMemMap", "cuMemUnmap");
            let allocator = desk.allocator(Config::default());
            let stream = desk.stream();
            let code = CUresult::CUDA_ERROR_INVALID_VALUE;
            machine.fail(FaultPlan { call, nth, code, sticky: false });
            let failed = allocator.allocate(&stream, 16 * WHOLE);
            if failed.is_ok() {
                // The call is not made for every piece.
                assert_eq!(call, "cuMemSetAccess");
                continue;
            }
            drop(failed);
            assert_eq!(allocator.stats().reserved_bytes.current, machine.used_bytes() - used);
            let block = take(&rig, &allocator, &stream, 16 * WHOLE);
            block.fill(&stream, 1);
            block.check(&stream, 1);
            block.give_back();
            stream.synchronize().expect("the stream ends");
            allocator.empty_cache().expect("all goes back");
            drop(allocator);
            assert_eq!(machine.used_bytes(), used, "{call}, the {nth}th");
            // A map that failed was called too.
            let failed_maps = u64::from(call == "cuMemMap");
            assert_eq!(balance("cuMemMap", "cuMemUnmap"), before + failed_maps);
            assert_eq!(desk.context().silent_errors(), 0, "something unmapped what was not mapped");
            assert_eq!(desk.mismatches(), 0);
            assert_eq!(rig.take_hazards(), []);
        }
    }
}

/// A fault of somebody's kernel that first shows at the fence of a free is not blamed on the free,
/// and the block is kept. From cms-patatrack/pixeltrack-standalone #188.
#[test]
fn a_fault_found_by_the_fence_of_a_free_is_not_blamed_on_it() {
    let rig = SimulatedRig::new(Schedule::Lazy);
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let x = take_used(&rig, &allocator, [&home, &user]);
    rig.machine().fail(FaultPlan { call: "cuEventRecord", nth: 1, code: LOST, sticky: true });
    x.try_free().expect("the free is not at fault");
    assert_eq!(allocator.stats().allocation_count, 0);
    let refused = allocator.allocate(&home, WHOLE).expect_err("nothing is reused");
    let text = refused.to_string();
    let wanted = "cuEventRecord answered ILLEGAL_ADDRESS (700): work queued before this call \
                  failed, not the call";
    assert_eq!(text, wanted);
    let told = user.synchronize().expect_err("every call says so");
    assert_eq!(told.to_string(), format!("the context has failed: {wanted}"));
}
