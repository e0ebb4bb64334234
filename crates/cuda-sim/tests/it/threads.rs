//! Several host threads under the scheduler (S7).

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_sim::{Explorer, Machine, Schedule};

use crate::rig::Rig;
use crate::{cu, ok};

/// Two threads with streams of their own; the order in which their calls reached the machine.
fn interleaving(seed: u64) -> (Vec<usize>, u64) {
    let rig = Rig::new(Schedule::Seeded(seed));
    let log = Mutex::new(Vec::new());
    let body = |index: usize| {
        let (rig, log) = (&rig, &log);
        Box::new(move || {
            ok!(rig, ctx_set_current(rig.context));
            let stream = rig.stream();
            let block = rig.alloc(64);
            for value in 0..10 {
                rig.put(stream, block, value);
                log.lock().unwrap().push(index);
            }
            ok!(rig, stream_synchronize(stream));
        }) as Box<dyn FnOnce() + Send + '_>
    };
    rig.machine.run_threads(vec![body(0), body(1), body(2)]);
    rig.assert_no_hazards();
    let time = rig.machine.virtual_time();
    (log.into_inner().unwrap(), time)
}

#[test]
fn s7_the_same_seed_interleaves_threads_the_same_way() {
    for seed in 0..10 {
        assert_eq!(interleaving(seed), interleaving(seed));
    }
    assert_ne!(interleaving(1).0, interleaving(2).0);
}

#[test]
fn s7_waiting_for_another_thread_is_part_of_the_schedule() {
    let explorer = Explorer::new(Machine::builder());
    let coverage = explorer.run(|machine| {
        let ready = AtomicBool::new(false);
        let (first, second) = (&ready, &ready);
        machine.run_threads(vec![
            Box::new(move || machine.wait_until(|| first.load(Ordering::Relaxed))),
            Box::new(move || {
                machine.yield_point();
                second.store(true, Ordering::Relaxed);
            }),
        ]);
    });
    assert!(1 < coverage.assert_complete().schedules);
}

#[test]
fn s7_a_gate_that_no_thread_opens_is_a_deadlock_at_once() {
    let patience = std::time::Duration::from_secs(3600);
    let builder = Machine::builder().schedule(Schedule::Seeded(1));
    let rig = Rig::build(builder.patience(patience));
    let flag = rig.pinned(4);
    let address = u64::try_from(flag.expose_provenance()).unwrap();
    let stream = rig.stream();
    rig.launch(stream, "gate", &[crate::rig::Argument::U64(address)]);
    let (rig, stream) = (&rig, stream.expose_provenance());
    let wait = move || {
        let stream = std::ptr::with_exposed_provenance_mut(stream);
        let code = cu!(rig, stream_synchronize(stream));
        assert_eq!(code, cuda_sys::CUresult::CUDA_ERROR_LAUNCH_TIMEOUT);
    };
    let started = std::time::Instant::now();
    rig.machine.run_threads(vec![Box::new(wait), Box::new(wait)]);
    assert!(started.elapsed() < patience, "the threads know that nobody else will open it");
    assert!(rig.hazard_texts()[0].starts_with("deadlock: cuStreamSynchronize waits for ever"));
}

#[test]
fn a_lock_the_scheduler_does_not_know_holds_nobody_up_for_ever() {
    let machine = Machine::builder().schedule(Schedule::Seeded(1)).build();
    let lock = Mutex::new(0);
    let body = || {
        let (machine, lock) = (&machine, &lock);
        Box::new(move || {
            let mut guard = lock.lock().unwrap();
            machine.yield_point();
            *guard += 1;
        }) as Box<dyn FnOnce() + Send + '_>
    };
    machine.run_threads(vec![body(), body()]);
    assert_eq!(lock.into_inner().unwrap(), 2);
    assert_eq!(machine.passed_over_count(), 1, "the one that waited for the lock");
}

unsafe extern "C" fn pause(_: *mut std::ffi::c_void) {
    std::thread::sleep(std::time::Duration::from_micros(50));
}

#[test]
fn threads_without_the_scheduler_share_a_machine_too() {
    for schedule in [Schedule::Seeded(1), Schedule::Eager, Schedule::Lazy, Schedule::RealTime] {
        let rig = Rig::new(schedule);
        let shared = rig.event().expose_provenance();
        std::thread::scope(|scope| {
            for index in 0..6_u32 {
                let rig = &rig;
                scope.spawn(move || {
                    let shared = std::ptr::with_exposed_provenance_mut(shared);
                    ok!(rig, ctx_set_current(rig.context));
                    for round in 0..60 {
                        let stream = rig.stream();
                        let block = rig.alloc(64);
                        rig.put(stream, block, index);
                        ok!(rig, event_record(shared, stream));
                        ok!(rig, stream_wait_event(stream, shared, 0));
                        if round % 10 == 0 {
                            ok!(rig, launch_host_func(stream, Some(pause), std::ptr::null_mut()));
                        }
                        let _answer = cu!(rig, event_query(shared));
                        ok!(rig, stream_synchronize(stream));
                        assert_eq!(rig.peek(block), index);
                        ok!(rig, mem_free(block));
                        ok!(rig, stream_destroy(stream));
                    }
                    ok!(rig, ctx_synchronize());
                });
            }
        });
        rig.assert_no_hazards();
        assert_eq!(rig.machine.used_bytes(), 0);
        assert_eq!(rig.machine.pending_operations(), 0);
    }
}
