//! Graphs of a program: captured, replayed in order with the other uses of their blocks, dropped.

use streams::{CaptureMode, GraphExec, Stream, StreamOrder};

use crate::meetings::Side;
use crate::operation::{BlockName, CaptureStep, GraphName, Join, StreamName};
use crate::outcome::Feature;
use crate::world::{Done, World};

/// A graph, and the word that it leaves in each of its blocks.
pub(crate) struct Recorded {
    replay: GraphExec,
    words: Vec<(BlockName, u32)>,
}

impl World<'_> {
    pub(crate) fn capture(
        &mut self,
        name: GraphName,
        stream: StreamName,
        inside: &[CaptureStep],
    ) -> Done {
        let capturing = self.known(stream)?.stream;
        let _under_way = self.stand.meetings.begin(Side::Capture)?;
        let capture = capturing.begin_capture(self.mode(name)).expect("a capture");
        let mut words = Vec::new();
        for step in inside {
            let _done = match *step {
                CaptureStep::Allocate(block, bytes) => self.allocate(block, stream, bytes, None),
                CaptureStep::AllocateBeside(block, beside, bytes) => {
                    self.allocate(block, beside, bytes, None)
                }
                CaptureStep::Touch(block) => self.touch(block, &capturing, &mut words),
                CaptureStep::Free(block) => self.free(block, crate::operation::Way::Free, None),
            };
        }
        let graph = capture.end().expect("the capture is whole");
        let replay = graph.instantiate().expect("a launchable graph");
        drop(graph);
        self.graphs.insert(name, Recorded { replay, words });
        self.tally.reached.add(Feature::Capture);
        Some(())
    }

    /// How a graph is captured. Others than the global mode where there are other threads: that
    /// one forbids them what they do.
    fn mode(&self, name: GraphName) -> CaptureMode {
        match name.0 % 3 {
            0 if self.alone => CaptureMode::Global,
            0 | 1 => CaptureMode::ThreadLocal,
            _ => CaptureMode::Relaxed,
        }
    }

    /// The graph writes a block and reads it back.
    fn touch(
        &mut self,
        name: BlockName,
        capturing: &Stream,
        words: &mut Vec<(BlockName, u32)>,
    ) -> Done {
        self.pieces.get(&name)?.owner.as_ref()?;
        let word = self.new_word();
        let piece = self.pieces.get_mut(&name)?;
        let block = piece.owner.as_mut()?;
        self.stand.write(capturing, block, word);
        self.stand.check(capturing, block, word);
        match words.iter_mut().find(|(known, _)| *known == name) {
            Some((_, last)) => *last = word,
            None => {
                piece.graphs += 1;
                piece.was_captured = true;
                words.push((name, word));
            }
        }
        Some(())
    }

    pub(crate) fn replay(&mut self, name: GraphName, stream: StreamName, join: Join) -> Done {
        let stream = self.known(stream)?.stream;
        let words = self.graphs.get(&name)?.words.clone();
        // Replays of one graph come one after the other on any streams, which the simulator takes
        // into account and `streams`, which knows of waits only (O5), does not. Words order them.
        (!words.is_empty()).then_some(())?;
        let pieces = words.iter().filter_map(|(block, _)| self.pieces.get(block));
        let users: Vec<StreamOrder> = pieces.flat_map(|piece| piece.users(true)).collect();
        self.order_all(&users, &stream, join).then_some(())?;
        let _running = self.graphs.get(&name)?.replay.launch(&stream).expect("a replay");
        for (block, word) in words {
            if let Some(piece) = self.pieces.get_mut(&block) {
                piece.written(&stream, word);
            }
        }
        self.tally.reached.add(Feature::Replay);
        Some(())
    }

    pub(crate) fn drop_graph(&mut self, name: GraphName) -> Done {
        let Recorded { replay, words } = self.graphs.remove(&name)?;
        for (block, _) in words {
            self.leave(block);
        }
        drop(replay);
        Some(())
    }
}
