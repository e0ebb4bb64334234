//! The rules of order, on counters and clocks alone.

use super::*;

struct Engine {
    registry: Registry,
}

impl Engine {
    fn with(streams: usize) -> (Self, Vec<StreamSlot>) {
        let registry = Registry::new();
        let slots = (0..streams).map(|_| registry.open(1, false).unwrap()).collect();
        (Self { registry }, slots)
    }

    fn slot(&self, me: StreamSlot) -> &Slot {
        self.registry.slot(me).unwrap()
    }

    fn submit(&self, me: StreamSlot) -> Point {
        let slot = self.slot(me);
        slot.start();
        Point { stream: me, mark: slot.finish(true, Made::ByCalls).unwrap() }
    }

    fn record(&self, me: StreamSlot) -> Stamp {
        self.slot(me).stamp(me, false)
    }

    fn wait(&self, me: StreamSlot, stamp: &Stamp) {
        let waited = self.submit(me);
        self.registry.learn_wait(me, stamp, waited.mark, Made::ByCalls);
    }

    fn position(&self, me: StreamSlot) -> Point {
        Point { stream: me, mark: self.slot(me).position() }
    }
}

#[test]
fn o1_a_stream_knows_its_own_points_and_a_stranger_none() {
    let (engine, streams) = Engine::with(2);
    let point = engine.submit(streams[0]);
    assert!(engine.registry.knows(streams[0], point));
    assert!(!engine.registry.knows(streams[1], point));
    assert!(!engine.registry.is_complete(point));
}

#[test]
fn o2_now_is_the_last_mark_only_on_a_stream_of_our_own() {
    let (engine, streams) = Engine::with(1);
    let point = engine.submit(streams[0]);
    assert_eq!(engine.position(streams[0]), point);
    engine.slot(streams[0]).share();
    let now = engine.position(streams[0]);
    assert!(point < now);
    assert!(now < engine.position(streams[0]));
}

#[test]
fn o3_completion_joins_only_what_was_stamped_before_the_query() {
    let (engine, streams) = Engine::with(1);
    let early = engine.submit(streams[0]);
    let stamp = engine.record(streams[0]);
    let late = engine.submit(streams[0]);
    engine.registry.learn_answered(&stamp.frontier);
    assert!(engine.registry.is_complete(early));
    assert!(!engine.registry.is_complete(late));
}

#[test]
fn o3_a_use_in_flight_is_not_covered_by_a_stamp_read_before_it_returned() {
    let (engine, streams) = Engine::with(1);
    engine.slot(streams[0]).start();
    let stamp = engine.record(streams[0]);
    let mark = engine.slot(streams[0]).finish(true, Made::ByCalls).unwrap();
    assert!(!stamp.frontier.covers(Point { stream: streams[0], mark }));
}

#[test]
fn l17_a_record_before_the_use_does_not_cover_it_and_one_after_does() {
    let (engine, streams) = Engine::with(2);
    let before = engine.record(streams[0]);
    let used = engine.submit(streams[0]);
    engine.wait(streams[1], &before);
    assert!(!engine.registry.knows(streams[1], used));
    let after = engine.record(streams[0]);
    engine.wait(streams[1], &after);
    assert!(engine.registry.knows(streams[1], used));
}

#[test]
fn l18_an_event_recorded_before_the_wait_does_not_carry_what_was_waited_for() {
    let (engine, streams) = Engine::with(3);
    let used = engine.submit(streams[0]);
    let of_a = engine.record(streams[0]);
    let of_b = engine.record(streams[1]);
    engine.wait(streams[1], &of_a);
    engine.wait(streams[2], &of_b);
    assert!(!engine.registry.knows(streams[2], used));
    let of_b_later = engine.record(streams[1]);
    engine.wait(streams[2], &of_b_later);
    assert!(engine.registry.knows(streams[2], used), "order is transitive");
}

#[test]
fn l21_a_wait_is_a_submission_so_a_later_point_is_not_complete_with_an_older_mark() {
    let (engine, streams) = Engine::with(2);
    engine.submit(streams[1]);
    let older = engine.record(streams[1]);
    engine.submit(streams[0]);
    let of_a = engine.record(streams[0]);
    engine.wait(streams[1], &of_a);
    let freed = engine.position(streams[1]);
    engine.registry.learn_answered(&older.frontier);
    assert!(!engine.registry.is_complete(freed));
    engine.registry.learn_answered(&engine.record(streams[1]).frontier);
    assert!(engine.registry.is_complete(freed));
}

#[test]
fn l26_a_failed_call_adds_nothing() {
    let (engine, streams) = Engine::with(1);
    let before = engine.position(streams[0]);
    engine.slot(streams[0]).start();
    assert_eq!(engine.slot(streams[0]).finish(false, Made::ByCalls), None);
    assert_eq!(engine.position(streams[0]), before);
    assert!(engine.slot(streams[0]).quiet().is_some(), "and it is no longer in flight");
}

#[test]
fn r5_a_witness_of_quiet_ends_with_the_next_submission() {
    let (engine, streams) = Engine::with(1);
    let slot = engine.slot(streams[0]);
    let quiet = slot.quiet().unwrap();
    assert!(slot.is_still_quiet(quiet));
    slot.start();
    assert!(!slot.is_still_quiet(quiet));
    assert_eq!(slot.quiet(), None);
    slot.finish(true, Made::ByCalls);
    assert!(slot.quiet().is_some());
}

#[test]
fn r5_a_gate_passes_to_waiters_and_ends_with_completion() {
    let (engine, streams) = Engine::with(3);
    let gate = engine.submit(streams[0]);
    engine.slot(streams[0]).gate(gate.mark);
    let stamp = engine.record(streams[0]);
    engine.wait(streams[1], &stamp);
    assert!(engine.slot(streams[1]).is_gated());
    let of_waiter = engine.record(streams[1]);
    engine.wait(streams[2], &of_waiter);
    assert!(engine.slot(streams[2]).is_gated(), "through two waits");
    engine.registry.learn_answered(&engine.record(streams[2]).frontier);
    assert!(streams.iter().all(|&me| !engine.slot(me).is_gated()));
}

#[test]
fn o6_a_retired_stream_has_one_last_position_shared_or_not() {
    for shared in [false, true] {
        let registry = Registry::new();
        let me = registry.open(1, shared).unwrap();
        let slot = registry.slot(me).unwrap();
        slot.start();
        slot.finish(true, Made::ByCalls);
        let last = slot.retire(false);
        assert!(slot.is_retired());
        assert_eq!(slot.position(), last);
        assert_eq!(slot.retire(false), last);
        registry.learn_answered(&Frontier::from(Point { stream: me, mark: last }));
        registry.close(me);
        assert_eq!(registry.open(1, false), Some(me));
        assert!(!slot.is_retired());
        slot.start();
        assert_eq!(slot.finish(true, Made::ByCalls), Some(last + 1));
    }
}

#[test]
fn o10_positions_of_one_context_say_nothing_of_another() {
    let (engine, streams) = Engine::with(1);
    let elsewhere = engine.registry.open(2, false).unwrap();
    let here = engine.submit(streams[0]);
    let there = engine.submit(elsewhere);
    engine.registry.learn_answered(&engine.registry.positions_in(1));
    assert!(engine.registry.is_complete(here));
    assert!(!engine.registry.is_complete(there));
}

#[test]
fn o12_a_slot_is_used_again_only_when_complete_and_old_points_stay_complete() {
    let (engine, streams) = Engine::with(1);
    let last = engine.submit(streams[0]);
    engine.registry.close(streams[0]);
    let second = engine.registry.open(1, false).unwrap();
    assert_ne!(second, streams[0], "the first is not complete yet");
    engine.registry.learn_answered(&Frontier::from(last));
    let third = engine.registry.open(1, false).unwrap();
    assert_eq!(third, streams[0]);
    assert!(engine.registry.is_complete(last));
    let new = engine.submit(third);
    assert!(last < new);
    assert!(!engine.registry.is_complete(new));
}

#[test]
fn o12_a_thousand_streams_one_after_the_other_take_one_slot() {
    let registry = Registry::new();
    for _ in 0..1000 {
        let me = registry.open(1, false).unwrap();
        let slot = registry.slot(me).unwrap();
        slot.start();
        let mark = slot.finish(true, Made::ByCalls).unwrap();
        registry.learn_answered(&Frontier::from(Point { stream: me, mark }));
        registry.close(me);
        assert_eq!(me.index(), 0);
    }
}

#[test]
fn o12_a_clock_drops_what_is_complete() {
    let (engine, streams) = Engine::with(100);
    for &other in &streams[1..] {
        engine.submit(other);
        let stamp = engine.record(other);
        engine.wait(streams[0], &stamp);
        engine.registry.learn_answered(&stamp.frontier);
    }
    assert!(engine.slot(streams[0]).clock_len() <= 9);
}

#[test]
fn the_registry_is_full_at_its_named_limit() {
    let registry = Registry::new();
    for _ in 0..STREAMS_MAX {
        assert!(registry.open(1, false).is_some());
    }
    assert_eq!(registry.open(1, false), None);
}

#[test]
fn r9_a_slot_that_somebody_keeps_gets_no_other_stream() {
    let registry = Arc::new(Registry::new());
    let slot = registry.open(1, false).unwrap();
    let keepers = [0, 1].map(|_| SlotKeeper::new(&registry, slot));
    registry.close(slot);
    for keeper in keepers {
        assert_ne!(registry.open(1, false), Some(slot));
        drop(keeper);
    }
    assert_eq!(registry.open(1, false), Some(slot));
    registry.close(slot);
    // One that was found free already may be kept, too.
    let other = registry.open(1, false).unwrap();
    assert_eq!(other, slot);
    let third = registry.open(1, false).unwrap();
    [other, third].into_iter().for_each(|slot| registry.close(slot));
    let next = registry.open(1, false).unwrap();
    let ready = if next == other { third } else { other };
    let _keeper = SlotKeeper::new(&registry, ready);
    assert_ne!(registry.open(1, false), Some(ready));
}
