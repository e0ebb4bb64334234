//! Whether streams that have nothing to do with each other hold each other up.

use cuda_sys::CUresult;

use crate::asker::{Asker, MILLISECOND};
use crate::driver::Stream;

/// A waiter keeps the record that was there when it was told to wait, whatever shares its queue.
pub(crate) fn recorded_anew(asker: &Asker<'_>, connections: u32, between: usize) {
    let driver = &asker.driver;
    let source = asker.stream();
    for stream in (0..between).map(|_| asker.stream()) {
        asker.nop(stream);
    }
    let (waiter, event) = (asker.stream(), asker.event());
    driver.ctx_synchronize();
    asker.spin(source, 10 * MILLISECOND);
    driver.event_record(event, source);
    driver.stream_wait_event(waiter, event);
    asker.spin(source, 400 * MILLISECOND);
    driver.event_record(event, source);
    asker.nop(waiter);
    asker.pass_milliseconds(150);
    let probe = format!(
        "connections {connections}, {between:2} streams between: waiter on the first record \
         after 150 ms (record was done at 10 ms, re-recorded behind 400 ms)"
    );
    asker.code(&probe, driver.stream_query(waiter));
    driver.ctx_synchronize();
}

pub(crate) fn one_busy(asker: &Asker<'_>, count: usize) {
    let streams: Vec<Stream> = (0..count).map(|_| asker.stream()).collect();
    let (busy, others) = streams.split_first().expect("at least two streams are asked for");
    asker.driver.ctx_synchronize();
    asker.spin(*busy, 200 * MILLISECOND);
    let probe = format!("{count} non-blocking streams, one busy: streams held up by it");
    asker.text(&probe, held_up(asker, others));
}

pub(crate) fn one_busy_one_waiting(asker: &Asker<'_>, count: usize) {
    let driver = &asker.driver;
    let (busy, waiting) = (asker.stream(), asker.stream());
    let others: Vec<Stream> = (2..count).map(|_| asker.stream()).collect();
    driver.ctx_synchronize();
    let event = asker.event();
    asker.spin(busy, 200 * MILLISECOND);
    driver.event_record(event, busy);
    driver.stream_wait_event(waiting, event);
    let probe = format!("{count} streams, one busy, one waiting for it: others held up");
    asker.text(&probe, held_up(asker, &others));
}

/// How many of `streams` cannot run a kernel that does nothing within 60 ms.
fn held_up(asker: &Asker<'_>, streams: &[Stream]) -> usize {
    for stream in streams {
        asker.nop(*stream);
    }
    asker.pass_milliseconds(60);
    let pending =
        |stream: &&Stream| asker.driver.stream_query(**stream) == CUresult::CUDA_ERROR_NOT_READY;
    let held_up = streams.iter().filter(pending).count();
    asker.driver.ctx_synchronize();
    held_up
}
