//! A small program under every schedule that a host could tell apart (S6), and two threads that
//! take turns at driver calls as a seed says (S7).
#![expect(clippy::print_stdout, reason = "a test says how many schedules it covered")]

use std::sync::atomic::{AtomicBool, Ordering};

use allocator::Config;
use cuda_sim::{Coverage, Machine, Schedule, explore};

use crate::scenarios::rig::{Rig as _, WHOLE, take};
use crate::simulated_rig::SimulatedRig;
use crate::stage::Stage;

/// How many ways for two threads to take turns are tried: they make so many calls that there is
/// no end of all of them.
const SEEDS: u64 = 300;

/// Runs a program of two threads with many seeds.
fn take_turns(name: &str, program: impl Fn(&Machine, &AtomicBool)) {
    let reused = AtomicBool::new(false);
    for seed in 0..SEEDS {
        let machine = Machine::builder().schedule(Schedule::Seeded(seed)).build();
        let hint = std::panic::AssertUnwindSafe(|| program(&machine, &reused));
        if let Err(panic) = std::panic::catch_unwind(hint) {
            println!("{name} failed with seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
    assert!(reused.load(Ordering::Relaxed), "{name}: no seed reused the block");
}

fn tell(name: &str, coverage: Coverage, reused: &AtomicBool) {
    let coverage = coverage.assert_complete();
    println!("{name}: all of {} schedules", coverage.schedules);
    assert!(1 < coverage.schedules, "there was nothing to choose");
    assert!(reused.load(Ordering::Relaxed), "no schedule reused the block");
}

#[test]
fn record_stream_under_every_answer_of_every_query() {
    let reused = AtomicBool::new(false);
    let coverage = explore(|machine| {
        kernels::simulated::register(machine);
        let rig = SimulatedRig::on(machine.clone());
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let [home, user, other] = desk.streams();
        let x = take(&rig, &allocator, &home, WHOLE);
        x.fill(&home, 1);
        for reader in [&user, &other] {
            reader.wait_stream(&home).expect("a wait");
            x.check(reader, 1);
            x.block().record_stream(reader);
        }
        let freed = x.free();
        for word in 2..4 {
            let y = take(&rig, &allocator, &home, WHOLE);
            y.fill(&home, word);
            reused.fetch_or(y.address() == freed, Ordering::Relaxed);
            let z = take(&rig, &allocator, &other, WHOLE);
            z.fill(&other, word);
            reused.fetch_or(z.address() == freed, Ordering::Relaxed);
        }
        assert_eq!(desk.mismatches(), 0);
        let hazards = rig.take_hazards();
        assert!(hazards.is_empty(), "{hazards:#?}");
    });
    tell("record_stream", coverage, &reused);
}

/// One thread frees, the other asks: the block is seen only with its point (L2).
#[test]
fn a_free_and_a_request_on_two_threads() {
    take_turns("free and request", |machine, reused| {
        let stage = Stage::new(machine, Config::default());
        let [home, user] = [0, 1].map(|_| stage.stream());
        let x = stage.take(&home, WHOLE);
        stage.write(&home, &x);
        user.wait_stream(&home).expect("a wait");
        stage.write(&user, &x);
        x.record_stream(&user);
        let freed = x.address();
        machine.run_threads(vec![
            Box::new(|| stage.give_back(&home, x)),
            Box::new(|| {
                let y = stage.take(&home, WHOLE);
                stage.write(&home, &y);
                reused.fetch_or(y.address() == freed, Ordering::Relaxed);
                stage.give_back(&home, y);
            }),
        ]);
        stage.end();
    });
}

/// After a synchronisation of the context what was freed before it is complete, and what another
/// thread frees meanwhile is not (L14).
#[test]
fn a_synchronisation_beside_a_free_on_another_thread() {
    take_turns("synchronisation and free", |machine, reused| {
        let stage = Stage::new(machine, Config::default());
        let [home, next] = [0, 1].map(|_| stage.stream());
        let x = stage.take(&home, WHOLE);
        let freed = x.address();
        machine.run_threads(vec![
            Box::new(|| {
                stage.write(&home, &x);
                stage.give_back(&home, x);
            }),
            Box::new(|| {
                stage.context.synchronize().expect("all ends");
                let y = stage.take(&next, WHOLE);
                stage.write(&next, &y);
                reused.fetch_or(y.address() == freed, Ordering::Relaxed);
                stage.give_back(&next, y);
            }),
        ]);
        stage.end();
    });
}

/// One thread waits for an event, on the host or on a stream, while another records it anew: only
/// the record that was there when the call began counts (L19, L20).
#[test]
fn a_wait_for_an_event_beside_a_record_of_it() {
    for on_the_host in [false, true] {
        take_turns("wait and record", |machine, reused| {
            let stage = Stage::new(machine, Config::default());
            let [home, next] = [0, 1].map(|_| stage.stream());
            let x = stage.take(&home, WHOLE);
            let event = home.record_event().expect("an event");
            let freed = x.address();
            machine.run_threads(vec![
                Box::new(|| {
                    stage.write(&home, &x);
                    stage.give_back(&home, x);
                    home.record(&event).expect("a record");
                }),
                Box::new(|| {
                    if on_the_host {
                        event.synchronize().expect("an event passes");
                    } else {
                        next.wait_event(&event).expect("a wait");
                    }
                    let y = stage.take(&next, WHOLE);
                    stage.write(&next, &y);
                    reused.fetch_or(y.address() == freed, Ordering::Relaxed);
                    stage.give_back(&next, y);
                }),
            ]);
            stage.end();
        });
    }
}

/// Was: pieces that one thread was giving back were neither free nor room to grow, and a request
/// of another thread ran out of memory with nothing allocated.
#[test]
fn a_request_beside_an_emptied_cache_does_not_run_out_of_memory() {
    take_turns("a request beside an emptied cache", |machine, served| {
        kernels::simulated::register(machine);
        let rig = SimulatedRig::on(machine.clone());
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default().with_limit(16 * WHOLE));
        let [home, other] = desk.streams();
        drop(allocator.allocate(&home, 15 * WHOLE).expect("room"));
        machine.run_threads(vec![
            Box::new(|| {
                allocator.empty_cache().expect("everything goes back");
            }),
            Box::new(|| {
                let block = allocator.allocate(&other, 2 * WHOLE);
                served.fetch_or(block.is_ok(), Ordering::Relaxed);
                drop(block.expect("nothing is allocated"));
            }),
        ]);
    });
}
