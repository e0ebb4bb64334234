//! Uses on lanes: order, number, and what happens when lanes run out.

use std::collections::HashMap;

use trace::pytorch::StreamHandle;
use trace::{BlockNumber, Operation, Operations, StreamNumber};

use super::{Gate, LANE_GATES_MAX, LANES_MAX, Lane, Plan, Step, Uses};

/// Operations over blocks of one stream: `+` allocates the next block, `-n` frees, `~n` frees
/// with a use, `.n` ends the use.
fn operations(script: &str) -> Operations {
    let mut operations = Operations::default();
    operations.streams.push(StreamHandle(0));
    for word in script.split_whitespace() {
        let block = || BlockNumber(word[1..].parse().unwrap());
        let operation = match &word[..1] {
            "+" => {
                operations.block_count += 1;
                let block = BlockNumber(u32::try_from(operations.block_count - 1).unwrap());
                Operation::Allocate { block, bytes: 512, stream: StreamNumber(0) }
            }
            "-" => Operation::Free { block: block(), deferred: false },
            "~" => Operation::Free { block: block(), deferred: true },
            "." => Operation::Complete { block: block() },
            other => panic!("{other} means nothing"),
        };
        operations.list.push(operation);
    }
    operations
}

/// Follows the steps: every use must be held by its lane until its end and, unless prolonged, no
/// longer. Gives the most gates that were closed on one lane.
fn check_order(plan: &Plan) -> usize {
    let mut lanes: HashMap<Lane, Vec<Gate>> = HashMap::new();
    let mut held_by: HashMap<BlockNumber, (Lane, Gate)> = HashMap::new();
    let mut opened: Option<Gate> = None;
    let mut ended: Vec<BlockNumber> = Vec::new();
    let mut most = 0;
    for step in &plan.steps {
        match *step {
            Step::Close { lane, gate } => {
                assert!(opened < Some(gate), "{gate:?} was open before it was closed");
                let gates = lanes.entry(lane).or_default();
                assert!(gates.last().is_none_or(|last| *last < gate), "{lane:?} is out of order");
                gates.push(gate);
                most = most.max(gates.len());
            }
            Step::FreeUsed { block, lane } => {
                let gate = *lanes[&lane].last().expect("a use needs a closed gate");
                held_by.insert(block, (lane, gate));
            }
            Step::Over { block } => ended.push(block),
            Step::Open { gate } => {
                assert!(opened < Some(gate), "{gate:?} opens out of order");
                opened = Some(gate);
                lanes.values_mut().for_each(|gates| gates.retain(|closed| gate < *closed));
                for block in ended.drain(..) {
                    assert!(gate <= held_by[&block].1, "{block:?} ended before it should");
                    if plan.prolonged_count == 0 {
                        assert_eq!(held_by[&block].1, gate, "{block:?} is held too long");
                    }
                }
            }
            Step::Allocate { .. } | Step::Free { .. } => ended.clear(),
        }
    }
    most
}

#[test]
fn uses_that_end_together_share_a_gate_and_a_lane() {
    let plan = Plan::new(&operations("+ + + ~0 ~1 ~2 .1 .0 + .2"), Uses::Recorded);
    check_order(&plan);
    assert_eq!((plan.lane_count, plan.gate_count, plan.deferred_free_count), (1, 2, 3));
    let closes = plan.steps.iter().filter(|step| matches!(step, Step::Close { .. })).count();
    assert_eq!(closes, 2);
    assert_eq!(plan.operation_count, 7);
}

#[test]
fn a_use_that_ends_before_an_earlier_one_needs_a_lane_of_its_own() {
    let plan = Plan::new(&operations("+ + + ~0 ~1 ~2 .2 + .1 + .0"), Uses::Recorded);
    check_order(&plan);
    assert_eq!((plan.lane_count, plan.gate_count), (3, 3));
}

#[test]
fn a_use_that_never_ends_is_held_to_the_end() {
    let plan = Plan::new(&operations("+ + ~0 ~1 + .1"), Uses::Recorded);
    check_order(&plan);
    assert_eq!((plan.lane_count, plan.gate_count), (2, 2));
    assert!(!plan.steps.contains(&Step::Open { gate: Gate(1) }));
}

#[test]
fn without_uses_a_free_is_plain() {
    let plan = Plan::new(&operations("+ + ~0 ~1 + .1"), Uses::None);
    assert_eq!((plan.lane_count, plan.gate_count, plan.deferred_free_count), (0, 0, 0));
    assert_eq!(plan.steps.len(), 5);
    assert!(plan.steps.contains(&Step::Free { block: BlockNumber(1) }));
}

#[test]
fn frees_of_initial_blocks_are_not_counted_as_deferred() {
    let mut operations = operations("+ ~0 + ~1 .0");
    operations.initial_operation_count = 2;
    let plan = Plan::new(&operations, Uses::Recorded);
    check_order(&plan);
    assert_eq!(plan.deferred_free_count, 1);
    assert!(matches!(plan.steps[plan.initial_step_count], Step::Allocate { .. }));
}

#[test]
fn when_lanes_run_out_a_use_lasts_longer() {
    let count = LANES_MAX + 10;
    let mut script = "+ ".repeat(count);
    (0..count).for_each(|block| script.push_str(&format!("~{block} ")));
    (0..count).rev().for_each(|block| script.push_str(&format!(".{block} + ")));
    let plan = Plan::new(&operations(&script), Uses::Recorded);
    check_order(&plan);
    assert_eq!((plan.lane_count, plan.prolonged_count), (LANES_MAX, 10));
}

#[test]
fn a_lane_takes_no_more_gates_than_its_limit_while_there_are_others() {
    let count = LANE_GATES_MAX * 2 + 1;
    let mut script = "+ ".repeat(count);
    (0..count).for_each(|block| script.push_str(&format!("~{block} ")));
    (0..count).for_each(|block| script.push_str(&format!(".{block} + ")));
    let plan = Plan::new(&operations(&script), Uses::Recorded);
    assert_eq!(check_order(&plan), LANE_GATES_MAX);
    assert_eq!((plan.lane_count, plan.prolonged_count), (3, 0));
}

#[test]
fn full_lanes_still_take_a_use_that_ends_last() {
    let count = LANE_GATES_MAX * LANES_MAX + 1;
    let mut script = "+ ".repeat(count);
    (0..count).for_each(|block| script.push_str(&format!("~{block} ")));
    (0..count).for_each(|block| script.push_str(&format!(".{block} + ")));
    let plan = Plan::new(&operations(&script), Uses::Recorded);
    assert_eq!(check_order(&plan), LANE_GATES_MAX + 1);
    assert_eq!((plan.lane_count, plan.prolonged_count), (LANES_MAX, 0));
}

proptest::proptest! {
    /// Any order of frees and ends keeps every lane in order and every use held.
    #[test]
    fn lanes_keep_any_order(ends in proptest::collection::vec(0_u32..60, 1..80)) {
        // Block n is freed at time n, and its use ends `ends[n]` frees later.
        let count = u32::try_from(ends.len()).unwrap();
        let mut script = "+ ".repeat(ends.len());
        for time in 0..count + 60 {
            if time < count {
                script.push_str(&format!("~{time} "));
            }
            for (block, end) in (0..).zip(&ends) {
                if block + end == time {
                    script.push_str(&format!(".{block} "));
                }
            }
            script.push_str("+ ");
        }
        let plan = Plan::new(&operations(&script), Uses::Recorded);
        check_order(&plan);
        proptest::prop_assert_eq!(plan.deferred_free_count, ends.len());
    }
}
