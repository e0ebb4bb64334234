//! The road that every submission takes, and the questions about a whole stream.
//!
//! A submission: settle the token that somebody still holds (its fence must be recorded before
//! anything else is queued), count the call as begun, make it, tell of it, count it as done or
//! failed. On a capturing stream nothing is counted: the work runs when the graph is launched (C2).

use std::any::Any;
use std::panic::Location;

use crate::capture::Adding;
use crate::driver::{DriverStream, HostFunction};
use crate::error::Error;
use crate::observe::{By, How, Operation, Place, Scope, Told, WaitedFor, What};
use crate::order::{Made, Point};
use crate::stream_core::{Entered, StreamCore};
use crate::submission::Submission;
use crate::sync::{Arc, lock};
use crate::watch::{Before, Turn};

impl StreamCore {
    /// Queues work; on a capturing stream, gives the capture what `hold` gives (C3), or is refused
    /// where that is nothing that a graph could hold. The stream cannot begin to capture meanwhile.
    #[track_caller]
    pub(crate) fn submit(
        self: &Arc<Self>,
        told: Told<'_>,
        hold: impl FnOnce() -> Option<Vec<Box<dyn Any + Send>>>,
        call: impl FnOnce(&DriverStream) -> Result<(), Error>,
    ) -> Result<Submission, Error> {
        let place = Location::caller();
        let entered = self.enter()?;
        let adding = self.add(&entered)?;
        if let Some(capture) = adding.capture() {
            capture.hold(hold().ok_or_else(|| self.capturing())?);
            let turn = self.turn();
            call(entered.raw())?;
            if let Some(turn) = turn {
                turn.tell_submitted(place, Some(capture.id()), &told);
            }
            return Ok(Submission::captured(self));
        }
        let tell = |turn: &Turn<'_>| {
            turn.tell_submitted(place, None, &told);
            self.mark_end(entered.raw(), turn.ordinal());
        };
        let point = self.submit_eagerly(&entered, &adding, call, (tell, Made::ByCalls))?;
        drop(adding);
        let submission = Submission::at(self, point);
        *lock(&self.last_token) = submission.token();
        if self.context().is_synchronous() {
            self.finish_now(&submission)?;
        }
        Ok(submission)
    }

    /// Queues a host function. No graph holds one: a replay would run it again, and it runs once.
    #[track_caller]
    pub(crate) fn launch_host_function(
        self: &Arc<Self>,
        function: &HostFunction,
        before: &Before,
    ) -> Result<Submission, Error> {
        let entered = self.enter()?;
        // Gated before the call, too: a record made meanwhile by another thread may follow it.
        self.gate_next(&entered);
        let call = |raw: &DriverStream| {
            before.set(self);
            raw.launch_host_function(function)
        };
        let launched = self.submit(Told::of(Operation::HostFunction), || None, call)?;
        self.slot().gate(launched.point().mark);
        Ok(launched)
    }

    /// Debug mode. The operation is queued, so an error that only keeps us from waiting is not an
    /// error of the operation; one that the context does not survive is.
    #[track_caller]
    fn finish_now(&self, submission: &Submission) -> Result<(), Error> {
        let waited = submission.wait();
        if self.context().raw.first_error().is_some() { waited } else { Ok(()) }
    }

    /// Queues work on a stream that does not capture, as `adding` has found, tells of it by `tell`,
    /// and counts it. What is made apart settles no token: when that gets its fence must not depend
    /// on answers, so who waits for the token may wait for this too.
    #[track_caller]
    pub(crate) fn submit_eagerly(
        &self,
        entered: &Entered,
        adding: &Adding<'_>,
        call: impl FnOnce(&DriverStream) -> Result<(), Error>,
        (tell, made): (impl FnOnce(&Turn<'_>), Made),
    ) -> Result<Point, Error> {
        if made == Made::ByCalls {
            self.settle_token(entered.raw(), adding)?;
        }
        let turn = self.turn();
        let slot = self.slot();
        slot.start();
        let called = call(entered.raw());
        if called.is_ok()
            && let Some(turn) = &turn
        {
            tell(turn);
        }
        let mark = slot.finish(called.is_ok(), made);
        called?;
        Ok(self.point_at(mark.expect("a call that succeeded has a mark")))
    }

    /// The same for a wait.
    #[track_caller]
    pub(crate) fn submit_wait(
        &self,
        entered: &Entered,
        adding: &Adding<'_>,
        call: impl FnOnce(&DriverStream) -> Result<(), Error>,
        (by, on, made): (By, impl FnOnce() -> WaitedFor, Made),
    ) -> Result<Point, Error> {
        let place = Location::caller();
        let tell = |turn: &Turn<'_>| {
            let (stream, ordinal) = (self.traits().id, turn.count());
            let what = What::Waited { stream, ordinal, capture: None, on: on(), by };
            turn.tell(Some(place), what);
        };
        self.submit_eagerly(entered, adding, call, (tell, made))
    }

    /// Asks the driver's stream whether it is idle, and learns from a yes.
    #[track_caller]
    pub(crate) fn query(&self, entered: &Entered) -> Result<bool, Error> {
        let stamp = self.slot().stamp_at(self.me(), self.slot().submitted(), false);
        let reached = self.reached();
        let idle = entered.raw().query()?;
        if idle {
            self.tell_passed(reached, How::Query, Location::caller());
            self.registry().learn_answered(&stamp.frontier);
        }
        Ok(idle)
    }

    /// Waits until the driver's stream is idle, and learns that what was there is done.
    #[track_caller]
    pub(crate) fn synchronize(&self, entered: &Entered) -> Result<(), Error> {
        let place: Place = Location::caller();
        let stamp = self.slot().stamp_at(self.me(), self.slot().submitted(), false);
        let reached = self.reached();
        let scope = Scope::Stream { stream: self.traits().id };
        self.watch().tell(Some(place), || What::SynchronizationBegun { scope });
        entered.raw().synchronize()?;
        self.tell_passed(reached, How::Synchronization, place);
        self.registry().learn_synchronized(&stamp);
        Ok(())
    }
}
