//! Streams and events: order, queries, handles, host functions, and handles that are nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use cuda_sys::{CUevent_flags, CUresult, CUstream_flags};

use crate::asker::{Asker, MILLISECOND};
use crate::driver::{Driver, Event, Stream};

pub(crate) fn all(asker: &Asker<'_>) {
    events_unrecorded_and_pending(asker);
    identity(asker);
    flags_and_priorities(asker);
    legacy_order(asker);
    host_functions(asker);
    wrong_handles(asker);
}

fn events_unrecorded_and_pending(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let (event, begin, end) = (asker.event(), asker.timing_event(), asker.timing_event());
    let stream = asker.stream();
    let elapsed = |from, to| driver.event_elapsed_time(&mut 0.0, from, to);
    asker.code("query unrecorded event", driver.event_query(event));
    asker.code("synchronize unrecorded", driver.event_synchronize(event));
    asker.code("wait on unrecorded", driver.stream_wait_event(stream, event));
    asker.code("elapsed of unrecorded", elapsed(begin, end));
    driver.event_record(event, stream);
    driver.event_record(begin, stream);
    driver.stream_synchronize(stream);
    asker.code("elapsed with no-timing event", elapsed(event, begin));

    asker.spin(stream, 100 * MILLISECOND);
    driver.event_record(end, stream);
    asker.code("query pending", driver.event_query(end));
    asker.code("elapsed with pending end", elapsed(begin, end));
    asker.code("elapsed same event", elapsed(begin, begin));
    asker.code("stream query busy", driver.stream_query(stream));
    asker.code("destroy event while pending", driver.event_destroy(end));
    asker.code("destroy stream with pending work", driver.stream_destroy(stream));
    asker.code("context synchronize", driver.ctx_synchronize());
}

fn identity(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let (mut first_id, mut second_id) = (0, 0);
    let first = asker.stream();
    asker.code("stream id", driver.stream_get_id(first, &mut first_id));
    driver.stream_destroy(first);
    let second = asker.stream();
    driver.stream_get_id(second, &mut second_id);
    let (reused, differs) = (yes(first == second), yes(first_id != second_id));
    asker.text("handle reused after destroy", format!("{reused}, id differs: {differs}"));
    let id = |stream| driver.stream_get_id(stream, &mut 0);
    asker.code("id of legacy stream (0)", id(Stream::NULL));
    asker.code("id of CU_STREAM_LEGACY", id(Stream::LEGACY));
    asker.code("id of per-thread", id(Stream::PER_THREAD));
}

fn flags_and_priorities(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let (mut stream, mut event) = (Stream::NULL, Event::default());
    asker.code("create with bad flags", driver.stream_create(&mut stream, 0xff));
    asker.code("event with bad flags", driver.event_create(&mut event, 0xff00));
    let (mut least, mut greatest, mut priority) = (-1, -1, 1);
    asker.code("priority range", driver.priority_range(&mut least, &mut greatest));
    asker.text("least, greatest", format!("{least} {greatest}"));
    let flags = CUstream_flags::CU_STREAM_NON_BLOCKING.0;
    let created = driver.stream_create_with_priority(&mut stream, flags, -100);
    asker.code("create prio -100", created);
    driver.stream_get_priority(stream, &mut priority);
    asker.text("clamped to", priority);
}

/// Blocking streams and the legacy stream wait for each other; non-blocking ones do not.
fn legacy_order(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let (blocking, busy, idle) = (asker.blocking_stream(), asker.stream(), asker.stream());
    asker.spin(blocking, 200 * MILLISECOND);
    asker.nop(Stream::NULL);
    asker.code("legacy after busy blocking stream", driver.stream_query(Stream::NULL));
    asker.spin(busy, 400 * MILLISECOND);
    driver.stream_synchronize(blocking);
    driver.stream_synchronize(Stream::NULL);
    asker.nop(Stream::NULL);
    asker.pass_milliseconds(50);
    asker.code("legacy after busy non-blocking stream", driver.stream_query(Stream::NULL));
    driver.ctx_synchronize();

    asker.spin(Stream::NULL, 200 * MILLISECOND);
    asker.nop(blocking);
    asker.nop(idle);
    asker.pass_milliseconds(30);
    let codes = [driver.stream_query(blocking), driver.stream_query(idle)];
    let [held, free] = codes.map(|code| asker.name(code));
    asker.text("behind busy legacy: blocking, non-blocking", format!("{held}, {free}"));
    driver.ctx_synchronize();
}

fn host_functions(asker: &Asker<'_>) {
    let stream = asker.stream();
    let query = |driver: &Driver| driver.stream_query(Stream::NULL);
    let (launched, answer) = inside_a_host_function(asker, stream, query);
    asker.code("launch host func", launched);
    asker.code("cuStreamQuery inside a host function", answer);
    let allocate = |driver: &Driver| driver.mem_alloc(&mut 0, 512);
    let (launched, answer) = inside_a_host_function(asker, stream, allocate);
    asker.code("launch host func 2", launched);
    asker.code("cuMemAlloc inside a host function", answer);
}

/// What the launch answered, and what `call` answered in the host function.
fn inside_a_host_function(
    asker: &Asker<'_>,
    stream: Stream,
    call: fn(&Driver) -> CUresult,
) -> (CUresult, CUresult) {
    let answer = Arc::new(AtomicU32::new(CUresult::CUDA_ERROR_UNKNOWN.0));
    let (slot, driver) = (Arc::clone(&answer), asker.driver.clone());
    let launched = asker.driver.launch_host_function(stream, move || {
        slot.store(call(&driver).0, Ordering::Release);
    });
    asker.driver.stream_synchronize(stream);
    (launched, CUresult(answer.load(Ordering::Acquire)))
}

fn wrong_handles(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let (stream, mut event) = (asker.stream(), Event::default());
    asker.code("wait null event", driver.stream_wait_event(stream, Event::default()));
    asker.code("synchronize null event", driver.event_synchronize(Event::default()));
    asker.code("destroy null stream", driver.stream_destroy(Stream::NULL));
    asker.code("destroy legacy", driver.stream_destroy(Stream::LEGACY));
    let interprocess = CUevent_flags::CU_EVENT_INTERPROCESS.0;
    let untimed = interprocess | CUevent_flags::CU_EVENT_DISABLE_TIMING.0;
    let timed = driver.event_create(&mut event, interprocess);
    asker.code("ipc event without disable timing", timed);
    asker.code("ipc event", driver.event_create(&mut event, untimed));
}

/// Which identifiers are equal, with each numbered when it first appears.
pub(crate) fn ids(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let id = |stream| {
        let mut id = 0;
        driver.stream_get_id(stream, &mut id);
        id
    };
    let here = id(Stream::PER_THREAD);
    let context = asker.context;
    let there = thread::scope(|scope| {
        let other = scope.spawn(move || {
            driver.ctx_set_current(context);
            let mut there = 0;
            driver.stream_get_id(Stream::PER_THREAD, &mut there);
            there
        });
        other.join().expect("the other thread only asks for an id")
    });
    let mut distinct = Vec::new();
    let numbers = [here, there, id(Stream::NULL), id(Stream::LEGACY)].map(|id| {
        let known = distinct.iter().position(|known| *known == id);
        let index = known.unwrap_or(distinct.len());
        if known.is_none() {
            distinct.push(id);
        }
        (index + 1).to_string()
    });
    asker.text("id: per-thread here, per-thread in another thread, 0, legacy", numbers.join(" "));
}

pub(crate) fn handle_reused_at_once(asker: &Asker<'_>) {
    let stream = asker.stream();
    asker.spin(stream, 50 * MILLISECOND);
    asker.driver.stream_destroy(stream);
    let again: Vec<Stream> = (0..40).map(|_| asker.stream()).collect();
    let probe = "handle of a stream destroyed with work pending reused at once";
    asker.text(probe, yes(again.contains(&stream)));
    asker.driver.ctx_synchronize();
}

pub(crate) fn event_others_wait_on(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let (source, waiter, event) = (asker.stream(), asker.stream(), asker.event());
    asker.spin(source, 50 * MILLISECOND);
    driver.event_record(event, source);
    driver.stream_wait_event(waiter, event);
    let destroyed = driver.event_destroy(event);
    asker.nop(waiter);
    let pending = driver.stream_query(waiter);
    let done = driver.stream_synchronize(waiter);
    let after = driver.stream_query(source);
    let names = [destroyed, pending, done, after].map(|code| asker.name(code));
    let [destroyed, pending, done, after] = names;
    asker.text(
        "destroy an event others wait on",
        format!("destroy {destroyed}, waiter {pending} then {done}, source afterwards {after}"),
    );
}

pub(crate) fn synchronize_keeps_its_record(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let (stream, event) = (asker.stream(), asker.event());
    let begin = (asker.environment.now)();
    asker.spin(stream, 100 * MILLISECOND);
    driver.event_record(event, stream);
    let (pass_time, spin) = (asker.environment.pass_time, asker.kernels.spin);
    let context = asker.context;
    let elapsed = thread::scope(|scope| {
        scope.spawn(move || {
            driver.ctx_set_current(context);
            pass_time(20 * MILLISECOND);
            driver.launch(spin, stream, &[200 * MILLISECOND]);
            driver.event_record(event, stream);
        });
        driver.event_synchronize(event);
        (asker.environment.now)() - begin
    });
    asker.text(
        "synchronize begun before another thread re-records \
         (first done at 100 ms, second at 300 ms)",
        if elapsed < 200 * MILLISECOND {
            "returned after about the first"
        } else {
            "returned after about the second"
        },
    );
    driver.ctx_synchronize();
}

fn yes(answer: bool) -> &'static str {
    if answer { "yes" } else { "no" }
}
