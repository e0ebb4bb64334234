//! What a policy forbids, and waits that may never be made: L7 and L23.

use std::sync::mpsc;

use super::Litmus;
use super::trial::Design;
use crate::scenarios::rig::{Rig as _, WHOLE, served};
use allocator::{Config, Policy};

pub const L7: Litmus = Litmus::alone(
    "L7",
    "what a poll found complete is handed out although the policy forbids it, by the wrong event",
    |trial| {
        let config = Config::default().with_policy(Policy::Deterministic);
        let allocator = trial.desk().allocator(config);
        let [home, user] = trial.streams();
        let x = trial.take(&allocator, &home);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        trial.hold(&user);
        x.check(&user, 1);
        x.block().record_stream(&user);
        let freed = x.free();
        if trial.has_edge() {
            // What the host waited for is knowledge; what it might have asked for is not.
            trial.end_of(&user);
        }
        let queries = ["cuEventQuery", "cuStreamQuery"];
        let asked = || queries.map(|name| trial.rig.calls_of(name));
        let before = asked();
        let reused = trial.ask(&allocator, &home, (freed, WHOLE));
        assert_eq!(asked(), before, "the device was asked");
        assert_eq!(reused, trial.has_edge(), "whatever the device has done");
        assert_eq!(served(&allocator).device_wait, 0);
    },
    |trial, design| {
        let (shelf, [home, user]) = (trial.shelf(), trial.streams());
        shelf.used_on(trial, &home, &[&user]);
        shelf.take_back(&home);
        let freed = home.record_event().expect("an event");
        if design == Design::Wrong && freed.query().expect("an answer") {
            shelf.lend_and_write(&home);
        }
    },
);

pub const L23: Litmus = Litmus::alone(
    "L23",
    "a stream is made to wait for one that the host holds up, and the host waits for it first",
    |trial| {
        let allocator = trial.desk().allocator(Config::default().with_pending_max(0));
        let [home, user] = trial.streams();
        let x = trial.take(&allocator, &home);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        let (gate, opened) = mpsc::channel::<()>();
        if trial.is_held() {
            let wait = move || {
                let _gone = opened.recv();
            };
            let _queued = user.launch_host_function(wait).expect("a host function");
        }
        x.check(&user, 1);
        x.block().record_stream(&user);
        let freed = x.free();
        if trial.has_edge() {
            gate.send(()).expect("the host function waits");
            trial.end_of(&user);
        }
        trial.ask(&allocator, &home, (freed, WHOLE));
        home.synchronize().expect("the home ends before the gate opens");
        drop(gate);
        user.synchronize().expect("the user ends");
    },
    |trial, design| {
        let (shelf, [home, user]) = (trial.shelf(), trial.streams());
        shelf.used_on(trial, &home, &[&user]);
        shelf.take_back(&home);
        if design == Design::Wrong {
            home.wait_stream(&user).expect("a wait");
            shelf.lend_and_write(&home);
        }
        let _ended = home.synchronize();
        trial.open();
    },
);
