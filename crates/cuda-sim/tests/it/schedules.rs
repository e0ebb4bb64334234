//! The same seed gives the same run, and different seeds different ones.

use std::collections::BTreeSet;

use cuda_sim::Schedule;

use crate::rig::{Rig, SUCCESS};
use crate::{cu, ok};

/// A racy program whose outcome depends on the schedule: answers and bytes.
fn outcome(schedule: Schedule) -> (Vec<u32>, u64, Vec<String>) {
    let rig = Rig::new(schedule);
    let streams: Vec<_> = (0..4).map(|_| rig.stream()).collect();
    let block = rig.alloc(64);
    let mut seen = Vec::new();
    for round in 0..20_u32 {
        for (index, &stream) in (0..).zip(&streams) {
            rig.put(stream, block + u64::from(round % 4) * 4, round * 10 + index);
        }
        let asked = streams.iter().cycle().nth(usize::try_from(round).unwrap()).unwrap();
        seen.push(u32::from(cu!(rig, stream_query(*asked)) == SUCCESS));
        seen.push(rig.peek(block));
    }
    ok!(rig, ctx_synchronize());
    seen.push(rig.peek(block + 12));
    (seen, rig.machine.virtual_time(), rig.hazard_texts())
}

#[test]
fn s7_the_same_seed_gives_the_same_run() {
    for seed in 0..20 {
        assert_eq!(outcome(Schedule::Seeded(seed)), outcome(Schedule::Seeded(seed)));
    }
}

#[test]
fn different_seeds_give_different_runs_and_the_same_hazards() {
    let outcomes: Vec<_> = (0..20).map(|seed| outcome(Schedule::Seeded(seed))).collect();
    let distinct: BTreeSet<_> = outcomes.iter().map(|outcome| &outcome.0).collect();
    assert!(15 < distinct.len(), "{} distinct runs of 20", distinct.len());
    let races: BTreeSet<_> = outcomes.iter().map(|outcome| outcome.2.len()).collect();
    assert!(races.iter().all(|count| 0 < *count));
}

#[test]
fn a_script_decides_what_a_query_answers() {
    for (script, expected) in [(vec![0], 1), (vec![1, 0], 2), (vec![1, 1, 1, 1, 1], 4)] {
        let rig = Rig::new(Schedule::Scripted(script));
        let a = rig.stream();
        let block = rig.alloc(4);
        rig.put(a, block, 1);
        let mut asked = 1;
        while cu!(rig, stream_query(a)) != SUCCESS {
            asked += 1;
        }
        assert_eq!(asked, expected);
    }
}
