//! The stream that a thread uses where none is named.

use std::cell::RefCell;
use std::marker::PhantomData;

use crate::context::Context;
use crate::stream::Stream;
use crate::stream_order::StreamOrder;

thread_local! {
    static ENTERED: RefCell<Vec<Stream>> = const { RefCell::new(Vec::new()) };
}

/// Makes a stream the thread's current one for its device until dropped. Not `Send`.
///
/// Guards may be dropped in any order, and forgetting one only leaves its stream current.
///
/// ```
/// # fn main() -> Result<(), streams::Error> {
/// # let machine = cuda_sim::Machine::builder().build();
/// # let context = streams::Driver::from_table(machine.table())?.device(0)?.primary_context()?;
/// use streams::{CurrentStream, StreamOptions};
///
/// let stream = context.create_stream(StreamOptions::default())?;
/// let guard = CurrentStream::enter(&stream);
/// assert_eq!(CurrentStream::get(&context).map(|current| current.id()), Some(stream.id()));
/// drop(guard);
/// assert!(CurrentStream::get(&context).is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the stream is current for as long as the guard lives"]
pub struct CurrentStream {
    order: StreamOrder,
    thread: PhantomData<*const ()>,
}

impl CurrentStream {
    /// Makes `stream` current on this thread.
    pub fn enter(stream: &Stream) -> Self {
        // A thread that is ending has no current stream any more.
        let _ended = ENTERED.try_with(|entered| entered.borrow_mut().push(stream.clone()));
        Self { order: stream.order().clone(), thread: PhantomData }
    }

    /// The thread's current stream in `context`, if one was entered.
    #[must_use]
    pub fn get(context: &Context) -> Option<Stream> {
        let find = |entered: &RefCell<Vec<Stream>>| {
            let id = context.id();
            let entered = entered.borrow();
            entered.iter().rev().find(|stream| stream.order().context_id() == id).cloned()
        };
        ENTERED.try_with(find).ok().flatten()
    }
}

impl Drop for CurrentStream {
    fn drop(&mut self) {
        // While a thread ends, its list may be gone before its guards.
        let left = ENTERED.try_with(|entered| {
            let mut entered = entered.try_borrow_mut().ok()?;
            let at = entered.iter().rposition(|stream| stream.order().is_same(&self.order))?;
            Some(entered.remove(at))
        });
        drop(left);
    }
}
