//! The checker finds each planted fault on the simulated device, and nothing in its repair.

use cuda_sim::Schedule;
use wellspring::{Builder, Runtime, Simulation};

use crate::planted_faults::{all, assert_found, reports};

fn runtime(schedule: Schedule) -> Runtime {
    let simulation = Simulation::default().schedule(schedule);
    Builder::new().checked().simulation(simulation).simulated().expect("a simulated device")
}

fn check(name: &str) {
    let planted = all().find(|planted| planted.name == name).expect("a fault of this name");
    let fixed = [Schedule::Eager, Schedule::Lazy, Schedule::Timed];
    for schedule in fixed.into_iter().chain((0..4).map(Schedule::Seeded)) {
        assert_found(planted, &reports(planted, runtime(schedule.clone()), true));
        let found = reports(planted, runtime(schedule.clone()), false);
        let listed: String = found.iter().map(|report| format!("\n{report}")).collect();
        assert!(found.is_empty(), "{name}, repaired, under {schedule:?}: {listed}");
    }
}

macro_rules! faults {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        #[test]
        fn every_fault_has_its_test() {
            let tested = [$(stringify!($name)),*];
            assert!(all().all(|planted| tested.contains(&planted.name)));
            assert!(20 <= tested.len());
        }
    };
}

faults! {
    a_user_does_not_wait_for_the_allocation
    a_reader_does_not_wait_for_the_writer
    a_writer_does_not_wait_for_the_reader
    two_writers_run_side_by_side
    the_wrong_one_of_two_waits
    a_third_stream_is_forgotten
    a_wait_comes_before_the_write
    a_host_copy_does_not_wait
    parts_of_two_writers_overlap
    an_order_is_lost_on_the_way
    a_replay_is_not_waited_for
    an_event_is_recorded_before_the_write
    an_event_is_never_recorded
    an_event_of_another_stream_is_waited_for
    an_event_is_recorded_anew_elsewhere
    a_span_is_written_after_the_free
    a_span_is_read_on_another_stream_after_the_free
    a_graph_of_raw_memory_runs_after_the_free
    a_launch_on_a_span_is_not_told
    a_copy_from_a_span_is_not_told
    a_use_is_recorded_before_the_last_launch
    the_home_waited_for_an_early_event
    a_stale_span_is_read
    a_stale_span_is_read_on_another_stream
}
