//! Gates: streams that are held on the device until the host opens them.

use crate::context::Context;
use crate::driver::{DriverHostMemory, WordOnDevice};
use crate::error::Error;
use crate::launch::{Kernel, Reads};
use crate::memory::check_part;
use crate::order::Point;
use crate::stream::Stream;
use crate::stream_order::StreamOrder;
use crate::submission::Submission;
use crate::sync::{Mutex, Ordering, lock};

/// A row of gates. Closing one on a stream holds what is queued there afterwards until the host
/// opens it; many streams may wait at one gate, and it stays open once it is.
///
/// A stream that is held is gated: no allocator makes another stream wait for it. Dropped, this
/// opens all gates and waits until the streams have passed them, so it **may block**, but never on
/// a gate of its own. `Send`, `Sync`.
#[derive(Debug)]
pub struct Gates {
    /// Taken out only when it is dropped.
    words: Option<DriverHostMemory>,
    kernel: Kernel<(Reads<u32>,)>,
    count: usize,
    /// How far each stream must come before the words may go.
    closed: Mutex<Vec<(StreamOrder, Point)>>,
}

impl Gates {
    /// So many gates. `kernel` takes the address of a word and runs until that is not zero.
    ///
    /// # Errors
    /// There is no pinned memory; or the driver's answer.
    pub fn new(
        context: &Context,
        kernel: Kernel<(Reads<u32>,)>,
        count: usize,
    ) -> Result<Self, Error> {
        let bytes = count.saturating_mul(size_of::<u32>());
        let words = DriverHostMemory::allocate(&context.core().raw, bytes)?;
        Ok(Self { words: Some(words), kernel, count, closed: Mutex::default() })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Holds what is queued on `stream` from now on until `gate` opens.
    ///
    /// # Errors
    /// There is no such gate, or the stream captures; or the driver's answer.
    #[track_caller]
    pub fn close(&self, stream: &Stream, gate: usize) -> Result<Submission, Error> {
        let index = u64::try_from(gate).unwrap_or(u64::MAX);
        let length = u64::try_from(self.count).unwrap_or(u64::MAX);
        check_part(index, 1, length)?;
        let core = stream.order().core();
        // Gated before the call, too: a record made meanwhile by another thread may follow it.
        let entered = core.enter()?;
        core.gate_next(&entered);
        let used = |stream: &Stream, point| keep_last(&self.closed, stream.order(), point);
        let word = WordOnDevice::new(self.memory(), gate, &used).expect("the gate is one of these");
        let launched = self.kernel.launch_eagerly(stream, 1, 1, 0, (&word,))?;
        core.slot().gate(launched.point().mark);
        Ok(launched)
    }

    /// Opens a gate, for good. No driver call; a gate that is not there is none to open.
    pub fn open(&self, gate: usize) {
        if let Some(word) = self.memory().word(gate) {
            word.store(1, Ordering::Release);
        }
    }

    /// Opens every gate.
    pub fn open_all(&self) {
        (0..self.count).for_each(|gate| self.open(gate));
    }

    fn memory(&self) -> &DriverHostMemory {
        self.words.as_ref().expect("the words leave only when they are dropped")
    }
}

/// One entry a stream is enough: the last point covers the earlier ones, whatever the order in
/// which threads come here.
fn keep_last(closed: &Mutex<Vec<(StreamOrder, Point)>>, order: &StreamOrder, point: Point) {
    let mut closed = lock(closed);
    let known = closed.iter_mut().find(|(known, _)| known.id() == order.id());
    match known {
        Some((_, last)) if last.mark < point.mark => *last = point,
        Some(_) => {}
        None => closed.push((order.clone(), point)),
    }
}

impl Drop for Gates {
    fn drop(&mut self) {
        if self.memory().is_forked() {
            // They are for the parent to open.
            return;
        }
        self.open_all();
        let closed = std::mem::take(&mut *lock(&self.closed));
        let passed = closed.iter().try_for_each(|(order, point)| order.synchronize_point(*point));
        if let Some(words) = self.words.take()
            && passed.is_err()
        {
            words.leak();
        }
    }
}
