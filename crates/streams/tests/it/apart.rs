//! What is made apart orders the device, and moves nothing that is settled (R9).

use streams::{Point, Stream};

use crate::rig::{Block, Rig};

/// What somebody does apart between the calls of a program.
type Doings = fn(&Stream, &Stream);

/// Fences, waits and synchronizations, as an answer may decide them.
fn all_of_them(user: &Stream, other: &Stream) {
    let fence = user.order().apart().fence_now().unwrap();
    other.order().apart().wait_fence(&fence).unwrap();
    let _fence = other.order().apart().fence_now().unwrap();
    other.order().poll().unwrap();
    fence.synchronize_apart().unwrap();
}

/// What decisions by the calls alone rest on.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// How often a new position is one more than the last.
    steps: Vec<bool>,
    settled: Vec<bool>,
    exact: Vec<bool>,
    skipped: Vec<bool>,
    slots: Vec<u32>,
}

fn program(doings: Doings) -> Seen {
    let rig = Rig::lazy();
    rig.context.keep_answers_apart();
    rig.context.expect_waits_apart();
    let [block, own] = [0; 2].map(|_| rig.block());
    let [user, other, third] = rig.streams();
    let mut seen =
        Seen { steps: vec![], settled: vec![], exact: vec![], skipped: vec![], slots: vec![] };
    let mut last: Option<Point> = None;
    for round in 0..4 {
        let used = rig.use_on(&user, &block);
        doings(&user, &other);
        let event = other.record_event().unwrap();
        doings(&user, &other);
        third.wait_event(&event).unwrap();
        let now = other.order().settled_position();
        seen.steps.push(last.is_some_and(|last| last < now));
        last = Some(now);
        let order = third.order();
        let asked = [used, now, order.settled_position()];
        seen.settled.extend(asked.map(|point| order.is_settled(point)));
        seen.settled.extend(asked.map(|point| order.knows_settled(point)));
        seen.exact.push(user.order().fence_exactly(used).is_some());
        seen.exact.push(other.order().fence_covering(now).is_some());
        // Something new to wait for, in every second round.
        if round % 2 == 1 {
            rig.use_on(&other, &own);
        }
        // A wait counts only where it is not known that it is needless.
        let before = order.settled_position();
        third.wait_stream(&other).unwrap();
        seen.skipped.push(order.settled_position() == before);
        let passing = rig.stream();
        passing.wait_stream(&user).unwrap();
        doings(&user, &passing);
        passing.record_event().unwrap().synchronize().unwrap();
        doings(&user, &passing);
        seen.slots.push(passing.order().slot().index());
        if round == 2 {
            rig.context.synchronize().unwrap();
        }
    }
    seen
}

#[test]
fn r9_what_is_made_apart_moves_nothing_that_is_settled() {
    let without = program(|_, _| ());
    assert_eq!(program(all_of_them), without);
    for seen in [&without.settled, &without.exact, &without.skipped] {
        assert!(seen.contains(&true) && seen.contains(&false), "{without:?}");
    }
}

/// The control: the same doings, as if the program itself had done them.
#[test]
fn r9_what_the_program_does_itself_is_seen() {
    let openly: Doings = |user, other| {
        let fence = user.order().fence_now().unwrap();
        other.order().wait_fence(&fence).unwrap();
        let _fence = other.order().fence_now().unwrap();
        fence.synchronize().unwrap();
    };
    assert_ne!(program(openly), program(|_, _| ()));
}

fn with_a_wait_apart(rig: &Rig) -> (Block, Point, [Stream; 3]) {
    rig.context.keep_answers_apart();
    rig.context.expect_waits_apart();
    let block = rig.block();
    let [user, other, third] = rig.streams();
    third.wait_stream(&other).unwrap();
    let used = rig.use_on(&user, &block);
    let fence = user.order().apart().fence_now().unwrap();
    other.order().apart().wait_fence(&fence).unwrap();
    (block, used, [user, other, third])
}

/// A stream that was made to wait apart hands that order on, whoever waits for it, although what
/// is settled says that there is nothing new to wait for.
#[test]
fn r9_order_that_was_made_apart_is_handed_on_by_waits_of_the_program() {
    let rig = Rig::lazy();
    let (block, used, [_user, other, third]) = with_a_wait_apart(&rig);
    rig.assert_known(&other, used, &block, true);
    rig.assert_known(&third, used, &block, false);
    let before = third.order().settled_position();
    third.wait_stream(&other).unwrap();
    rig.assert_known(&third, used, &block, true);
    assert!(!third.order().knows_settled(used), "who goes by the calls does not know of it");
    assert_eq!(third.order().settled_position(), before);
}

/// An event, too, stands for more than is settled.
#[test]
fn r9_order_that_was_made_apart_is_handed_on_by_events() {
    let rig = Rig::lazy();
    let (block, used, [_user, other, third]) = with_a_wait_apart(&rig);
    third.wait_event(&other.record_event().unwrap()).unwrap();
    rig.assert_known(&third, used, &block, true);
    assert!(!third.order().knows_settled(used));
    third.synchronize().unwrap();
    assert!(third.order().is_complete(used), "who waits for the waiter has waited for it all");
    assert!(!third.order().is_settled(used));
}

/// The last wait of a stream may be one made apart. Its slot is not another stream's before that
/// has ended: the new stream comes after all of the old.
#[test]
fn r9_a_slot_is_not_used_again_before_what_was_made_apart_has_ended() {
    let rig = Rig::lazy();
    rig.context.keep_answers_apart();
    rig.context.expect_waits_apart();
    let block = rig.block();
    let [user, other] = rig.streams();
    let slot = other.order().slot();
    rig.use_on(&other, &rig.block());
    other.synchronize().unwrap();
    rig.use_on(&user, &block);
    let fence = user.order().apart().fence_now().unwrap();
    other.order().apart().wait_fence(&fence).unwrap();
    drop(other);
    assert_ne!(rig.stream().order().slot(), slot);
    rig.context.synchronize().unwrap();
    let next = [(); 3].map(|()| rig.stream());
    assert!(next.iter().any(|stream| stream.order().slot() == slot), "the slot is lost");
}

/// Where answers are not kept apart there is no difference.
#[test]
fn nothing_is_apart_unless_answers_are() {
    let rig = Rig::lazy();
    let block = rig.block();
    let [user, other] = rig.streams();
    let used = rig.use_on(&user, &block);
    let fence = user.order().apart().fence_now().unwrap();
    assert!(user.order().fence_exactly(used).is_some());
    other.order().apart().wait_fence(&fence).unwrap();
    assert!(other.order().knows_settled(used));
    assert_eq!(other.order().settled_position(), other.order().position());
    fence.synchronize_apart().unwrap();
    assert!(other.order().is_settled(used));
}
