//! `.await` on events and submissions, by polling.
//!
//! A future asks the device each time it is polled, and asks to be polled again while the answer
//! is "not yet": no thread of ours, and no waker on a thread of the driver's (L3). A context that
//! has failed ends it with the error. It suits executors that have other work to do; a program
//! that has none had better block.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{self, Poll};

use crate::error::Error;
use crate::event::Event;
use crate::fence::Fence;
use crate::submission::Submission;

/// Ends when the device has passed something. `Send`.
#[derive(Debug, Clone)]
#[must_use = "a future does nothing until it is awaited"]
pub struct Completion {
    of: Awaited,
}

#[derive(Debug, Clone)]
enum Awaited {
    Event(Event),
    Fence(Fence),
    Submission(Submission),
}

impl Future for Completion {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Self::Output> {
        let passed = match &self.of {
            Awaited::Event(event) => event.query(),
            Awaited::Fence(fence) => fence.query(),
            Awaited::Submission(submission) => submission.query(),
        };
        match passed {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl IntoFuture for Event {
    type Output = Result<(), Error>;
    type IntoFuture = Completion;

    fn into_future(self) -> Completion {
        Completion { of: Awaited::Event(self) }
    }
}

impl IntoFuture for Fence {
    type Output = Result<(), Error>;
    type IntoFuture = Completion;

    fn into_future(self) -> Completion {
        Completion { of: Awaited::Fence(self) }
    }
}

impl IntoFuture for Submission {
    type Output = Result<(), Error>;
    type IntoFuture = Completion;

    fn into_future(self) -> Completion {
        Completion { of: Awaited::Submission(self) }
    }
}
