//! Many streams that live for one block each.

use allocator::Config;
use cuda_sim::Schedule;

use crate::scenarios::rig::{Rig, WHOLE, served, take};
use crate::simulated_rig::SimulatedRig;

/// A thousand streams that come, use memory and go share what a few would need, and leave no
/// trace in the tables.
#[test]
fn a_thousand_short_lived_streams_share_a_cache() {
    for schedule in [Schedule::Lazy, Schedule::Timed, Schedule::Seeded(1)] {
        let rig = SimulatedRig::new(schedule);
        come_and_go(&rig);
        assert!(rig.is_clean());
    }
}

fn come_and_go(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let reader = desk.stream();
    let mut highest_slot = 0;
    let first_slot = desk.stream().order().slot().index();
    for round in 0..1_000_u32 {
        let stream = desk.stream();
        highest_slot = highest_slot.max(stream.order().slot().index());
        let x = take(rig, &allocator, &stream, WHOLE);
        x.fill(&stream, round);
        reader.wait_stream(&stream).expect("a wait");
        x.check(&reader, round);
        x.block().record_stream(&reader);
        x.give_back();
        drop(stream);
        if round % 4 == 3 {
            desk.context().synchronize().expect("all ends");
        }
    }
    desk.context().synchronize().expect("all ends");
    allocator.poll();
    assert_eq!(allocator.stats().stranded_bytes, 0);
    let stats = allocator.stats();
    assert!(stats.reserved_bytes.peak <= 64 << 20, "{stats:?}");
    assert!(
        highest_slot <= first_slot + 16,
        "slot {highest_slot}, where the first was {first_slot}"
    );
    let served = served(&allocator);
    assert_eq!(served.total(), 1_000);
    assert!(served.growth <= 32, "{served:?}");
}
