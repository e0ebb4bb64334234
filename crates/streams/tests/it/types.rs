//! Which types may go to, or be used by, another thread.

use streams::launch::Reads;
use streams::memory::{AddressRange, DeviceMemory, PhysicalMemory, PinnedMemory};
use streams::{
    Capture, Completion, Context, CurrentStream, Device, Driver, Event, Fence, Frontier, Graph,
    GraphExec, Kernel, Module, PerThreadStream, Stream, StreamOrder, StreamPool, Submission,
};

const fn send_and_sync<T: Send + Sync>() {}

const _: () = {
    send_and_sync::<Driver>();
    send_and_sync::<Device>();
    send_and_sync::<Context>();
    send_and_sync::<Stream>();
    send_and_sync::<StreamOrder>();
    send_and_sync::<StreamPool>();
    send_and_sync::<Event>();
    send_and_sync::<Fence>();
    send_and_sync::<Frontier>();
    send_and_sync::<Submission>();
    send_and_sync::<Completion>();
    send_and_sync::<Graph>();
    send_and_sync::<GraphExec>();
    send_and_sync::<Module>();
    send_and_sync::<Kernel<(Reads<f32>, u32)>>();
    send_and_sync::<DeviceMemory>();
    send_and_sync::<PhysicalMemory>();
    send_and_sync::<AddressRange>();
    send_and_sync::<PinnedMemory>();
};

/// Has one meaning for a type that is not `Send`, and two, so none, for one that is.
trait NotSend<Which> {
    const SEEN: () = ();
}
struct WhenSend;
impl<T: ?Sized> NotSend<()> for T {}
impl<T: ?Sized + Send> NotSend<WhenSend> for T {}

const _: () = {
    let () = <PerThreadStream as NotSend<_>>::SEEN;
    let () = <Capture as NotSend<_>>::SEEN;
    let () = <CurrentStream as NotSend<_>>::SEEN;
};
