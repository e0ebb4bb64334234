//! Exhaustive search covers every run that the host can tell apart, and says so.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Mutex;

use cuda_sim::{Explorer, Machine, explore};

use crate::cu;
use crate::rig::{Rig, SUCCESS};

#[test]
fn s6_every_pair_of_answers_is_seen_once() {
    let seen = RefCell::new(Vec::new());
    let coverage = explore(|machine| {
        let rig = Rig::on(machine);
        let (a, b) = (rig.stream(), rig.stream());
        let block = rig.alloc(8);
        rig.put(a, block, 1);
        rig.put(b, block + 4, 1);
        let answers = [a, b].map(|stream| cu!(rig, stream_query(stream)) == SUCCESS);
        seen.borrow_mut().push(answers);
    });
    assert!(coverage.assert_complete().schedules == 4);
    let distinct: BTreeSet<_> = seen.borrow().iter().copied().collect();
    assert_eq!(distinct.len(), 4);
}

#[test]
fn s6_a_budget_that_was_hit_is_not_complete() {
    let explorer = Explorer::new(Machine::builder()).schedules_max(3);
    let coverage = explorer.run(|machine| {
        let rig = Rig::on(machine);
        let a = rig.stream();
        let block = rig.alloc(4);
        for _ in 0..10 {
            rig.put(a, block, 1);
            let _answer = cu!(rig, stream_query(a));
        }
    });
    assert!(!coverage.complete);
    assert_eq!(coverage.schedules, 3);
}

#[test]
fn s6_a_failure_tells_its_script() {
    let failure = std::panic::catch_unwind(|| {
        explore(|machine| {
            let rig = Rig::on(machine);
            let a = rig.stream();
            let block = rig.alloc(4);
            rig.put(a, block, 1);
            assert_eq!(cu!(rig, stream_query(a)), SUCCESS, "the query refused");
        })
    });
    let text = *failure.unwrap_err().downcast::<String>().unwrap();
    assert!(text.starts_with("schedule [1]: ") && text.contains("the query refused"), "{text}");
}

#[test]
fn s7_all_interleavings_of_two_threads_are_seen() {
    let seen = Mutex::new(BTreeSet::new());
    let coverage = explore(|machine| {
        let log = Mutex::new(Vec::new());
        let thread = |name: char| {
            let log = &log;
            Box::new(move || {
                for _ in 0..2 {
                    machine.yield_point();
                    log.lock().unwrap().push(name);
                }
            }) as Box<dyn FnOnce() + Send + '_>
        };
        machine.run_threads(vec![thread('a'), thread('b')]);
        seen.lock().unwrap().insert(log.into_inner().unwrap().into_iter().collect::<String>());
    });
    coverage.assert_complete();
    let seen = seen.into_inner().unwrap();
    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        ["aabb", "abab", "abba", "baab", "baba", "bbaa"]
    );
}
