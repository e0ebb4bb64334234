//! Opening a device: what is there, what is missing, and what is said about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use allocator::{PlainSource, PoolKind, Region, Source, SourceError};
use cuda_sim::{DeviceProfile, Machine, Schedule};

use crate::{
    AllocError, BUILD, Builder, DeviceBuffer, DeviceChoice, DeviceKind, Error, OpenError, Policy,
    Simulation, open, open_or_simulated, simulated,
};

#[test]
fn a_machine_without_a_gpu_is_told_what_is_missing_and_served_anyway() {
    let served = open_or_simulated().unwrap();
    match open() {
        Ok(_) => {
            assert_eq!(served.device_kind(), DeviceKind::Gpu);
            assert_eq!(served.fallback_reason(), None);
        }
        Err(reason) => {
            assert!(matches!(reason, OpenError::Load(_) | OpenError::NoDevice { .. }));
            assert!(reason.to_string().starts_with("no CUDA "), "{reason}");
            assert_eq!(served.device_kind(), DeviceKind::Simulated);
            assert!(served.describe().starts_with("simulated device 0: Simulated H200"));
            assert!(served.describe().contains(&reason.to_string()));
            assert_eq!(served.fallback_reason(), Some(&reason));
        }
    }
}

#[test]
fn a_device_that_is_not_there_is_counted() {
    let machine = Machine::builder().schedule(Schedule::Lazy).build();
    let error = Builder::new().device(3).open_machine(&machine).unwrap_err();
    assert_eq!(error, OpenError::NoDevice { ordinal: 3, count: 1 });
    assert_eq!(error.to_string(), "no CUDA device 3: the driver sees 1");
}

#[test]
fn the_source_follows_the_device_unless_it_is_chosen() {
    let source = |builder: Builder, profile: DeviceProfile| {
        let runtime = builder.simulation(Simulation::of(profile)).simulated();
        runtime.map(|runtime| runtime.allocator().source_name())
    };
    assert_eq!(source(Builder::new(), DeviceProfile::h200()), Ok("vmm"));
    assert_eq!(source(Builder::new(), DeviceProfile::without_vmm()), Ok("plain"));
    assert_eq!(source(Builder::new().plain_source(), DeviceProfile::h200()), Ok("plain"));
    let mut incomplete = DeviceProfile::h200();
    incomplete.missing.push("cuMemAddressReserve");
    assert_eq!(source(Builder::new(), incomplete), Ok("plain"));
    assert_eq!(source(Builder::new().vmm_source(), DeviceProfile::h200()), Ok("vmm"));
    let refused = source(Builder::new().vmm_source(), DeviceProfile::without_vmm());
    assert_eq!(refused, Err(OpenError::NoVirtualMemory { ordinal: 0 }));
}

/// Plain memory, counted.
#[derive(Debug)]
struct Counted {
    inner: PlainSource,
    opened: Arc<AtomicU64>,
}

impl Source for Counted {
    fn name(&self) -> &'static str {
        "counted"
    }

    fn open(&self, kind: PoolKind, bytes: u64) -> Result<Arc<dyn Region>, SourceError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.inner.open(kind, bytes)
    }

    fn segment_bytes(&self, kind: PoolKind, bytes: u64) -> u64 {
        self.inner.segment_bytes(kind, bytes)
    }

    fn growth_bytes(&self, kind: PoolKind) -> u64 {
        self.inner.growth_bytes(kind)
    }
}

#[test]
fn memory_may_come_from_a_source_of_ones_own() {
    let opened = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&opened);
    let builder = Builder::new().custom_source(move |context| {
        let inner = PlainSource::new(context);
        Ok(Arc::new(Counted { inner, opened: Arc::clone(&counter) }))
    });
    let runtime = builder.simulated().unwrap();
    let stream = runtime.create_stream().unwrap();
    drop(DeviceBuffer::<u8>::zeroed(&runtime, &stream, 100).unwrap());
    assert_eq!(runtime.allocator().source_name(), "counted");
    assert_eq!(opened.load(Ordering::Relaxed), 1);
}

#[test]
fn settings_reach_the_allocator() {
    let builder = Builder::new().policy(Policy::Deterministic).limit_bytes(8 << 20);
    let runtime = builder.pending_bytes_max(1 << 20).simulated().unwrap();
    let config = runtime.allocator().config();
    assert_eq!(config.policy, Policy::Deterministic);
    assert_eq!(config.pending_bytes_max, Some(1 << 20));
    let stream = runtime.create_stream().unwrap();
    let kept = DeviceBuffer::<u8>::new(&runtime, &stream, 6 << 20).unwrap();
    let error = DeviceBuffer::<u8>::new(&runtime, &stream, 4 << 20).unwrap_err();
    assert!(matches!(error, Error::Alloc(AllocError::OutOfMemory(_))));
    let text = error.to_string();
    assert!(text.starts_with("failed to allocate: out of memory: "), "{text}");
    drop(kept);
    assert!(DeviceBuffer::<u8>::new(&runtime, &stream, 4 << 20).is_ok());
}

#[test]
fn a_choice_is_read_as_it_is_written() {
    for choice in [DeviceChoice::Auto, DeviceChoice::Simulated, DeviceChoice::Gpu(3)] {
        assert_eq!(choice.to_string().parse(), Ok(choice));
    }
    assert_eq!("cuda".parse(), Ok(DeviceChoice::Gpu(0)));
    for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:1x", "SIM"] {
        let error = text.parse::<DeviceChoice>().unwrap_err();
        assert_eq!(error, OpenError::UnknownChoice { text: text.to_owned() });
    }
    let simulated = Builder::new().open_choice(DeviceChoice::Simulated).unwrap();
    assert_eq!(simulated.device_kind(), DeviceKind::Simulated);
    assert_eq!(simulated.fallback_reason(), None);
}

#[test]
fn two_runtimes_of_one_machine_share_its_context_and_not_its_cache() {
    let machine = Machine::builder().build();
    let first = Builder::new().open_machine(&machine).unwrap();
    let second = Builder::new().open_machine(&machine).unwrap();
    let stream = first.create_stream().unwrap();
    drop(DeviceBuffer::<u8>::new(&first, &stream, 1).unwrap());
    assert_eq!(first.context().id(), second.context().id());
    assert!(0 < first.stats().reserved_bytes.current);
    assert_eq!(second.stats().reserved_bytes.current, 0);
}

#[test]
fn a_runtime_ends_with_all_its_memory_given_back() {
    let runtime = simulated(Simulation::default()).unwrap();
    let machine = runtime.machine().unwrap().clone();
    let stream = runtime.create_stream().unwrap();
    let buffer = DeviceBuffer::<u8>::zeroed(&runtime, &stream, 10 << 20).unwrap();
    drop(runtime);
    assert!(0 < machine.used_bytes());
    drop((buffer, stream));
    assert_eq!(machine.used_bytes(), 0);
    assert_eq!(machine.take_hazards(), []);
}

#[test]
fn the_build_tells_its_version() {
    assert!(BUILD.to_string().starts_with("wellspring 0."));
    let is_hexadecimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(BUILD.commit.is_none_or(|commit| 12 <= commit.len() && is_hexadecimal(commit)));
}
