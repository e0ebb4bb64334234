//! Threads with and without a current context, and what the device says of itself.

use std::thread;

use cuda_sys::CUdevice_attribute;

use crate::asker::Asker;
use crate::driver::{Context, Driver, Event, Stream};

/// The attributes asked for, under the names the record gives them.
const ATTRIBUTES: [(&str, CUdevice_attribute); 10] = [
    ("VMM", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
    ("POOLS", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED),
    ("STREAM_MEM_OPS_64", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS),
    ("HOST_REGISTER", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED),
    (
        "GPU_DIRECT_RDMA_VMM",
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
    ),
    (
        "HANDLE_FD",
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
    ),
    ("HANDLE_FABRIC", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED),
    ("MANAGED", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY),
    ("CONCURRENT_MANAGED", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS),
    ("ASYNC_ENGINES", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT),
];

pub(crate) fn all(asker: &Asker<'_>) {
    fresh_thread(asker);
    thread_without_context(asker);
    let driver = &asker.driver;
    asker.code("cuDeviceGet(99)", driver.device_get(&mut 0, 99));
    asker.code("set current null", driver.ctx_set_current(Context::default()));
    asker.code("alloc with null current", driver.mem_alloc(&mut 0, 1));
    driver.ctx_set_current(asker.context);
    let (mut flags, mut active) = (0, -1);
    let state = driver.primary_get_state(asker.device, &mut flags, &mut active);
    asker.code("primary state", state);
    asker.text("active", active);
    for (name, attribute) in ATTRIBUTES {
        let mut value = -1;
        driver.device_get_attribute(&mut value, attribute, asker.device);
        asker.text(name, value);
    }
}

/// Runs `calls` in a thread that has no current context, and gives the codes back.
fn in_a_fresh_thread<const COUNT: usize>(
    asker: &Asker<'_>,
    calls: impl FnOnce(&Driver) -> [cuda_sys::CUresult; COUNT] + Send,
) -> [cuda_sys::CUresult; COUNT] {
    let driver = &asker.driver;
    thread::scope(|scope| scope.spawn(move || calls(driver)).join())
        .expect("a thread of a probe only makes driver calls")
}

fn fresh_thread(asker: &Asker<'_>) {
    // Not null, so that it is seen whether the driver writes it.
    let mut current = asker.context;
    let seen = &mut current;
    let codes = in_a_fresh_thread(asker, move |driver| {
        [
            driver.ctx_get_current(seen),
            driver.mem_alloc(&mut 0, 512),
            driver.stream_create(&mut Stream::default(), 0),
            driver.event_create(&mut Event::default(), 0),
            driver.ctx_synchronize(),
        ]
    });
    let [current_code, alloc, stream, event, synchronize] = codes;
    asker.code("current in a fresh thread", current_code);
    asker.text("is null", u8::from(current == Context::default()));
    asker.code("cuMemAlloc without context", alloc);
    asker.code("cuStreamCreate without context", stream);
    asker.code("cuEventCreate without context", event);
    asker.code("cuCtxSynchronize without context", synchronize);
}

/// Streams and events carry their context with them.
fn thread_without_context(asker: &Asker<'_>) {
    let (stream, event) = (asker.stream(), asker.event());
    asker.driver.event_record(event, stream);
    let mut address = 0;
    asker.driver.mem_alloc(&mut address, 512);
    let codes = in_a_fresh_thread(asker, move |driver| {
        [
            driver.stream_query(stream),
            driver.event_query(event),
            driver.event_record(event, stream),
            driver.stream_wait_event(stream, event),
            driver.stream_synchronize(stream),
            driver.mem_free(address),
            driver.mem_free_async(address, stream),
            driver.event_destroy(event),
            driver.stream_destroy(stream),
        ]
    });
    let names = [
        "cuStreamQuery",
        "cuEventQuery",
        "cuEventRecord",
        "cuStreamWaitEvent",
        "cuStreamSynchronize",
        "cuMemFree",
        "cuMemFreeAsync",
        "cuEventDestroy",
        "cuStreamDestroy",
    ];
    for (name, code) in names.into_iter().zip(codes) {
        asker.code(&format!("no context: {name}"), code);
    }
}
