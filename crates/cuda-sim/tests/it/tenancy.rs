//! Ranges inside an allocation, declared from outside (S3).

use cuda_sim::{Hazard, Schedule};

use crate::ok;
use crate::rig::Rig;

#[test]
fn s3_use_after_death_is_reported_until_the_range_is_born_again() {
    let rig = Rig::new(Schedule::Seeded(1));
    let a = rig.stream();
    let segment = rig.alloc(4096);
    let machine = &rig.machine;
    machine.born(segment + 512, 512, a.addr());
    rig.put(a, segment + 512, 1);
    machine.dead(segment + 512, 512, a.addr());
    rig.assert_no_hazards();
    rig.put(a, segment + 600, 1);
    assert_eq!(
        rig.hazard_texts(),
        [format!(
            "use after free: kernel put (operation 2 on stream 3) uses {:#x}..{:#x}, which was \
             declared dead on stream 3 and handed to nobody since",
            segment + 600,
            segment + 604
        )]
    );
    machine.born(segment + 256, 512, a.addr());
    rig.put(a, segment + 600, 1);
    rig.assert_no_hazards();
    rig.put(a, segment + 768, 1);
    assert_eq!(machine.take_hazards().len(), 1, "the rest of the old range is still dead");
}

#[test]
fn s3_a_range_is_born_once_and_dies_once() {
    let rig = Rig::new(Schedule::Seeded(1));
    let (a, b) = (rig.stream(), rig.stream());
    let segment = rig.alloc(4096);
    let machine = &rig.machine;
    machine.born(segment, 512, a.addr());
    machine.born(segment + 256, 512, b.addr());
    assert!(matches!(machine.take_hazards()[..], [Hazard::BornTwice { .. }]));
    machine.dead(segment + 256, 512, b.addr());
    rig.assert_no_hazards();
    machine.dead(segment + 256, 512, b.addr());
    assert!(matches!(machine.take_hazards()[..], [Hazard::DeadTwice { .. }]));
}

#[test]
fn s3_memory_is_not_given_back_with_somebody_in_it() {
    let rig = Rig::new(Schedule::Seeded(1));
    let a = rig.stream();
    let segment = rig.alloc(4096);
    rig.machine.born(segment + 512, 512, a.addr());
    ok!(rig, mem_free(segment));
    assert_eq!(
        rig.hazard_texts(),
        [format!(
            "memory was freed with {:#x}..{:#x} in it alive, which was handed out on stream 3",
            segment + 512,
            segment + 1024
        )]
    );
}

#[test]
fn s3_a_probe_asks_what_the_next_operation_would_race_with() {
    let rig = Rig::new(Schedule::Seeded(1));
    let (a, b) = (rig.stream(), rig.stream());
    let segment = rig.alloc(4096);
    let machine = &rig.machine;
    rig.put(a, segment, 1);
    assert_eq!(machine.probe(segment, 512, a.addr()), Ok(()));
    assert_eq!(machine.probe(segment + 512, 512, b.addr()), Ok(()));
    let hazard = machine.probe(segment, 512, b.addr()).unwrap_err();
    assert!(
        hazard.to_string().starts_with(
            "race: write by the next operation (operation 2 on stream 4) against write by kernel \
             put (operation 1 on stream 3)"
        ),
        "{hazard}"
    );
    rig.order(a, b);
    assert_eq!(machine.probe(segment, 512, b.addr()), Ok(()));
    rig.assert_no_hazards();
}
