//! That a wait for one of several users is not enough, and is caught.

use allocator::Config;
use cuda_sim::Schedule;

use crate::scenarios::rig::{Rig as _, WHOLE, take};
use crate::simulated_rig::SimulatedRig;

/// Two streams read a block and a third writes it: after a wait for all of them nothing is found
/// wrong, after a wait for one of them it is.
#[test]
fn a_wait_for_one_user_of_two_is_caught() {
    for waits_for_all in [true, false] {
        let rig = SimulatedRig::new(Schedule::Lazy);
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let [home, one, two, writer] = desk.streams();
        let x = take(&rig, &allocator, &home, WHOLE);
        x.fill(&home, 1);
        for user in [&one, &two] {
            user.wait_stream(&home).expect("a wait");
            x.check(user, 1);
            x.block().record_stream(user);
        }
        if waits_for_all {
            x.block().wait_all_users(&writer).expect("a wait for all");
        } else {
            writer.wait_stream(&one).expect("a wait");
        }
        x.fill(&writer, 2);
        x.block().record_stream(&writer);
        desk.context().synchronize().expect("all ends");
        let hazards = rig.take_hazards();
        assert_eq!(hazards.is_empty(), waits_for_all, "{hazards:?}");
    }
}

/// Was: a move from a stream whose work was observed to be over made no wait, and a deterministic
/// allocator knew less after it than where nothing had been observed, so places differed (R9).
#[test]
fn a_deterministic_move_leaves_the_same_knowledge_whatever_was_observed() {
    let known = [Schedule::Eager, Schedule::Lazy].map(|schedule| {
        let rig = SimulatedRig::new(schedule);
        let desk = rig.desk();
        let config = Config::default().with_policy(allocator::Policy::Deterministic);
        let allocator = desk.allocator(config);
        let [home, next] = desk.streams();
        let mut block = allocator.allocate(&home, WHOLE).expect("memory");
        desk.fill_memory(&home, &mut block, 1);
        let point = home.order().position();
        let _observed = home.query().expect("an answer");
        block.move_to(&next).expect("a move");
        next.order().knows_settled(point)
    });
    assert_eq!(known, [true, true]);
}
