//! Which calls are allowed while a stream captures: by mode, and by the thread that makes them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use cuda_sys::{CUresult, CUstreamCaptureMode, CUstreamCaptureStatus};

use super::vmm::{GRAIN, access, properties};
use crate::asker::{Asker, new_event, new_stream};
use crate::driver::{Driver, Event, Graph, Pinned, Stream};

const MODES: [(&str, CUstreamCaptureMode); 3] = [
    ("global", CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL),
    ("thread-local", CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
    ("relaxed", CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED),
];

/// What lies around a capture, shared by all calls.
struct Scene {
    driver: Driver,
    /// A stream that does not capture.
    other: Stream,
    /// An event recorded on `other` and complete.
    done: Event,
    /// A block of 512 bytes.
    held: AtomicU64,
}

/// A call, and how it is made while a stream captures.
type Call = (&'static str, fn(&Scene, Stream) -> CUresult);

const MEMORY_CALLS: &[Call] = &[
    ("cuMemAlloc", |scene, _| scene.driver.mem_alloc(&mut 0, 512)),
    ("cuMemFree", |scene, _| {
        let mut held = scene.held.load(Ordering::Acquire);
        let code = scene.driver.mem_free(held);
        scene.driver.mem_alloc(&mut held, 512);
        scene.held.store(held, Ordering::Release);
        code
    }),
    ("cuMemCreate", |scene, _| scene.driver.mem_create(&mut 0, GRAIN, &properties(0))),
    ("cuMemAddressReserve", |scene, _| scene.driver.mem_address_reserve(&mut 0, GRAIN)),
    ("cuMemHostAlloc", |scene, _| scene.driver.mem_host_alloc(&mut Pinned::default(), 512)),
    ("cuMemAllocAsync on another stream", |scene, _| {
        scene.driver.mem_alloc_async(&mut 0, 512, scene.other)
    }),
    ("cuMemAllocAsync on the capturing stream", |scene, capturing| {
        scene.driver.mem_alloc_async(&mut 0, 512, capturing)
    }),
    ("cuMemcpyHtoD (sync)", |scene, _| {
        scene.driver.memcpy_htod(scene.held.load(Ordering::Acquire), &[0; 4])
    }),
    ("cuMemsetD8 (sync, legacy)", |scene, _| {
        scene.driver.memset_d8(scene.held.load(Ordering::Acquire), 0, 4)
    }),
    ("cuMemcpyDtoDAsync on another", |scene, _| {
        let held = scene.held.load(Ordering::Acquire);
        scene.driver.memcpy_dtod_async(held, held + 256, 4, scene.other)
    }),
    ("cuMemGetInfo", |scene, _| scene.driver.mem_get_info(&mut 0, &mut 0)),
];

const EVENT_CALLS: &[Call] = &[
    ("cuEventQuery of an outside event", |scene, _| scene.driver.event_query(scene.done)),
    ("cuEventSynchronize of an outside event", |scene, _| {
        scene.driver.event_synchronize(scene.done)
    }),
    ("cuEventRecord on another stream", |scene, _| {
        scene.driver.event_record(scene.done, scene.other)
    }),
    ("cuEventCreate", |scene, _| scene.driver.event_create(&mut Event::default(), 2)),
    ("cuEventDestroy", |scene, _| scene.driver.event_destroy(new_event(&scene.driver))),
    ("cuEventRecord on the capturing stream", |scene, capturing| {
        scene.driver.event_record(new_event(&scene.driver), capturing)
    }),
    ("query of an event recorded in the capture", |scene, capturing| {
        let event = new_event(&scene.driver);
        scene.driver.event_record(event, capturing);
        scene.driver.event_query(event)
    }),
    ("outside stream waits for an event of the capture", |scene, capturing| {
        let event = new_event(&scene.driver);
        scene.driver.event_record(event, capturing);
        scene.driver.stream_wait_event(new_stream(&scene.driver), event)
    }),
    ("capturing stream waits for an outside event", |scene, capturing| {
        scene.driver.stream_wait_event(capturing, scene.done)
    }),
];

const STREAM_CALLS: &[Call] = &[
    ("cuStreamQuery capturing", |scene, capturing| scene.driver.stream_query(capturing)),
    ("cuStreamSynchronize capturing", |scene, capturing| {
        scene.driver.stream_synchronize(capturing)
    }),
    ("cuStreamQuery another stream", |scene, _| scene.driver.stream_query(scene.other)),
    ("cuStreamSynchronize another stream", |scene, _| scene.driver.stream_synchronize(scene.other)),
    ("cuCtxSynchronize", |scene, _| scene.driver.ctx_synchronize()),
    ("cuStreamCreate", |scene, _| scene.driver.stream_create(&mut Stream::default(), 1)),
    ("cuStreamDestroy another", |scene, _| scene.driver.stream_destroy(new_stream(&scene.driver))),
    ("cuLaunchHostFunc capturing", |scene, capturing| {
        scene.driver.launch_host_function(capturing, || {})
    }),
    ("cuStreamIsCapturing", |scene, capturing| {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        scene.driver.stream_is_capturing(capturing, &mut status)
    }),
    ("cuStreamGetId capturing", |scene, capturing| scene.driver.stream_get_id(capturing, &mut 0)),
];

/// Makes each call under each mode, by the thread that captures and by another.
pub(crate) fn all(asker: &Asker<'_>) {
    let driver = asker.driver.clone();
    let (other, done) = (asker.stream(), asker.event());
    driver.event_record(done, other);
    driver.stream_synchronize(other);
    let mut held = 0;
    driver.mem_alloc(&mut held, 512);
    let scene = Scene { driver, other, done, held: AtomicU64::new(held) };
    for (name, call) in [MEMORY_CALLS, EVENT_CALLS, STREAM_CALLS].into_iter().flatten() {
        for by in ["capturing thread", "other thread"] {
            let answers = MODES.map(|(mode_name, mode)| {
                let capturing = asker.stream();
                let begun = asker.driver.begin_capture(capturing, mode);
                let code = match begun {
                    CUresult::CUDA_SUCCESS if by == "other thread" => {
                        in_another_thread(asker, &scene, capturing, *call)
                    }
                    CUresult::CUDA_SUCCESS => call(&scene, capturing),
                    refused => refused,
                };
                format!("{mode_name}: {}, {}", asker.name(code), end(asker, capturing))
            });
            asker.text(&format!("{name} ({by})"), answers.join("; "));
        }
    }
}

fn in_another_thread(
    asker: &Asker<'_>,
    scene: &Scene,
    capturing: Stream,
    call: fn(&Scene, Stream) -> CUresult,
) -> CUresult {
    let context = asker.context;
    let made = thread::scope(|scope| {
        let other = scope.spawn(move || {
            scene.driver.ctx_set_current(context);
            call(scene, capturing)
        });
        other.join()
    });
    made.expect("a thread of a probe only makes driver calls")
}

/// Ends the capture, tidies up, and says what became of it.
fn end(asker: &Asker<'_>, capturing: Stream) -> String {
    let mut graph = Graph::default();
    let ended = asker.driver.end_capture(capturing, &mut graph);
    if graph != Graph::default() {
        asker.driver.graph_destroy(graph);
    }
    asker.driver.stream_destroy(capturing);
    match ended {
        CUresult::CUDA_SUCCESS => String::from("capture ok"),
        broken => format!("capture {}", asker.name(broken)),
    }
}

/// All calls of virtual memory, in a row, under each mode.
pub(crate) fn vmm(asker: &Asker<'_>) {
    let driver = &asker.driver;
    for (mode_name, mode) in MODES {
        let capturing = asker.stream();
        let (mut handle, mut va) = (0, 0);
        driver.begin_capture(capturing, mode);
        let codes = [
            driver.mem_create(&mut handle, GRAIN, &properties(0)),
            driver.mem_address_reserve(&mut va, GRAIN),
            driver.mem_map(va, GRAIN, 0, handle),
            driver.mem_set_access(va, GRAIN, &access()),
            driver.mem_unmap(va, GRAIN),
            driver.mem_release(handle),
        ];
        let ended = asker.name(driver.end_capture(capturing, &mut Graph::default()));
        let probe = format!("{mode_name}: create, reserve, map, set access, unmap, release");
        let names = codes.map(|code| asker.name(code)).join(" ");
        asker.text(&probe, format!("{names}; capture {ended}"));
    }
}
