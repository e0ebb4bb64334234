//! What answers to questions tell, kept apart from what the program's calls say (R9).

use streams::Point;

use crate::rig::{Block, Rig};

/// What a small program leaves behind that later decisions rest on.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    slots: Vec<u32>,
    marks: Vec<u64>,
    settled: Vec<bool>,
    gated: Vec<bool>,
}

/// Two streams wait for each other's work, ask all they can, and come and go.
fn program(rig: &Rig, block: &Block, passed: &[Block]) -> Left {
    let mut left = Left { slots: vec![], marks: vec![], settled: vec![], gated: vec![] };
    let [first, second] = rig.streams();
    for own in passed {
        let used = rig.use_on(&first, block);
        let event = first.record_event().unwrap();
        let _answer = event.query().unwrap();
        second.wait_stream(&first).unwrap();
        let passing = rig.stream();
        passing.wait_event(&event).unwrap();
        let last = rig.use_on(&passing, own);
        let _answer = passing.query().unwrap();
        let order = passing.order().clone();
        drop(passing);
        first.wait_stream(&second).unwrap();
        let points: [Point; 3] = [used, last, first.order().position()];
        left.slots.push(order.slot().index());
        left.marks.extend(points.map(|point| point.mark));
        left.settled.extend(points.map(|point| second.order().knows_settled(point)));
        left.gated.extend([first.order().is_gated(), order.is_gated()]);
    }
    first.synchronize().unwrap();
    left.settled.push(second.order().is_settled(first.order().position()));
    left
}

fn both_ends(apart: bool) -> [Left; 2] {
    [Rig::lazy(), Rig::eager()].map(|rig| {
        if apart {
            rig.context.keep_answers_apart();
        }
        let passed = [0; 4].map(|_| rig.block());
        program(&rig, &rig.block(), &passed)
    })
}

#[test]
fn r9_what_is_settled_depends_on_the_calls_alone() {
    let [behind, ahead] = both_ends(true);
    assert_eq!(behind, ahead);
    assert!(ahead.settled.contains(&false), "answers settled something");
    assert_eq!(ahead.settled.last(), Some(&true), "a synchronization settles");
}

/// The control: where answers count, two runs of one program differ.
#[test]
fn r9_without_keeping_answers_apart_the_device_decides() {
    let [behind, ahead] = both_ends(false);
    assert_ne!(behind, ahead);
}

#[test]
fn r9_an_answer_is_still_known_where_it_settles_nothing() {
    let rig = Rig::eager();
    rig.context.keep_answers_apart();
    let block = rig.block();
    let [user, other] = rig.streams();
    let used = rig.use_on(&user, &block);
    assert!(user.query().unwrap());
    assert!(other.order().knows(used) && !other.order().knows_settled(used));
    user.synchronize().unwrap();
    assert!(other.order().knows_settled(used));
}

/// A wait that an answer makes needless is made all the same, so that marks do not tell of it.
#[test]
fn r9_a_wait_is_left_out_only_for_what_is_settled() {
    let rig = Rig::eager();
    rig.context.keep_answers_apart();
    let block = rig.block();
    let [user, other] = rig.streams();
    rig.use_on(&user, &block);
    assert!(user.query().unwrap());
    let before = rig.calls("cuStreamWaitEvent");
    other.wait_stream(&user).unwrap();
    assert_eq!(rig.calls("cuStreamWaitEvent"), before + 1);
    other.wait_stream(&user).unwrap();
    assert_eq!(rig.calls("cuStreamWaitEvent"), before + 1, "the clock has it");
}
