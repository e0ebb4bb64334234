//! Who wrote a buffer last and who has read it since, so that cudarc's operations on it wait for
//! each other as they do on its own slices.

use wellspring::Stream;

/// The last write of a buffer, and the reads since.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    writer: Option<Stream>,
    readers: Vec<Stream>,
}

impl Accesses {
    /// `stream` is about to read: it waits for the last write.
    pub(crate) fn read_on(&mut self, stream: &Stream) {
        wait(stream, self.writer.iter());
        if self.readers.iter().all(|known| known.id() != stream.id()) {
            self.readers.push(stream.clone());
        }
    }

    /// `stream` is about to write: it waits for the last write and all reads since.
    pub(crate) fn written_on(&mut self, stream: &Stream) {
        wait(stream, self.writer.iter().chain(&self.readers));
        self.readers.clear();
        self.writer = Some(stream.clone());
    }

    /// The host waits for everything, for a stream that we do not know; what that does is over
    /// before anything else is queued.
    pub(crate) fn finish(&mut self) {
        for used in self.writer.take().into_iter().chain(self.readers.drain(..)) {
            // A context that has failed runs nothing any more.
            let _done = used.synchronize();
        }
    }
}

/// Makes `stream` wait on the device for others; where it cannot, the host waits.
fn wait<'a>(stream: &Stream, others: impl Iterator<Item = &'a Stream>) {
    for other in others.filter(|other| other.id() != stream.id()) {
        if stream.wait_stream(other).is_err() {
            let _done = other.synchronize();
        }
    }
}
