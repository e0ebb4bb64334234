//! How a program orders its own uses: a stream waits for those that touched a block before. It
//! never orders a block's next owner after its last one; that is the allocator's part.

use cuda_sim::FaultPlan;
use cuda_sys::CUresult;
use streams::{Stream, StreamOrder};

use crate::operation::{FaultCall, Join, StreamName};
use crate::outcome::Feature;
use crate::world::{Done, World, entry_point};

impl World<'_> {
    /// Makes `after` wait for all that was queued on `before`; false if the call failed.
    pub(crate) fn order(&mut self, before: &Stream, after: &Stream, join: Join) -> bool {
        if before.id() == after.id() {
            return true;
        }
        let machine = &self.stand.machine;
        if self.swallows_waits() {
            machine.fail_here(FaultPlan::next("cuStreamWaitEvent", CUresult::CUDA_SUCCESS));
        }
        let waited = match join {
            Join::Stream => after.wait_stream(before),
            Join::Event => before.record_event().and_then(|event| after.wait_event(&event)),
        };
        if self.swallows_waits() {
            machine.clear_faults_here();
        }
        waited.is_ok()
    }

    /// Makes a stream wait for others; false if one of them is gone.
    pub(crate) fn order_all(&mut self, before: &[StreamOrder], after: &Stream, join: Join) -> bool {
        before.iter().all(|order| {
            order.id() == after.id()
                || order.stream().is_some_and(|before| self.order(&before, after, join))
        })
    }

    /// A wait that fails adds no knowledge (L26), and neither does a record that fails.
    pub(crate) fn order_fails(
        &mut self,
        before: StreamName,
        after: StreamName,
        call: FaultCall,
    ) -> Done {
        let (before, after) = (self.known(before)?.stream, self.known(after)?.stream);
        let (name, _) = entry_point(call);
        self.stand.machine.fail_here(FaultPlan::next(name, CUresult::CUDA_ERROR_INVALID_VALUE));
        let failed = after.wait_stream(&before).is_err();
        self.stand.machine.clear_faults_here();
        self.tally.reached.add_if(failed, Feature::InjectedFault);
        Some(())
    }
}
