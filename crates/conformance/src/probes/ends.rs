//! What is left after the context is gone, after a handle is destroyed, after a device error.

use cuda_sys::{CUevent_flags, CUresult, CUstream_flags, CUstreamCaptureStatus};

use crate::asker::Asker;
use crate::driver::{Context, Pinned};

pub(crate) fn teardown(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let mut address = 0;
    let (stream, event) = (asker.stream(), asker.event());
    driver.mem_alloc(&mut address, 512);
    asker.code("primary release", driver.primary_release(asker.device));
    asker.code("mem free after release", driver.mem_free(address));
    asker.code("event destroy after release", driver.event_destroy(event));
    asker.fatal("stream destroy after the primary context was released", || {
        driver.stream_destroy(stream)
    });
}

/// A probe, and the call that a destroyed handle must not be given to.
type Destroyed = (&'static str, fn(&Asker<'_>) -> CUresult);

/// Each in a case of its own, for the real driver crashes on it.
pub(crate) const DESTROYED: [Destroyed; 7] = [
    ("query a destroyed event", |asker| {
        let event = asker.event();
        asker.driver.event_destroy(event);
        asker.driver.event_query(event)
    }),
    ("record a destroyed event", |asker| {
        let (event, stream) = (asker.event(), asker.stream());
        asker.driver.event_destroy(event);
        asker.driver.event_record(event, stream)
    }),
    ("query a destroyed stream", |asker| {
        let stream = asker.stream();
        asker.driver.stream_destroy(stream);
        asker.driver.stream_query(stream)
    }),
    ("record on a destroyed stream", |asker| {
        let stream = asker.stream();
        asker.driver.stream_destroy(stream);
        asker.driver.event_record(asker.event(), stream)
    }),
    ("host function on a destroyed stream", |asker| {
        let stream = asker.stream();
        asker.driver.stream_destroy(stream);
        asker.driver.launch_host_function(stream, || {})
    }),
    ("destroy a stream twice", |asker| {
        let stream = asker.stream();
        asker.driver.stream_destroy(stream);
        asker.driver.stream_destroy(stream)
    }),
    ("destroy an event twice", |asker| {
        let event = asker.event();
        asker.driver.event_destroy(event);
        asker.driver.event_destroy(event)
    }),
];

/// A device error sticks to the context and outlives its release.
pub(crate) fn illegal_address(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let (mut stream, mut event) = (asker.stream(), asker.event());
    driver.event_record(event, stream);
    let (mut address, mut pinned, mut context) = (0, Pinned::default(), Context::default());
    driver.mem_alloc(&mut address, 4096);
    driver.mem_host_alloc(&mut pinned, 4096);
    driver.launch(asker.kernels.write_bad, stream, &[0x10]);
    asker.code("stream synchronize", driver.stream_synchronize(stream));
    asker.code("again", driver.stream_synchronize(stream));
    asker.code("event query", driver.event_query(event));
    asker.code("event record", driver.event_record(event, stream));
    let untimed = CUevent_flags::CU_EVENT_DISABLE_TIMING.0;
    asker.code("event create", driver.event_create(&mut event, untimed));
    asker.code("event destroy", driver.event_destroy(event));
    asker.code("mem alloc", driver.mem_alloc(&mut address, 4096));
    asker.code("mem free", driver.mem_free(address));
    asker.code("mem free host", driver.mem_free_host(pinned));
    asker.code("mem get info", driver.mem_get_info(&mut 0, &mut 0));
    let non_blocking = CUstream_flags::CU_STREAM_NON_BLOCKING.0;
    asker.code("stream create", driver.stream_create(&mut stream, non_blocking));
    asker.code("stream destroy", driver.stream_destroy(stream));
    asker.code("ctx synchronize", driver.ctx_synchronize());
    asker.code("ctx get current", driver.ctx_get_current(&mut context));
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    asker.code("is capturing", driver.stream_is_capturing(stream, &mut status));
    asker.code("primary release", driver.primary_release(asker.device));
    asker.code("primary reset", driver.primary_reset(asker.device));
    asker.code("retain again", driver.primary_retain(&mut context, asker.device));
    driver.ctx_set_current(context);
    asker.code("mem alloc after reset", driver.mem_alloc(&mut address, 4096));
}
