//! What an observer is told of memory, beside what it is told of streams, and in which order.

use std::sync::{Arc, Mutex};

use allocator::observe::{Happening as MemoryHappening, What as MemoryWhat};
use streams::CaptureMode;
use streams::observe::{Happening, What};
use wellspring::{Builder, DeviceBuffer};

/// Keeps what it is told as lines.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no test panics meanwhile"))
    }

    fn note(&self, line: String) {
        self.0.lock().expect("no test panics meanwhile").push(line);
    }
}

fn here(place: Option<streams::observe::Place>) -> &'static str {
    match place {
        None => "",
        Some(place) if place.file().ends_with("it/observed.rs") => " here",
        Some(_) => " elsewhere",
    }
}

impl streams::observe::Observer for Notes {
    fn observe(&self, happening: &Happening<'_>) {
        let here = here(happening.place);
        match happening.what {
            What::Submitted { ordinal, .. } => self.note(format!("submit {ordinal}{here}")),
            What::Recorded { by, .. } => self.note(format!("record {by:?}{here}")),
            What::Waited { by, .. } => self.note(format!("wait {by:?}{here}")),
            What::StreamOpened { .. } | What::Passed { .. } | _ => {}
        }
    }
}

impl allocator::observe::Observer for Notes {
    fn observe(&self, happening: &MemoryHappening) {
        let here = here(happening.place);
        self.note(match happening.what {
            MemoryWhat::Opened { bytes, .. } => format!("opened {bytes}{here}"),
            MemoryWhat::Closed { bytes, .. } => format!("closed {bytes}{here}"),
            MemoryWhat::Allocated { size, requested, step, capturing, .. } => {
                let capturing = if capturing { " capturing" } else { "" };
                format!("allocated {requested} of {size} {step:?}{capturing}{here}")
            }
            MemoryWhat::Used { kind, .. } => format!("used {kind:?}{here}"),
            MemoryWhat::Held { .. } => format!("held{here}"),
            MemoryWhat::HoldEnded { .. } => format!("hold ended{here}"),
            MemoryWhat::Freed { size, .. } => format!("freed {size}{here}"),
            MemoryWhat::OutOfMemory { requested, .. } => format!("no room for {requested}{here}"),
            MemoryWhat::Moved { .. } => format!("moved{here}"),
            _ => "?".to_owned(),
        });
    }
}

#[test]
fn every_block_is_told_from_its_hand_out_to_its_free() {
    let notes = Arc::new(Notes::default());
    let builder = Builder::new().observer(&notes).limit_bytes(64 << 20).pending_bytes_max(0);
    let runtime = builder.simulated().expect("a simulated device");
    let (home, user) =
        (runtime.create_stream().expect("a stream"), runtime.create_stream().expect("a stream"));
    let mut buffer = DeviceBuffer::<u8>::new(&runtime, &home, 1000).expect("memory");
    assert_eq!(notes.take(), ["opened 2097152", "allocated 1000 of 1024 Growth here"]);
    let _filled = buffer.fill(&home, 1).expect("a fill");
    buffer.record_stream(&user);
    let _use = buffer.record_use(&user);
    let hold = buffer.hold();
    buffer.free().expect("a free");
    drop(hold);
    let told = [
        "used Begun elsewhere",
        "submit 1 here",
        "used Submitted elsewhere",
        "used WholeStream here",
        "used UntilNow here",
        "held here",
        "freed 1024 here",
        "hold ended",
    ];
    assert_eq!(notes.take(), told);
    drop(DeviceBuffer::<u8>::new(&runtime, &home, 1000).expect("memory"));
    assert_eq!(notes.take(), ["allocated 1000 of 1024 OwnStream here", "freed 1024"]);
    let kept = DeviceBuffer::<u8>::new(&runtime, &home, 2 << 20).expect("memory");
    assert!(DeviceBuffer::<u8>::new(&runtime, &home, 64 << 20).is_err());
    drop(kept);
    assert!(notes.take().contains(&format!("no room for {} here", 64 << 20)));
    let raw = runtime.allocator().allocate_raw(&home, 512).expect("memory");
    runtime.allocator().free_raw(raw).expect("a free");
    assert!(runtime.allocator().free_raw(raw).is_err(), "freed already");
    let told = notes.take();
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    assert!(told.ends_with(&["allocated 512 of 512 Growth here", "freed 512 here"]), "{told:?}");
}

#[test]
fn a_wait_that_the_allocator_makes_is_told_as_its_own() {
    let notes = Arc::new(Notes::default());
    let builder = Builder::new().observer(&notes).pending_bytes_max(0).limit_bytes(2 << 20);
    let runtime = builder.simulated().expect("a simulated device");
    let (home, user) =
        (runtime.create_stream().expect("a stream"), runtime.create_stream().expect("a stream"));
    let mut buffer = DeviceBuffer::<u8>::new(&runtime, &home, 2 << 20).expect("memory");
    let kernels = wellspring::Kernels::load(runtime.context()).expect("kernels");
    user.wait_stream(&home).expect("a wait");
    drop(kernels.spin(&user, 1_000_000_000).expect("a spin"));
    let _filled = buffer.fill(&user, 1).expect("a fill");
    drop(buffer);
    notes.take();
    drop(DeviceBuffer::<u8>::new(&runtime, &home, 2 << 20).expect("memory"));
    let told =
        ["wait Library here", "allocated 2097152 of 2097152 DeviceWait here", "freed 2097152"];
    let told_now = notes.take();
    assert!(told_now.iter().any(|line| line.starts_with("wait Library")), "{told_now:?}");
    assert_eq!(told_now[told_now.len() - 2..], told[1..], "{told_now:?}");
}

#[test]
fn a_captured_use_and_its_hold_are_told() {
    let notes = Arc::new(Notes::default());
    let runtime = Builder::new().observer(&notes).simulated().expect("a simulated device");
    let home = runtime.create_stream().expect("a stream");
    let capture = home.begin_capture(CaptureMode::ThreadLocal).expect("a capture");
    let mut buffer = DeviceBuffer::<u8>::new(&runtime, &home, 512).expect("memory");
    let _captured = buffer.fill(&home, 1).expect("a fill");
    drop(buffer);
    drop(capture.end().expect("a graph"));
    let told = [
        "opened 2097152",
        "allocated 512 of 512 Growth capturing here",
        "used Begun elsewhere",
        "held elsewhere",
        "submit 0 here",
        "used Captured elsewhere",
        "freed 512",
        "hold ended",
    ];
    assert_eq!(notes.take(), told);
}

#[test]
fn the_checker_and_another_observer_both_hear_everything() {
    let notes = Arc::new(Notes::default());
    let runtime = Builder::new().observer(&notes).checked().simulated().expect("a device");
    let (home, other) =
        (runtime.create_stream().expect("a stream"), runtime.create_stream().expect("a stream"));
    let mut buffer = DeviceBuffer::<u8>::new(&runtime, &home, 512).expect("memory");
    let _filled = buffer.fill(&home, 1).expect("a fill");
    let _filled = buffer.fill(&other, 2).expect("a fill");
    runtime.synchronize().expect("all ends");
    assert!(notes.take().iter().filter(|line| line.starts_with("submit")).count() == 2);
    let reports = runtime.checker().expect("it is on").reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!(reports[0].kind, checker::Kind::UnorderedAccess);
}
