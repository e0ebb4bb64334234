//! What is promised, as functions over a rig that names no driver.
//!
//! `tests/it` runs them on the simulated driver under many schedules, `tests/gpu` runs the same
//! ones on a GPU.

pub mod bounds;
pub mod broken;
pub mod capture;
pub mod depth;
pub mod exit;
pub mod lifecycle;
pub mod limits;
pub mod order;
pub mod pools;
pub mod raw;
pub mod rig;
pub mod snapshot;
pub mod split_merge;
pub mod stranded;
pub mod users;
pub mod uses;
pub mod waits;

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
    depth {
        a_producer_keeps_as_many_blocks_as_its_depth
        a_stream_without_bursts_behind_the_use_is_not_waited_for
        a_gate_is_not_waited_for_at_any_depth
        what_lies_before_a_gate_is_waited_for
        cached_memory_does_not_pile_up_as_pending
        neighbors_are_waited_for_together
        an_exact_use_is_waited_for_by_the_fence_of_its_free
        exact_uses_of_one_burst_share_a_record
        on_a_stream_of_others_each_free_records_once
    }
    waits {
        above_the_pending_bound_a_stream_waits_on_the_device
        the_block_with_the_fewest_and_oldest_fences_goes_first
        no_stream_waits_for_a_gate_of_the_host
        no_stream_waits_for_a_host_function
        nobody_waits_where_it_was_forbidden
        a_high_priority_waits_for_a_lower_one_only_at_the_limit
        what_was_waited_for_is_known_from_then_on
    }
    split_merge {
        a_joined_block_is_after_all_its_parts
        the_middle_of_a_joined_block_is_after_both_parts
        a_split_block_gives_each_part_its_own_history
        the_rest_of_a_split_block_keeps_its_uses
        blocks_of_one_stream_join_without_a_call
        a_pending_neighbour_does_not_hold_up_a_ready_block
        a_free_takes_no_memory_from_other_streams
    }
    limits {
        a_request_above_the_limit_says_that_it_can_never_fit
        an_out_of_memory_error_says_who_holds_what
        at_the_limit_a_stream_waits_on_the_device
        at_the_limit_the_host_waits_where_streams_may_not
        the_host_is_not_made_to_wait_for_its_own_gate
        cached_memory_makes_room_for_growth
        memory_goes_back_only_when_it_is_complete
        empty_cache_waits_and_gives_everything_back
        the_limit_is_kept
    }
    lifecycle {
        zero_bytes_are_a_block_without_memory
        a_raw_block_can_be_taken_back_once
        a_raw_block_of_another_allocator_is_refused
        a_block_may_be_freed_on_another_thread
        a_per_thread_stream_is_fenced_by_its_own_thread
        a_stream_may_go_before_its_blocks
        a_hold_keeps_a_block_beyond_its_free
        blocks_outlive_the_allocators_handle
        an_allocator_may_end_behind_a_gate_that_its_thread_opens
    }
    capture {
        memory_handed_out_in_a_capture_is_complete
        a_graph_holds_what_it_uses
        memory_goes_in_and_out_of_a_capture
        the_allocator_breaks_no_capture
    }
    snapshot {
        a_snapshot_shows_every_block_in_its_state
        every_figure_is_found_again_in_a_snapshot
        a_snapshot_says_whether_a_request_fits
    }
    stranded {
        a_poll_frees_what_is_done_and_says_how_much
        a_poll_asks_nothing_where_the_policy_forbids_it
        memory_that_its_stream_may_use_is_not_stranded
        a_request_is_told_why_it_cannot_use_what_is_there
        a_retired_streams_cache_becomes_everyones
        under_the_pytorch_policy_a_retired_cache_is_inherited_or_given_back
    }
    bounds {
        a_bound_holds_the_host_up_at_its_figure
        a_bound_holds_the_stream_up_at_its_figure
        a_bound_is_for_each_stream_or_for_all_together
        a_pool_has_a_bound_of_its_own
        a_bound_hangs_nobody_before_a_gate
        a_bound_on_memory_in_flight_makes_room_for_a_request
        a_bound_on_the_device_needs_a_policy_that_waits
        a_bound_does_not_count_what_a_hold_keeps
    }
    users {
        a_stream_waits_for_everybody_who_used_a_block
        a_wait_for_users_costs_a_call_only_for_what_is_not_known
        an_exact_use_is_waited_for_and_nothing_behind_it
        a_user_that_has_ended_is_waited_for_by_its_last_fence
        a_block_that_was_waited_for_is_freed_without_a_call
    }
    pools {
        a_pool_keeps_its_memory_apart
        each_pool_has_a_policy_of_its_own
        limits_hold_for_a_pool_and_for_all_of_them
        a_deterministic_pool_is_left_as_it_is
        a_dropped_pool_goes_when_its_last_block_is_complete
        a_complete_pool_goes_with_its_last_handle
        a_pool_outlives_its_allocator
    }
    exit {
        an_allocator_may_go_while_blocks_are_pending
        streams_may_go_before_the_allocator
        streams_that_come_and_go_leave_nothing_behind
    }
}
