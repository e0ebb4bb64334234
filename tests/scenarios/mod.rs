//! What is promised, as functions over a rig that names no driver.
//!
//! `tests/it` runs them on the simulated driver under many schedules, `tests/gpu` runs the same
//! ones on a GPU.

pub mod order;
pub mod rig;
pub mod uses;

use rig::Rig;

/// One scenario.
pub type Scenario = (&'static str, fn(&dyn Rig));

macro_rules! scenarios {
    ($($topic:ident { $($name:ident)* })*) => {
        /// All scenarios, each by topic and name.
        pub const ALL: &[Scenario] = &[
            $($((concat!(stringify!($topic), "::", stringify!($name)), $topic::$name),)*)*
        ];

        /// Declares a test for each scenario, which hands its name to `run`.
        #[allow(unused_macros, reason = "the GPU suite has a harness of its own")]
        macro_rules! each_scenario {
            ($run:path) => {
                $(mod $topic {
                    $(#[test]
                    fn $name() {
                        $run(concat!(stringify!($topic), "::", stringify!($name)));
                    })*
                })*
            };
        }
    };
}

scenarios! {
    uses {
        record_stream_keeps_a_block_until_its_use_is_over
        a_use_that_the_home_waited_for_costs_nothing
        an_exact_use_ends_before_what_was_queued_later
        an_exact_use_ends_with_its_own_event
        of_two_uses_the_later_one_counts
        an_event_before_the_use_does_not_cover_it
        every_reader_keeps_a_block
        a_burst_of_frees_records_once_for_a_used_stream
        a_forgotten_guard_still_protects_the_block
        an_announced_use_is_sharpened_or_cancelled
        a_launch_records_its_use_by_itself
        completion_is_found_by_asking
        deterministic_never_asks_the_device
        pytorch_never_crosses_streams
        steady_reuse_on_one_stream_makes_no_call
    }
    order {
        a_block_goes_to_a_stream_that_waited_for_its_home
        a_block_goes_to_a_stream_that_waited_for_an_event
        an_event_before_the_last_use_is_not_enough
        order_is_handed_on_only_from_after_the_wait
        an_event_stands_for_its_last_record
        a_wait_is_a_submission
        a_block_that_was_passed_on_keeps_all_its_history
        a_context_synchronisation_completes_every_free
        implicit_order_of_the_legacy_stream_is_no_knowledge
        a_synchronous_copy_says_nothing_of_other_streams
        a_new_stream_does_not_inherit_the_order_of_an_old_one
    }
}
