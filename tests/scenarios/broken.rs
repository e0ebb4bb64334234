//! Programs that go wrong if one check is left out, and that show that with the check the block
//! is reused all the same (S11, R10).
//!
//! Each works on a stream that is busy for a while, so that on a GPU a missing edge loses words
//! for certain, and under a policy that never asks, so that nothing is found complete by luck.

use allocator::{Config, Policy, Sabotage};

use super::rig::{Rig, WHOLE, served, take, without_calls};

/// What a program saw.
#[derive(Debug)]
pub struct Verdict {
    /// Whether memory came back although nothing ordered the work that still used it.
    pub early: bool,
    /// Whether it came back once that work was known to come before.
    pub late: bool,
    /// The work that a report must name, and the ids of its stream and of the one that got the
    /// memory.
    pub work: &'static str,
    pub streams: [u64; 2],
}

/// A program, and the check whose absence it shows; none for a swallowed wait.
pub struct Control {
    pub name: &'static str,
    pub left_out: Option<Sabotage>,
    /// Whether words are lost for certain on a device that runs in real time.
    pub loses_words: bool,
    pub program: fn(&dyn Rig, Config) -> Verdict,
}

/// One for each check.
pub const CONTROLS: &[Control] = &[
    Control {
        name: "uses_are_ignored",
        left_out: Some(Sabotage::IgnoreUses),
        loses_words: true,
        program: a_use_on_another_stream,
    },
    Control {
        name: "the_free_point_is_ignored",
        left_out: Some(Sabotage::IgnoreFreePoint),
        loses_words: true,
        program: a_block_for_another_stream,
    },
    Control {
        name: "a_device_side_wait_is_skipped",
        left_out: Some(Sabotage::SkipWait),
        loses_words: true,
        program: a_wait_on_the_device,
    },
    Control {
        name: "a_split_forgets_the_frontier",
        left_out: Some(Sabotage::SplitForgetsFrontier),
        loses_words: true,
        program: a_split,
    },
    Control {
        name: "a_join_keeps_one_frontier",
        left_out: Some(Sabotage::MergeKeepsOneFrontier),
        loses_words: true,
        program: a_join,
    },
    Control {
        name: "memory_is_given_back_incomplete",
        left_out: Some(Sabotage::ReleaseIncomplete),
        loses_words: false,
        program: a_release,
    },
    Control {
        name: "a_wait_is_swallowed",
        left_out: None,
        loses_words: true,
        program: a_known_order,
    },
];

fn never_asks(config: Config) -> Config {
    config.with_policy(Policy::Deterministic)
}

/// Waits for all work, so that a broken program fails where it is meant to and not at its end.
fn end(rig: &dyn Rig) {
    rig.pause();
    rig.desk().context().synchronize().expect("all ends");
}

/// A reader on another stream, recorded; the home asks for memory at once.
fn a_use_on_another_stream(rig: &dyn Rig, config: Config) -> Verdict {
    let desk = rig.desk();
    let allocator = desk.allocator(never_asks(config));
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    desk.busy(&user);
    x.check(&user, 1);
    x.block().record_stream(&user);
    let freed = x.free();
    let y = take(rig, &allocator, &home, WHOLE);
    y.fill(&home, 2);
    let early = y.address() == freed;
    home.wait_stream(&user).expect("a wait");
    let late = !early && {
        let z = without_calls(rig, || take(rig, &allocator, &home, WHOLE));
        z.address() == freed
    };
    end(rig);
    let streams = [user.id(), home.id()];
    Verdict { early, late, work: "kernel check_stamp", streams }
}

/// The home still works; another stream asks for memory.
fn a_block_for_another_stream(rig: &dyn Rig, config: Config) -> Verdict {
    let desk = rig.desk();
    let allocator = desk.allocator(never_asks(config));
    let [home, next] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    desk.busy(&home);
    x.check(&home, 1);
    let freed = x.free();
    let y = take(rig, &allocator, &next, WHOLE);
    y.fill(&next, 2);
    let early = y.address() == freed;
    next.wait_stream(&home).expect("a wait");
    let z = take(rig, &allocator, &next, WHOLE);
    let late = z.address() == freed;
    end(rig);
    let streams = [home.id(), next.id()];
    Verdict { early, late, work: "kernel stamp", streams }
}

/// Pending memory passes its bound: the home waits on the device for the reader.
fn a_wait_on_the_device(rig: &dyn Rig, config: Config) -> Verdict {
    let desk = rig.desk();
    let allocator = desk.allocator(never_asks(config).with_pending_max(0));
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    desk.busy(&user);
    x.check(&user, 1);
    x.block().record_stream(&user);
    let freed = x.free();
    let y = take(rig, &allocator, &home, WHOLE);
    y.fill(&home, 2);
    let late = y.address() == freed && served(&allocator).device_wait == 1;
    // Whether the wait was made shows on the stream alone.
    let early = late && !home.order().knows(user.order().position());
    end(rig);
    let streams = [user.id(), home.id()];
    Verdict { early, late, work: "kernel check_stamp", streams }
}

/// A block that a reader still uses is split by a stream that is after it; the home asks for as
/// much as is left.
fn a_split(rig: &dyn Rig, config: Config) -> Verdict {
    let desk = rig.desk();
    let allocator = desk.allocator(never_asks(config));
    let [home, user, third] = desk.streams();
    let x = take(rig, &allocator, &home, 2 * WHOLE);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    desk.busy(&user);
    x.check(&user, 1);
    x.block().record_stream(&user);
    let rest = x.free() + WHOLE;
    third.wait_stream(&user).expect("a wait");
    let front = take(rig, &allocator, &third, WHOLE);
    front.fill(&third, 3);
    let y = take(rig, &allocator, &home, WHOLE);
    y.fill(&home, 2);
    let early = y.address() == rest;
    home.wait_stream(&user).expect("a wait");
    let z = take(rig, &allocator, &home, WHOLE);
    let late = z.address() == rest;
    end(rig);
    let streams = [user.id(), home.id()];
    Verdict { early, late, work: "kernel check_stamp", streams }
}

/// Two neighbours, freed on two streams that both still work; the first asks for both.
fn a_join(rig: &dyn Rig, config: Config) -> Verdict {
    let desk = rig.desk();
    let allocator = desk.allocator(never_asks(config));
    let [a, b] = desk.streams();
    let x = take(rig, &allocator, &a, WHOLE);
    take(rig, &allocator, &a, WHOLE).give_back();
    b.wait_stream(&a).expect("a wait");
    let y = take(rig, &allocator, &b, WHOLE);
    assert_eq!(x.address() + WHOLE, y.address(), "neighbours");
    y.fill(&b, 1);
    desk.busy(&b);
    y.check(&b, 1);
    x.fill(&a, 1);
    y.give_back();
    let start = x.free();
    let whole = take(rig, &allocator, &a, 2 * WHOLE);
    whole.fill(&a, 2);
    let early = whole.address() == start;
    a.wait_stream(&b).expect("a wait");
    let again = take(rig, &allocator, &a, 2 * WHOLE);
    let late = again.address() == start;
    end(rig);
    let streams = [b.id(), a.id()];
    Verdict { early, late, work: "kernel stamp", streams }
}

/// Free memory on which its own stream still works goes back to the device.
fn a_release(rig: &dyn Rig, config: Config) -> Verdict {
    let desk = rig.desk();
    let allocator = desk.allocator(never_asks(config));
    let home = desk.stream();
    let x = take(rig, &allocator, &home, WHOLE);
    desk.busy(&home);
    x.fill(&home, 1);
    x.give_back();
    let early = !matches!(allocator.trim(u64::MAX), Ok(0));
    // Memory that went too early breaks the context.
    let ended = home.synchronize().is_ok();
    let late = ended && allocator.trim(u64::MAX).expect("a trim") == WHOLE;
    let streams = [home.id(); 2];
    Verdict { early, late, work: "kernel stamp", streams }
}

/// A block goes over to a stream that waited for its home.
fn a_known_order(rig: &dyn Rig, config: Config) -> Verdict {
    let desk = rig.desk();
    let allocator = desk.allocator(never_asks(config));
    let [home, next] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    desk.busy(&home);
    x.check(&home, 1);
    let freed = x.free();
    next.wait_stream(&home).expect("a wait");
    let y = without_calls(rig, || take(rig, &allocator, &next, WHOLE));
    y.fill(&next, 2);
    let late = y.address() == freed;
    end(rig);
    let streams = [home.id(), next.id()];
    Verdict { early: false, late, work: "kernel stamp", streams }
}
