//! Blocks that pass from stream to stream, whole and in parts: L1, L3, L6, L9, L10, L11 and L29.

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;

use allocator::{Config, Sabotage};
use streams::Stream;

use super::Litmus;
use super::trial::{Design, Trial};
use crate::scenarios::rig::WHOLE;

pub const L1: Litmus = Litmus::alone(
    "L1",
    "a list that was merged in stands under the thief's older event",
    |trial| {
        let allocator = trial.allocator();
        let [home, thief, third] = trial.streams();
        let stale = thief.record_event().expect("an event");
        let x = trial.take(&allocator, &home);
        trial.hold(&home);
        x.fill(&home, 1);
        let freed = x.free();
        thief.wait_stream(&home).expect("a wait");
        let merged = trial.take(&allocator, &thief);
        assert_eq!(merged.address(), freed);
        merged.give_back();
        third.wait_event(&stale).expect("a wait");
        if trial.has_edge() {
            third.wait_stream(&thief).expect("a wait");
        }
        trial.ask(&allocator, &third, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [home, thief, third]) = (trial.shelf(), trial.streams());
        let of_the_list = thief.record_event().expect("an event");
        shelf.freed_in_use(trial, &home);
        thief.wait_stream(&home).expect("a wait");
        if design == Design::Right {
            thief.record(&of_the_list).expect("a record");
        }
        third.wait_event(&of_the_list).expect("a wait");
        shelf.lend_and_write(&third);
    },
);

fn handle(trial: &Trial<'_>, stream: &Stream) -> usize {
    trial.rig.machine().stream_with_id(stream.id()).expect("a living stream")
}

pub const L3: Litmus = Litmus::alone(
    "L3",
    "lists are kept by handle, and the driver gives a handle out again",
    |trial| {
        let allocator = trial.allocator();
        let [home, between] = trial.streams();
        let x = trial.take(&allocator, &home);
        trial.hold(&home);
        x.fill(&home, 1);
        let freed = x.free();
        between.wait_stream(&home).expect("a wait");
        let old = handle(trial, &home);
        drop(home);
        let [next] = trial.streams();
        assert_eq!(handle(trial, &next), old, "the driver recycles handles at once");
        if trial.has_edge() {
            next.wait_stream(&between).expect("a wait");
        }
        trial.ask(&allocator, &next, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [home]) = (trial.shelf(), trial.streams());
        shelf.freed_in_use(trial, &home);
        let key = |stream: &Stream| match design {
            Design::Wrong => u64::try_from(handle(trial, stream)).expect("an address"),
            Design::Right => stream.id(),
        };
        let lists = BTreeMap::from([(key(&home), "the block")]);
        drop(home);
        let [next] = trial.streams();
        if lists.contains_key(&key(&next)) {
            shelf.lend_and_write(&next);
        }
    },
);

pub const L6: Litmus = Litmus::alone(
    "L6",
    "one read event for many readers: the last one counts",
    |trial| {
        let allocator = trial.allocator();
        let [home, slow, fast] = trial.streams();
        let x = trial.take(&allocator, &home);
        x.fill(&home, 1);
        for reader in [&slow, &fast] {
            reader.wait_stream(&home).expect("a wait");
            x.block().record_stream(reader);
        }
        trial.hold(&slow);
        x.check(&slow, 1);
        x.check(&fast, 1);
        home.wait_stream(&fast).expect("a wait");
        if trial.has_edge() {
            home.wait_stream(&slow).expect("a wait");
        }
        let freed = x.free();
        trial.ask(&allocator, &home, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [home, slow, fast]) = (trial.shelf(), trial.streams());
        shelf.used_on(trial, &home, &[&slow]);
        fast.wait_stream(&home).expect("a wait");
        let read = slow.record_event().expect("an event");
        if design == Design::Right {
            home.wait_event(&read).expect("a wait");
        }
        fast.record(&read).expect("a record");
        shelf.take_back(&home);
        home.wait_event(&read).expect("a wait");
        shelf.lend_and_write(&home);
    },
);

pub const L9: Litmus = Litmus::alone(
    "L9",
    "the fill of new memory on another stream is not counted as a use",
    |trial| {
        let allocator = trial.allocator();
        let [home, filler] = trial.streams();
        let mut x = trial.take(&allocator, &home);
        trial.hold(&filler);
        // The launch is given the block, and tells it of its use.
        trial.desk().fill_memory(&filler, x.block_mut(), 1);
        if trial.has_edge() {
            home.wait_stream(&filler).expect("a wait");
        }
        let freed = x.free();
        trial.ask(&allocator, &home, (freed, WHOLE));
    },
    |trial, design| {
        let (shelf, [home, filler]) = (trial.shelf(), trial.streams());
        shelf.lend(&home);
        trial.hold(&filler);
        shelf.write(&filler, 1);
        shelf.take_back(&home);
        if design == Design::Right {
            home.wait_stream(&filler).expect("a wait");
        }
        shelf.lend_and_write(&home);
    },
);

/// The settings of a model that is the product without one check.
fn without(check: Sabotage, design: Design) -> Config {
    let mut config = Config::default();
    config.sabotage = (design == Design::Wrong).then_some(check);
    config
}

/// A frees X, B frees its neighbour Y; A asks for both.
fn joined(trial: &Trial<'_>, config: Config) {
    let allocator = trial.desk().allocator(config);
    let [a, b, c] = trial.streams();
    let x = trial.take(&allocator, &a);
    trial.take(&allocator, &a).give_back();
    b.wait_stream(&a).expect("a wait");
    let y = trial.take(&allocator, &b);
    assert_eq!(x.address() + WHOLE, y.address(), "neighbours");
    trial.hold(&b);
    y.fill(&b, 2);
    x.fill(&a, 1);
    y.give_back();
    let start = x.free();
    if trial.has_edge() {
        a.wait_stream(&b).expect("a wait");
    }
    trial.ask(&allocator, &a, (start, 2 * WHOLE));
    // The middle, for a stream that is after both or after the first alone.
    c.wait_stream(&a).expect("a wait");
    trial.ask_anything(&allocator, &c, WHOLE);
}

pub const L10: Litmus = Litmus::alone(
    "L10",
    "a joined block keeps the frontier of one part",
    |trial| joined(trial, Config::default()),
    |trial, design| joined(trial, without(Sabotage::MergeKeepsOneFrontier, design)),
);

/// A reader still uses A's block when a thief that is after the reader takes its front; A asks
/// for the rest.
fn stolen(trial: &Trial<'_>, config: Config) {
    let allocator = trial.desk().allocator(config);
    let [a, reader, thief] = trial.streams();
    let x = crate::scenarios::rig::take(trial.rig, &allocator, &a, 2 * WHOLE);
    x.fill(&a, 1);
    reader.wait_stream(&a).expect("a wait");
    trial.hold(&reader);
    x.check(&reader, 1);
    x.block().record_stream(&reader);
    let start = x.free();
    thief.wait_stream(&reader).expect("a wait");
    let front = trial.take(&allocator, &thief);
    assert_eq!(front.address(), start, "the thief is after everybody");
    front.fill(&thief, 2);
    if trial.has_edge() {
        a.wait_stream(&reader).expect("a wait");
    }
    trial.ask(&allocator, &a, (start + WHOLE, WHOLE));
    front.give_back();
    // Stolen again: by a stream that is after the first thief.
    let [again] = trial.streams();
    again.wait_stream(&thief).expect("a wait");
    trial.ask_anything(&allocator, &again, WHOLE);
}

pub const L11: Litmus = Litmus::alone(
    "L11",
    "what a thief leaves forgets who used the whole",
    |trial| stolen(trial, Config::default()),
    |trial, design| stolen(trial, without(Sabotage::SplitForgetsFrontier, design)),
);

pub const L29: Litmus = Litmus::alone(
    "L29",
    "a use is noted when its guard is dropped, and the guard was forgotten",
    |trial| {
        let allocator = trial.allocator();
        let [home, user] = trial.streams();
        let x = trial.take(&allocator, &home);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        let _forgotten = ManuallyDrop::new(x.block().begin_use(&user).expect("a living stream"));
        trial.hold(&user);
        x.check(&user, 1);
        if trial.has_edge() {
            home.wait_stream(&user).expect("a wait");
        }
        let freed = x.free();
        trial.ask(&allocator, &home, (freed, WHOLE));
    },
    |trial, design| {
        /// Notes a use when it is dropped.
        struct Guard<'a>(&'a std::cell::RefCell<Vec<Stream>>, Stream);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.borrow_mut().push(self.1.clone());
            }
        }
        let (shelf, [home, user]) = (trial.shelf(), trial.streams());
        let uses = std::cell::RefCell::default();
        let guard = Guard(&uses, user.clone());
        shelf.used_on(trial, &home, &[&user]);
        if design == Design::Right {
            drop(guard);
        } else {
            let _forgotten = ManuallyDrop::new(guard);
        }
        shelf.take_back(&home);
        for user in uses.borrow().iter() {
            home.wait_stream(user).expect("a wait");
        }
        shelf.lend_and_write(&home);
    },
);
