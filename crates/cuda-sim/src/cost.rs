//! What each call and each operation takes in virtual time, as measured on one H200.
//!
//! Figures without edges: no order between operations follows from them.

use std::sync::LazyLock;

use cuda_sys::Table;

/// Host time of a call, by the entry point's place in the table.
pub(crate) fn of_call(entry: usize) -> u64 {
    static COSTS: LazyLock<Vec<u64>> =
        LazyLock::new(|| Table::ENTRY_POINTS.iter().map(|entry| of_name(entry.name)).collect());
    COSTS.get(entry).copied().unwrap_or(100)
}

fn of_name(name: &str) -> u64 {
    match name {
        "cuCtxGetCurrent" | "cuThreadExchangeStreamCaptureMode" => 10,
        "cuCtxSetCurrent" | "cuCtxPushCurrent" | "cuCtxPopCurrent" => 20,
        "cuStreamIsCapturing" => 32,
        "cuEventCreate" | "cuEventDestroy" => 78,
        "cuEventRecord" => 151,
        "cuEventQuery" => 137,
        "cuStreamQuery" => 154,
        "cuStreamWaitEvent" => 109,
        "cuStreamWriteValue64" | "cuStreamWaitValue64" => 860,
        "cuLaunchHostFunc" => 1_830,
        "cuLaunchKernel" | "cuLaunchKernelEx" | "cuGraphLaunch" => 3_370,
        "cuStreamCreate" | "cuStreamCreateWithPriority" | "cuStreamDestroy" => 2_400,
        "cuMemAlloc" | "cuMemFree" => 32_000,
        "cuMemAllocAsync" | "cuMemFreeAsync" => 500,
        "cuMemHostAlloc" | "cuMemFreeHost" => 1_190_000,
        "cuMemCreate" => 13_200,
        "cuMemRelease" => 12_000,
        "cuMemMap" => 2_060,
        "cuMemSetAccess" => 35_000,
        "cuMemUnmap" => 23_000,
        _ => 100,
    }
}

/// Device time of a kernel that tells none of its own.
pub(crate) const KERNEL: u64 = 1_360;

/// Device time of a fill or copy inside the device.
pub(crate) fn of_device_bytes(bytes: u64) -> u64 {
    1_500 + bytes / 3_000
}

/// Device time of a copy over the bus.
pub(crate) fn of_bus_bytes(bytes: u64) -> u64 {
    2_000 + bytes / 50
}
