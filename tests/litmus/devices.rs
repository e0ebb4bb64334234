//! Two devices, default streams, and few hardware queues: L8, L12, L15 and L27.

use std::num::NonZeroU32;
use std::sync::Arc;

use cuda_sim::{DeviceProfile, Machine, MachineBuilder};
use streams::StreamOptions;

use super::trial::Design;
use super::{Litmus, two_devices};
use crate::scenarios::rig::WHOLE;

pub const L8: Litmus = Litmus::alone_on(
    "L8",
    "an event of the device that is current is recorded on a stream of another, and nobody looks",
    two_devices,
    |trial| {
        let allocator = trial.allocator();
        let [home, user] = trial.streams();
        let elsewhere = trial.elsewhere().create_stream(StreamOptions::default()).expect("one");
        let x = trial.take(&allocator, &home);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        trial.hold(&user);
        x.check(&user, 1);
        x.block().record_stream(&user);
        if trial.has_edge() {
            home.wait_stream(&user).expect("a wait");
        }
        // The last call before the free was about the other device.
        elsewhere.record_event().expect("an event").synchronize().expect("nothing is queued");
        let freed = x.free();
        trial.ask(&allocator, &home, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [home, user]) = (trial.shelf(), trial.streams());
        let elsewhere = trial.elsewhere().create_stream(StreamOptions::default()).expect("one");
        let pooled = elsewhere.record_event().expect("an event");
        shelf.used_on(trial, &home, &[&user]);
        let recorded = user.record(&pooled);
        shelf.take_back(&home);
        home.wait_event(&pooled).expect("a wait");
        if design == Design::Wrong || recorded.is_ok() {
            shelf.lend_and_write(&home);
        }
    },
);

/// All streams share one hardware queue.
fn one_queue() -> MachineBuilder {
    let profile = DeviceProfile::h200().with_hardware_queues(NonZeroU32::MIN);
    Machine::builder().device(profile).refusals(1)
}

pub const L12: Litmus = Litmus::alone_on(
    "L12",
    "order rests on a word in memory, of which the driver's scheduler knows nothing",
    one_queue,
    |trial| {
        let allocator = trial.allocator();
        let [home, next] = trial.streams();
        let x = trial.take(&allocator, &home);
        trial.hold(&home);
        x.fill(&home, 1);
        let freed = x.free();
        // The host will open it when it has seen the home end: nothing else says so.
        trial.wait_by_memory(&next);
        if trial.has_edge() {
            next.wait_stream(&home).expect("a wait");
        }
        trial.ask(&allocator, &next, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [home, next]) = (trial.shelf(), trial.streams());
        shelf.lend(&home);
        if design == Design::Right {
            shelf.write(&home, 1);
            shelf.take_back(&home);
            next.wait_stream(&home).expect("a wait");
            shelf.lend_and_write(&next);
            return;
        }
        // The word is written by work that is behind the wait for it in the only queue.
        let word = Arc::new(trial.desk().kernels().gates(1).expect("a word"));
        trial.keep(Arc::clone(&word));
        let _waiting = word.close(&next, 0).expect("a wait by memory alone");
        shelf.write(&home, 1);
        let written = Arc::clone(&word);
        let _queued = home.launch_host_function(move || written.open(0)).expect("one");
        let _stuck = home.synchronize();
        word.open(0);
    },
);

pub const L15: Litmus = Litmus::alone(
    "L15",
    "the legacy stream is taken to order every stream",
    |trial| {
        let allocator = trial.allocator();
        let legacy = trial.desk().context().legacy_stream().expect("the legacy stream");
        let [next] = trial.streams();
        assert!(next.is_non_blocking());
        let x = trial.take(&allocator, &legacy);
        trial.hold(&legacy);
        x.fill(&legacy, 1);
        let freed = x.free();
        if trial.has_edge() {
            next.wait_stream(&legacy).expect("a wait");
        }
        trial.ask(&allocator, &next, (freed, WHOLE));
    },
    |trial, design| {
        let shelf = trial.shelf();
        let context = trial.desk().context();
        let legacy = context.legacy_stream().expect("the legacy stream");
        let options =
            StreamOptions { non_blocking: design == Design::Wrong, ..StreamOptions::default() };
        let next = context.create_stream(options).expect("a stream");
        shelf.freed_in_use(trial, &legacy);
        shelf.lend_and_write(&next);
    },
);

pub const L27: Litmus = Litmus::alone_on(
    "L27",
    "the default stream is known by its handle alone, which every context has",
    two_devices,
    |trial| {
        let allocator = trial.allocator();
        let legacy = trial.desk().context().legacy_stream().expect("the legacy stream");
        let elsewhere = trial.elsewhere().legacy_stream().expect("another legacy stream");
        let [next] = trial.streams();
        let x = trial.take(&allocator, &legacy);
        trial.hold(&legacy);
        x.fill(&legacy, 1);
        let freed = x.free();
        next.wait_stream(&elsewhere).expect("a wait");
        elsewhere.synchronize().expect("nothing is queued");
        trial.elsewhere().synchronize().expect("nothing is queued");
        if trial.has_edge() {
            next.wait_stream(&legacy).expect("a wait");
        }
        trial.ask(&allocator, &next, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [next]) = (trial.shelf(), trial.streams());
        let legacy = trial.desk().context().legacy_stream().expect("the legacy stream");
        let elsewhere = trial.elsewhere().legacy_stream().expect("another legacy stream");
        shelf.freed_in_use(trial, &legacy);
        if design == Design::Wrong {
            elsewhere.synchronize().expect("nothing is queued");
        } else {
            trial.end_of(&legacy);
        }
        shelf.lend_and_write(&next);
    },
);
