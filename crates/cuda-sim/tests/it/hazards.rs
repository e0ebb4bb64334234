//! What is not ordered is reported with both operations and the missing edge; what is, is not.

use std::ptr;

use cuda_sim::{Access, Hazard, KernelBody, KernelCall, Machine, Schedule};

use crate::ok;
use crate::rig::{Argument, Rig, SUCCESS};

#[test]
fn s1_a_race_names_both_operations_and_the_missing_edge() {
    for seed in 0..20 {
        let rig = Rig::new(Schedule::Seeded(seed));
        let (a, b) = (rig.stream(), rig.stream());
        let block = rig.alloc(4096);
        rig.put(a, block + 16, 1);
        ok!(rig, memset_d8_async(block, 0, 4096, b));
        assert_eq!(
            rig.hazard_texts(),
            [format!(
                "race: write by fill (operation 2 on stream 4) against write by kernel put \
                 (operation 1 on stream 3), over {:#x}..{:#x} of the allocation of 4096 bytes at \
                 {block:#x}; missing edge: nothing orders operation 1 on stream 3 before \
                 operation 2 on stream 4",
                block + 16,
                block + 20
            )]
        );
    }
}

#[test]
fn s1_the_dual_with_an_event_is_silent() {
    for seed in 0..20 {
        let rig = Rig::new(Schedule::Seeded(seed));
        let (a, b) = (rig.stream(), rig.stream());
        let block = rig.alloc(4096);
        rig.put(a, block + 16, 1);
        rig.order(a, b);
        ok!(rig, memset_d8_async(block, 7, 4096, b));
        ok!(rig, stream_synchronize(b));
        rig.assert_no_hazards();
        assert_eq!(rig.peek(block + 16), 0x0707_0707);
        ok!(rig, mem_free(block));
        rig.assert_no_hazards();
    }
}

/// Runs `act` between a write on one stream and a write on another; how many races there are.
fn races_with(act: impl Fn(&Rig, cuda_sys::CUstream, cuda_sys::CUstream)) -> usize {
    let rig = Rig::new(Schedule::Seeded(3));
    let (a, b) = (rig.stream(), rig.stream());
    let block = rig.alloc(64);
    rig.put(a, block, 1);
    act(&rig, a, b);
    rig.put(b, block, 2);
    rig.machine.hazards().len()
}

#[test]
fn s1_observed_completion_is_an_edge_and_nothing_else_is() {
    assert_eq!(races_with(|_, _, _| ()), 1);
    assert_eq!(races_with(|rig, a, _| ok!(rig, stream_synchronize(a))), 0);
    assert_eq!(races_with(|rig, _, _| ok!(rig, ctx_synchronize())), 0);
    assert_eq!(races_with(|rig, _, b| ok!(rig, stream_synchronize(b))), 1, "another stream");
    assert_eq!(
        races_with(|rig, _, _| {
            let other = rig.alloc(64);
            ok!(rig, mem_free(other));
        }),
        1,
        "an allocation and a free are no edge"
    );
    assert_eq!(
        races_with(|rig, a, _| { while crate::cu!(rig, stream_query(a)) != SUCCESS {} }),
        0,
        "a query that said yes"
    );
    assert_eq!(
        races_with(|rig, a, b| {
            let event = rig.event();
            ok!(rig, event_record(event, a));
            let _answer = crate::cu!(rig, event_query(event));
            ok!(rig, stream_wait_event(b, event, 0));
        }),
        0
    );
    assert_eq!(
        races_with(|rig, a, b| {
            let event = rig.event();
            ok!(rig, stream_wait_event(b, event, 0));
            ok!(rig, event_record(event, a));
        }),
        1,
        "the wait came before the record"
    );
}

#[test]
fn s1_an_old_record_does_not_cover_later_work() {
    let rig = Rig::new(Schedule::Seeded(1));
    let (a, b) = (rig.stream(), rig.stream());
    let block = rig.alloc(64);
    let event = rig.event();
    ok!(rig, event_record(event, a));
    rig.put(a, block, 1);
    ok!(rig, stream_wait_event(b, event, 0));
    rig.put(b, block, 2);
    assert!(matches!(rig.machine.hazards()[..], [Hazard::Race { .. }]));
}

#[test]
fn s1_edges_are_transitive_but_do_not_leak_forward() {
    let rig = Rig::new(Schedule::Seeded(1));
    let (a, b, c) = (rig.stream(), rig.stream(), rig.stream());
    let block = rig.alloc(64);
    rig.put(a, block, 1);
    rig.order(a, b);
    rig.order(b, c);
    rig.put(c, block, 2);
    rig.assert_no_hazards();
    // B's record came before B learned of A, so C does not come after A (litmus L18).
    let late = rig.event();
    ok!(rig, event_record(late, b));
    rig.put(a, block + 32, 1);
    rig.order(a, b);
    ok!(rig, stream_wait_event(c, late, 0));
    rig.put(c, block + 32, 2);
    assert_eq!(rig.machine.take_hazards().len(), 1);
}

#[test]
fn s1_the_legacy_stream_is_ordered_with_blocking_streams_only() {
    for (flags, races) in [(0, 0), (1, 2)] {
        let rig = Rig::new(Schedule::Seeded(5));
        let other = rig.stream_with(flags);
        let block = rig.alloc(64);
        rig.put(other, block, 1);
        rig.put(ptr::null_mut(), block, 2);
        rig.put(other, block, 3);
        assert_eq!(rig.machine.hazards().len(), races, "stream flags {flags}");
    }
}

#[test]
fn s1_readers_do_not_race_and_a_writer_races_with_each() {
    let rig = Rig::new(Schedule::Seeded(1));
    let (a, b, c) = (rig.stream(), rig.stream(), rig.stream());
    let (block, out) = (rig.alloc(64), rig.alloc(64));
    rig.get(a, block, out);
    rig.get(b, block, out + 4);
    rig.assert_no_hazards();
    rig.order(a, c);
    rig.put(c, block, 1);
    let texts = rig.hazard_texts();
    assert_eq!(texts.len(), 1);
    assert!(texts[0].contains("against read by kernel get (operation 2 on stream 4)"), "{texts:?}");
}

#[test]
fn s9_atomic_updates_race_with_plain_accesses_only() {
    let rig = Rig::new(Schedule::Seeded(1));
    let add = KernelBody::new(|call: &mut KernelCall<'_>| call.add_u64(call.pointer(0), 1));
    rig.machine
        .register_kernel("silent", add.accesses(|call| vec![Access::atomic(call.pointer(0), 8)]));
    let (a, b) = (rig.stream(), rig.stream());
    let count = rig.alloc(8);
    rig.launch(a, "silent", &[Argument::U64(count)]);
    rig.launch(b, "silent", &[Argument::U64(count)]);
    rig.assert_no_hazards();
    rig.put(b, count, 0);
    assert_eq!(rig.machine.take_hazards().len(), 1);
    ok!(rig, ctx_synchronize());
}

#[test]
fn s9_a_kernel_without_declarations_uses_all_it_points_into() {
    let rig = Rig::new(Schedule::Seeded(1));
    let (a, b) = (rig.stream(), rig.stream());
    let block = rig.alloc(4096);
    rig.launch(a, "silent", &[Argument::U64(block + 8)]);
    rig.put(b, block + 4000, 1);
    assert_eq!(rig.machine.take_hazards().len(), 1);
}

#[test]
fn s9_a_kernel_gets_at_declared_bytes_only() {
    let rig = Rig::new(Schedule::Seeded(1));
    let a = rig.stream();
    let block = rig.alloc(64);
    rig.launch(a, "undeclared", &[Argument::U64(block)]);
    ok!(rig, stream_synchronize(a));
    assert_eq!(
        rig.hazard_texts(),
        [format!(
            "undeclared access: write of {block:#x}..{:#x} by kernel undeclared (operation 1 on \
             stream 3)",
            block + 4
        )]
    );
    assert_eq!(rig.peek(block), 0);
}

#[test]
fn s9_the_host_must_not_write_under_a_pending_copy() {
    for wait in [true, false] {
        let rig = Rig::new(Schedule::Lazy);
        let a = rig.stream();
        let block = rig.alloc(64);
        let source = rig.pinned(64);
        ok!(rig, memcpy_htod_async(block, source, 64, a));
        if wait {
            ok!(rig, stream_synchronize(a));
        }
        // SAFETY: the pinned block is 64 bytes long and this is the only thread.
        unsafe { source.cast::<u8>().write_bytes(9, 64) };
        ok!(rig, stream_synchronize(a));
        let texts = rig.hazard_texts();
        assert_eq!(texts.is_empty(), wait, "{texts:?}");
        assert!(wait || texts[0].starts_with("the host wrote under a pending copy: copy"));
    }
}

#[test]
fn races_are_found_without_overlap_and_not_with_the_checker_off() {
    let rig = Rig::build(Machine::builder().hazards(false));
    let (a, b) = (rig.stream(), rig.stream());
    let block = rig.alloc(64);
    rig.put(a, block, 1);
    rig.put(b, block, 2);
    rig.assert_no_hazards();
    let rig = Rig::new(Schedule::Eager);
    let (a, b) = (rig.stream(), rig.stream());
    let block = rig.alloc(64);
    rig.put(a, block, 1);
    assert_eq!(rig.machine.pending_operations(), 0);
    rig.put(b, block, 2);
    assert_eq!(rig.machine.take_hazards().len(), 1);
}

#[test]
fn l28_a_synchronous_copy_completes_nothing_of_other_streams() {
    let races = races_with(|rig, _, _| {
        let (other, mut word) = (rig.alloc(64), 0_u32);
        ok!(rig, memcpy_htod(other, (&raw const word).cast(), 4));
        ok!(rig, memcpy_dtoh((&raw mut word).cast(), other, 4));
    });
    assert_eq!(races, 1);
}

#[test]
fn hazards_beyond_the_limit_are_counted_and_not_kept() {
    let rig = Rig::new(Schedule::Eager);
    let (a, b) = (rig.stream(), rig.stream());
    let block = rig.alloc(64);
    for value in 0..3_000 {
        rig.put(a, block, value);
        rig.put(b, block, value);
    }
    assert_eq!(rig.machine.hazard_count(), 5_999);
    assert_eq!(rig.machine.take_hazards().len(), 4_096);
    assert_eq!(rig.machine.hazards().len(), 0);
}
