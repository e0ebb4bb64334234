//! The machine's own thread: host functions run on it, and operations of a real-time machine.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::call::{Call, Inside, Slot, set_inside};
use crate::schedule::Schedule;
use crate::vigil::HostThread;

/// How long it sleeps at most when nothing wakes it.
const NAP: Duration = Duration::from_millis(50);

/// How often it looks at gates.
const AT_A_GATE: Duration = Duration::from_millis(1);

/// Starts the thread; it ends with the machine.
pub(crate) fn spawn(slot: &'static Slot, serial: u64) {
    let started = std::thread::Builder::new()
        .name(String::from("simulated CUDA driver"))
        .spawn(move || while serve(slot, serial) {});
    drop(started.expect("the host can start a thread"));
}

/// Does the next thing; false when the machine is gone.
fn serve(slot: &'static Slot, serial: u64) -> bool {
    let Some(mut call) = Call::of_worker(slot, serial) else { return false };
    if let Some((timeline, function)) = call.host_jobs.pop_front() {
        let at = Arc::clone(&call.worker_at);
        at.has_job.store(true, Ordering::Release);
        let ran = call.unlocked(|| {
            let outside = set_inside(Inside::HostFunction);
            at.inside.store(HostThread::current().0, Ordering::Release);
            function.run();
            at.inside.store(0, Ordering::Release);
            set_inside(outside);
        });
        at.has_job.store(false, Ordering::Release);
        if ran.is_err() {
            return false;
        }
        if let Some(timeline) = timeline {
            call.finish_host_function(timeline);
        }
        slot.changed.notify_all();
        return true;
    }
    let mut nap = NAP;
    if matches!(call.chooser.schedule(), Schedule::RealTime) {
        call.run_due();
        if !call.busy.is_empty() {
            nap = AT_A_GATE;
        }
        if let Some(due) = call.next_due() {
            nap = nap.min(Duration::from_nanos(due.saturating_sub(call.time())));
        }
        if !call.host_jobs.is_empty() {
            return true;
        }
    }
    call.wait(nap.max(Duration::from_micros(20))).is_ok()
}
