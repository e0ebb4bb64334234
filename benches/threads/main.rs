//! Question: what do threads cost each other that share one allocator, one process, one driver?
//! Method: three programs that users of other libraries reported as slow, each beside the design
//! that was at fault, in the same run and with the ways taking turns. `own_streams`: threads with a
//! stream each on one allocator, beside that allocator behind one mutex. `devices`: eight simulated
//! devices, each with threads of its own, beside one map of all pointers behind a lock. `tail`:
//! 200,000 calls a second from many threads while others create and destroy events, beside events
//! created and destroyed under the lock of the structure. `pinned`: pinned host memory, which is
//! not cached, so that each request is a call of the driver.
//! The driver matters to the last two alone, which run on the device that `WELLSPRING_DEVICE`
//! names; the others make no driver call, which is asserted, as is that no block is lost.
//! Not measured: threads that share a stream; the device.
//! Its lines are `threads: name=value …`. A goal that is missed is told in its line, and fails
//! nothing: on a machine that others use, processors come and go.
#![expect(clippy::print_stdout, reason = "a bench says what it measured")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has nothing to measure")]
#![expect(clippy::indexing_slicing, reason = "streams are made for every count of threads")]

mod figures;
mod tail;
mod throughput;

use std::time::Duration;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Extent {
    /// How often each way has its turn.
    rounds: usize,
    /// How long a turn of a throughput lasts, and one of a tail.
    turn: Duration,
    tail_turn: Duration,
    /// The most threads, whatever the machine has.
    threads_max: usize,
}

impl Extent {
    const WHOLE: Self = Self {
        rounds: 9,
        turn: Duration::from_millis(30),
        tail_turn: Duration::from_millis(500),
        threads_max: 16,
    };
    /// For a look whether the bench still runs, as a test of all targets takes.
    const SHORT: Self = Self {
        rounds: 1,
        turn: Duration::from_millis(3),
        tail_turn: Duration::from_millis(20),
        threads_max: 2,
    };
}

fn main() {
    // As cargo says to benches that are to measure, and not to those that are only to run.
    let is_measured = std::env::args().any(|argument| argument == "--bench");
    let extent = if is_measured { Extent::WHOLE } else { Extent::SHORT };
    throughput::own_streams(extent);
    throughput::devices(extent);
    tail::events(extent);
    tail::pinned(extent);
}
