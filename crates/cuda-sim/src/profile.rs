//! What a simulated device is: its memory, its attributes, its driver's age.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use cuda_sys::CUdevice_attribute as Attribute;

use crate::handle::HandleReuse;

const MIB: u64 = 1 << 20;

/// A device and the driver that serves it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeviceProfile {
    /// What `cuDeviceGetName` says.
    pub name: String,
    /// What `cuDeviceTotalMem` says.
    pub total_bytes: u64,
    /// How much can be allocated; [`crate::Machine::set_capacity`] changes it later.
    pub capacity_bytes: u64,
    /// Whether physical memory can be mapped at addresses of one's own.
    pub virtual_memory: bool,
    /// Whether there are stream-ordered pools.
    pub pools: bool,
    /// `1000 * major + 10 * minor`; calls that a later version brought are missing.
    pub driver_version: u32,
    /// Entry points that are missing although the version would have them.
    pub missing: Vec<&'static str>,
    /// When handles and addresses are given out again.
    pub reuse: HandleReuse,
    /// Whether it and other such devices can reach each other's memory.
    pub peer_access: bool,
    /// How many hardware queues the streams share; with `None` each has its own.
    pub hardware_queues: Option<NonZeroU32>,
    /// Bytes of one granule of virtual memory.
    pub granularity_bytes: u64,
    attributes: BTreeMap<u32, i32>,
}

impl DeviceProfile {
    /// An H200 with 141 GB behind a driver for CUDA 13.0.
    #[must_use]
    pub fn h200() -> Self {
        Self {
            name: String::from("Simulated H200"),
            total_bytes: 143_156 * MIB,
            capacity_bytes: 142_600 * MIB,
            virtual_memory: true,
            pools: true,
            driver_version: 13_000,
            missing: Vec::new(),
            reuse: HandleReuse::LastInFirstOut,
            peer_access: true,
            hardware_queues: None,
            granularity_bytes: 2 * MIB,
            attributes: hopper_attributes(),
        }
    }

    /// The same device with `bytes` of memory.
    #[must_use]
    pub fn small(bytes: u64) -> Self {
        Self {
            name: String::from("Simulated small device"),
            total_bytes: bytes,
            capacity_bytes: bytes,
            ..Self::h200()
        }
    }

    /// The same device without virtual memory management and pools, like many virtual GPUs.
    #[must_use]
    pub fn without_vmm() -> Self {
        Self {
            name: String::from("Simulated virtual GPU"),
            virtual_memory: false,
            pools: false,
            peer_access: false,
            ..Self::h200()
        }
    }

    /// The same device behind an older driver: `12_020` is CUDA 12.2.
    #[must_use]
    pub fn old_driver(version: u32) -> Self {
        Self { driver_version: version, ..Self::h200() }
    }

    /// With another capacity.
    #[must_use]
    pub fn with_capacity(mut self, bytes: u64) -> Self {
        self.capacity_bytes = bytes;
        self
    }

    /// With handles and addresses given out again as `reuse` says.
    #[must_use]
    pub fn with_reuse(mut self, reuse: HandleReuse) -> Self {
        self.reuse = reuse;
        self
    }

    /// Without one entry point.
    #[must_use]
    pub fn without(mut self, entry_point: &'static str) -> Self {
        self.missing.push(entry_point);
        self
    }

    /// With one attribute changed.
    #[must_use]
    pub fn with_attribute(mut self, attribute: Attribute, value: i32) -> Self {
        self.attributes.insert(attribute.0, value);
        self
    }

    /// With or without peer access.
    #[must_use]
    pub fn with_peer_access(mut self, peer_access: bool) -> Self {
        self.peer_access = peer_access;
        self
    }

    /// With so many hardware queues for all streams: those that share one hold each other up.
    #[must_use]
    pub fn with_hardware_queues(mut self, count: NonZeroU32) -> Self {
        self.hardware_queues = Some(count);
        self
    }

    /// The value of an attribute; zero for those of features that are not simulated.
    pub(crate) fn attribute(&self, attribute: Attribute) -> Option<i32> {
        let flag = |value: bool| Some(i32::from(value));
        match attribute {
            Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED => {
                flag(self.virtual_memory)
            }
            Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED => flag(self.pools),
            Attribute(number) if number == 0 || 148 <= number => None,
            Attribute(number) => Some(self.attributes.get(&number).copied().unwrap_or(0)),
        }
    }
}

fn hopper_attributes() -> BTreeMap<u32, i32> {
    let listed = [
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, i32::MAX),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65_535),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65_535),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49_152),
        (Attribute::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65_536),
        (Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65_536),
        (Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1_980_000),
        (Attribute::CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512),
        (Attribute::CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132),
        (Attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3),
        (Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62_914_560),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048),
        (Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9),
        (Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0),
        (Attribute::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1),
    ];
    listed.into_iter().map(|(attribute, value)| (attribute.0, value)).collect()
}
