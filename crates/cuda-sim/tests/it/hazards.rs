//! What is not ordered is reported with both operations and the missing edge; what is, is not.

use cuda_sim::Schedule;

use crate::rig::Rig;
use crate::{cu, ok};

#[test]
fn s1_a_race_names_both_operations_and_the_missing_edge() {
    for seed in 0..20 {
        let rig = Rig::new(Schedule::Seeded(seed));
        let (a, b) = (rig.stream(), rig.stream());
        let block = rig.alloc(4096);
        rig.put(a, block + 16, 1);
        ok!(rig, memset_d8_async(block, 0, 4096, b));
        assert_eq!(
            rig.hazard_texts(),
            [format!(
                "race: write by fill (operation 2 on stream 4) against write by kernel put \
                 (operation 1 on stream 3), over {:#x}..{:#x} of the allocation of 4096 bytes at \
                 {block:#x}; missing edge: nothing orders operation 1 on stream 3 before \
                 operation 2 on stream 4",
                block + 16,
                block + 20
            )]
        );
    }
}

#[test]
fn s1_the_dual_with_an_event_is_silent() {
    for seed in 0..20 {
        let rig = Rig::new(Schedule::Seeded(seed));
        let (a, b) = (rig.stream(), rig.stream());
        let block = rig.alloc(4096);
        rig.put(a, block + 16, 1);
        rig.order(a, b);
        ok!(rig, memset_d8_async(block, 7, 4096, b));
        ok!(rig, stream_synchronize(b));
        rig.assert_no_hazards();
        assert_eq!(rig.peek(block + 16), 0x0707_0707);
        assert_eq!(cu!(rig, mem_free(block)), crate::rig::SUCCESS);
        rig.assert_no_hazards();
    }
}
