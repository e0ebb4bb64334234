//! How a capture begins and ends, what breaks it, and the life of a graph.

use cuda_sys::{CUresult, CUstreamCaptureMode};

use crate::asker::Asker;
use crate::driver::{Exec, Graph, Stream};

const GLOBAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

pub(crate) fn all(asker: &Asker<'_>) {
    begin_and_end(asker);
    launches_on_the_legacy_stream(asker);
    exchanged_mode(asker);
}

/// In a process of its own: what a driver does after it is nobody's question.
pub(crate) fn destroyed(asker: &Asker<'_>) {
    let captured = begun(asker, asker.stream(), GLOBAL);
    asker.code("destroy the capturing stream", asker.driver.stream_destroy(captured));
}

/// `stream`, capturing.
fn begun(asker: &Asker<'_>, stream: Stream, mode: CUstreamCaptureMode) -> Stream {
    asker.driver.begin_capture(stream, mode);
    stream
}

fn end(asker: &Asker<'_>, stream: Stream) -> CUresult {
    asker.driver.end_capture(stream, &mut Graph::default())
}

fn begin_and_end(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let (stream, forked) = (begun(asker, asker.stream(), RELAXED), asker.stream());
    let event = asker.event();
    driver.event_record(event, stream);
    driver.stream_wait_event(forked, event);
    asker.nop(forked);
    asker.code("end with an unjoined fork", end(asker, stream));

    let (stream, other) = (begun(asker, asker.stream(), RELAXED), asker.stream());
    asker.code("begin again", driver.begin_capture(stream, RELAXED));
    asker.code("end on another stream", end(asker, other));
    asker.code("end", end(asker, stream));
    asker.code("end not capturing", end(asker, stream));
    asker.code("capture the legacy stream", driver.begin_capture(Stream::NULL, RELAXED));
}

fn launches_on_the_legacy_stream(asker: &Asker<'_>) {
    for (kind, stream) in [("non-blocking", asker.stream()), ("blocking", asker.blocking_stream())]
    {
        let stream = begun(asker, stream, GLOBAL);
        let launched = asker.name(asker.nop(Stream::NULL));
        let ended = asker.name(end(asker, stream));
        let probe = format!("launch on legacy while a {kind} stream captures");
        asker.text(&probe, format!("{launched}; end {ended}"));
    }
}

fn exchanged_mode(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let (done, other) = (asker.event(), asker.stream());
    driver.event_record(done, other);
    driver.stream_synchronize(other);
    let stream = begun(asker, asker.stream(), GLOBAL);
    let mut mode = RELAXED;
    driver.exchange_capture_mode(&mut mode);
    let allocated = driver.mem_alloc(&mut 0, 512);
    let queried = driver.event_query(done);
    driver.exchange_capture_mode(&mut mode);
    let codes = [allocated, queried, end(asker, stream)];
    let [allocated, queried, ended] = codes.map(|code| asker.name(code));
    let probe = "global capture, this thread exchanged to relaxed: cuMemAlloc, cuEventQuery";
    asker.text(probe, format!("{allocated}, {queried}; end {ended}"));
}

/// The life of a graph.
pub(crate) fn graphs(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let stream = begun(asker, asker.stream(), RELAXED);
    let (mut graph, mut exec) = (Graph::default(), Exec::default());
    asker.nop(stream);
    driver.end_capture(stream, &mut graph);
    asker.code("instantiate", driver.graph_instantiate(&mut exec, graph));
    asker.code("launch", driver.graph_launch(exec, stream));
    asker.code("launch on legacy", driver.graph_launch(exec, Stream::NULL));
    asker.code("destroy exec while running", driver.graph_exec_destroy(exec));
    asker.code("destroy graph", driver.graph_destroy(graph));
    asker.code("sync", driver.ctx_synchronize());
}
