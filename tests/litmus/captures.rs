//! Memory and graphs: L13, L24 and L25.

use streams::{CaptureMode, GraphExec, Stream};

use super::Litmus;
use super::trial::Design;
use crate::scenarios::rig::WHOLE;

/// What `work` submits to `stream`, as a graph that can be launched.
fn captured(stream: &Stream, work: impl FnOnce()) -> GraphExec {
    let capture = stream.begin_capture(CaptureMode::ThreadLocal).expect("a capture");
    work();
    let graph = capture.end().expect("a graph");
    graph.instantiate().expect("a launchable graph")
}

fn launch_twice(graph: &GraphExec, stream: &Stream) {
    for _ in 0..2 {
        let _launched = graph.launch(stream).expect("a replay");
    }
}

pub const L13: Litmus = Litmus::alone(
    "L13",
    "a free inside a capture is a free: eager work gets what the graph will use",
    |trial| {
        let allocator = trial.allocator();
        let [home, eager] = trial.streams();
        let mut x = trial.take(&allocator, &home);
        let mut freed = None;
        let graph = captured(&home, || {
            trial.desk().fill_memory(&home, x.block_mut(), 1);
            freed = Some(x.free_while_held());
        });
        let freed = freed.expect("it was freed in the capture");
        eager.wait_stream(&home).expect("a wait");
        if trial.has_edge() {
            launch_twice(&graph, &home);
            drop(graph);
            trial.end_of_all();
            let address = freed.address();
            freed.end();
            trial.ask(&allocator, &home, (address, WHOLE));
        } else {
            // Whatever the device does: a graph can always be launched again.
            assert!(!trial.ask(&allocator, &eager, (freed.address(), WHOLE)), "a graph uses it");
            launch_twice(&graph, &home);
            drop(graph);
            trial.end_of_all();
            freed.end();
        }
    },
    |trial, design| {
        let (shelf, [home, eager]) = (trial.shelf(), trial.streams());
        shelf.lend(&home);
        let graph = captured(&home, || {
            shelf.write(&home, 1);
            shelf.take_back(&home);
        });
        eager.wait_stream(&home).expect("a wait");
        if design == Design::Right {
            drop(graph);
            shelf.lend_and_write(&eager);
        } else {
            shelf.lend_and_write(&eager);
            launch_twice(&graph, &home);
            trial.end_of_all();
        }
    },
);

pub const L24: Litmus = Litmus::alone(
    "L24",
    "memory is first handed out in a capture in the capturing stream's order alone",
    |trial| {
        let allocator = trial.allocator();
        let [before, capturing, replaying] = trial.streams();
        let x = trial.take(&allocator, &before);
        trial.hold(&before);
        x.fill(&before, 1);
        let freed = x.free();
        capturing.wait_stream(&before).expect("a wait");
        if trial.has_edge() {
            trial.end_of(&before);
        }
        let graph = captured(&capturing, || {
            trial.ask(&allocator, &capturing, (freed, WHOLE));
        });
        launch_twice(&graph, &replaying);
        trial.keep(graph);
    },
    |trial, design| {
        let (shelf, [before, capturing, replaying]) = (trial.shelf(), trial.streams());
        shelf.freed_in_use(trial, &before);
        capturing.wait_stream(&before).expect("a wait");
        if design == Design::Right {
            trial.end_of(&before);
        }
        let graph = captured(&capturing, || shelf.lend_and_write(&capturing));
        launch_twice(&graph, &replaying);
        trial.end_of_all();
    },
);

pub const L25: Litmus = Litmus::alone(
    "L25",
    "a graph that was made of a launch does not hold what the launch used",
    |trial| {
        let allocator = trial.allocator();
        let [home, replaying] = trial.streams();
        let mut x = trial.take(&allocator, &home);
        let graph = captured(&home, || {
            trial.desk().fill_memory(&home, x.block_mut(), 1);
        });
        let freed = x.free_while_held();
        let address = freed.address();
        replaying.wait_stream(&home).expect("a wait");
        if trial.has_edge() {
            drop(graph);
            trial.end_of_all();
            freed.end();
            trial.ask(&allocator, &home, (address, WHOLE));
        } else {
            assert!(!trial.ask(&allocator, &home, (address, WHOLE)), "a graph uses it");
            launch_twice(&graph, &replaying);
            drop(graph);
            trial.end_of_all();
            freed.end();
        }
    },
    |trial, design| {
        let (shelf, [home, replaying]) = (trial.shelf(), trial.streams());
        shelf.lend(&home);
        let graph = captured(&home, || shelf.write(&home, 1));
        shelf.take_back(&home);
        if design == Design::Right {
            drop(graph);
            shelf.lend_and_write(&home);
        } else {
            shelf.lend_and_write(&home);
            launch_twice(&graph, &replaying);
            trial.end_of_all();
        }
    },
);
