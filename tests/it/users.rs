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
