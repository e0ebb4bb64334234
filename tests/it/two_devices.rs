//! Two devices with a context each: neither knows anything of the other (L8, L27).

use allocator::{AllocError, Allocator, Block, Config};
use cuda_sim::{DeviceProfile, Machine, Schedule};
use streams::{Context, DeviceSpan, Driver};

use crate::scenarios::rig::{Desk, Rig as _, WHOLE};
use crate::simulated_rig::SimulatedRig;

/// A machine with two devices, and the context of each.
fn two_devices(schedule: Schedule) -> (Machine, [Context; 2]) {
    let builder = Machine::builder().schedule(schedule);
    let machine = builder.device(DeviceProfile::h200()).device(DeviceProfile::h200()).build();
    kernels::simulated::register(&machine);
    let driver = Driver::from_table(machine.table()).expect("the driver starts");
    let contexts = [0, 1].map(|ordinal| {
        driver.device(ordinal).expect("two devices").primary_context().expect("a context")
    });
    (machine, contexts)
}

fn range(block: &Block) -> DeviceSpan {
    DeviceSpan { address: block.address(), bytes: block.size() }
}

fn is_clean(machine: &Machine, desks: [Desk; 2]) {
    for desk in &desks {
        assert_eq!(desk.mismatches(), 0);
    }
    drop(desks);
    let hazards = machine.take_hazards();
    assert!(hazards.is_empty(), "{hazards:#?}");
}

fn schedules() -> impl Iterator<Item = Schedule> {
    [Schedule::Eager, Schedule::Lazy].into_iter().chain((0..16).map(Schedule::Seeded))
}

/// Fences are recorded, waits made and memory given back on the block's own device, whichever was
/// used last (L8).
#[test]
fn a_block_may_be_freed_while_another_device_is_in_use() {
    for schedule in schedules() {
        let (machine, contexts) = two_devices(schedule);
        let desks = contexts.each_ref().map(Desk::new);
        let allocators = contexts.each_ref().map(|context| {
            Allocator::new(context, Config::default().with_pending_max(0)).expect("an allocator")
        });
        let streams = desks.each_ref().map(|desk| desk.streams::<2>());
        let blocks = [0, 1].map(|at: usize| {
            let [home, user] = &streams[at];
            let block = allocators[at].allocate(home, WHOLE).expect("memory");
            desks[at].fill(home, range(&block), 1);
            user.wait_stream(home).expect("a wait");
            desks[at].check(user, range(&block), 1);
            block.record_stream(user);
            block
        });
        let [on_first, on_second] = blocks;
        // Each is freed right after the other device was used, and its memory asked for again.
        on_first.free().expect("a free");
        on_second.free().expect("a free");
        for at in [1, 0] {
            let again = allocators[at].allocate(&streams[at][0], WHOLE).expect("memory");
            desks[at].fill(&streams[at][0], range(&again), 2);
            desks[at].check(&streams[at][0], range(&again), 2);
        }
        for allocator in &allocators {
            assert_eq!(allocator.empty_cache().expect("all of it"), WHOLE);
        }
        drop((allocators, streams));
        is_clean(&machine, desks);
    }
}

/// A synchronisation of one context completes nothing of the other, whose default stream is
/// another stream (L27, O10).
#[test]
fn a_synchronisation_of_one_context_completes_nothing_of_another() {
    for schedule in schedules() {
        let (machine, contexts) = two_devices(schedule);
        let desks = contexts.each_ref().map(Desk::new);
        let legacy = contexts.each_ref().map(|context| context.legacy_stream().expect("a stream"));
        assert_ne!(legacy[0].id(), legacy[1].id());
        assert_ne!(legacy[0].order().slot(), legacy[1].order().slot());
        let allocator = Allocator::new(&contexts[0], Config::default()).expect("an allocator");
        let [home, user] = desks[0].streams();
        let x = allocator.allocate(&home, WHOLE).expect("memory");
        let freed = x.address();
        desks[0].fill(&home, range(&x), 1);
        user.wait_stream(&home).expect("a wait");
        let gate = desks[0].hold(&user);
        desks[0].check(&user, range(&x), 1);
        x.record_stream(&user);
        x.free().expect("a free");
        contexts[1].synchronize().expect("the other context ends");
        let y = allocator.allocate(&home, WHOLE).expect("memory");
        assert_ne!(y.address(), freed, "the other context knows nothing of it");
        desks[0].fill(&home, range(&y), 2);
        gate.open();
        contexts[0].synchronize().expect("its own context ends");
        let z = allocator.allocate(&home, WHOLE).expect("memory");
        assert_eq!(z.address(), freed, "its own context does");
        drop((y, z, gate, allocator, home, user));
        is_clean(&machine, desks);
    }
}

/// Was: only the contexts' ids were compared, and two drivers give the first context one id.
#[test]
fn a_stream_of_another_driver_is_refused_and_its_use_never_ends() {
    let rigs = [0, 1].map(|_| SimulatedRig::new(Schedule::Eager));
    let [ours, theirs] = [&rigs[0], &rigs[1]].map(|rig| rig.desk());
    assert_eq!(ours.context().id(), theirs.context().id(), "the ids say nothing");
    let allocator = ours.allocator(Config::default());
    let (home, foreign) = (ours.stream(), theirs.stream());
    let refused = allocator.allocate(&foreign, WHOLE).expect_err("a stream of another driver");
    assert!(matches!(refused, AllocError::ForeignStream { .. }), "{refused}");
    for (user, is_reused) in [(&home, true), (&foreign, false)] {
        let block = allocator.allocate(&home, WHOLE).expect("room");
        block.record_stream(user);
        let freed = block.address();
        drop(block);
        let next = allocator.allocate(&home, WHOLE).expect("room");
        assert_eq!(next.address() == freed, is_reused);
    }
}
