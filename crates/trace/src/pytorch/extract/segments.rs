//! Segments and their blocks, of every version of PyTorch that writes any.

use super::Extractor;
use super::judge::{ADDRESS_MAX, DEVICE_MAX, SIZE_BYTES_MAX, block_state, handle, size};
use crate::pytorch::error::{Place, ReadError};
use crate::pytorch::heap::Value;
use crate::pytorch::snapshot::{Block, Segment, SegmentKind, StreamHandle};
use crate::pytorch::word::Word;

impl Extractor {
    pub(super) fn segments(&mut self, value: Value) -> Result<Vec<Segment>, ReadError> {
        let count = self.items(value, Place::Top, "segments")?;
        let mut segments = Vec::new();
        for position in 0..count {
            let place = Place::Segment { segment: position };
            let Value::Dict(dict) = self.item(value, position) else {
                return Err(ReadError::WrongType { place, key: "segments", expected: "dicts" });
            };
            let segment = self.segment(dict, position)?;
            self.heap.budget.push(&mut segments, segment)?;
        }
        Ok(segments)
    }

    fn segment(&mut self, dict: u32, position: usize) -> Result<Segment, ReadError> {
        let place = Place::Segment { segment: position };
        self.visit(self.pairs(dict).len())?;
        let (mut address, mut total_bytes, mut device, mut stream) = (None, None, 0, 0);
        let mut kind = SegmentKind::Unknown;
        let (mut pool_id, mut is_expandable, mut blocks, mut frames) = ((0, 0), false, None, None);
        for &(key, value) in self.pairs(dict) {
            let Value::Word(key) = key else { continue };
            match key {
                Word::Address => address = Some(size(value, place, "address", ADDRESS_MAX)?),
                Word::TotalSize => {
                    total_bytes = Some(size(value, place, "total_size", SIZE_BYTES_MAX)?);
                }
                Word::Device => device = size(value, place, "device", DEVICE_MAX)?,
                Word::Stream => stream = handle(value, place)?,
                Word::IsExpandable => is_expandable = value == Value::Bool(true),
                Word::Blocks => blocks = Some(value),
                Word::Frames => frames = Some(value),
                Word::SegmentPoolId => {
                    let Value::Tuple(tuple) = value else { continue };
                    pool_id = self.pool(tuple).unwrap_or((0, 0));
                }
                Word::SegmentType => {
                    kind = match value {
                        Value::Word(Word::Small) => SegmentKind::Small,
                        Value::Word(Word::Large) => SegmentKind::Large,
                        _ => SegmentKind::Unknown,
                    };
                }
                _ => {}
            }
        }
        let missing = |key| ReadError::MissingKey { place, key };
        let address = address.ok_or(missing("address"))?;
        let total_bytes = total_bytes.ok_or(missing("total_size"))?;
        let blocks = match blocks {
            Some(blocks) => self.blocks(blocks, position, address)?,
            None => Vec::new(),
        };
        let device = usize::try_from(device).expect("device numbers are small");
        let stream = StreamHandle(stream);
        let stack = frames.and_then(|frames| self.stack(frames));
        Ok(Segment {
            device,
            address,
            total_bytes,
            stream,
            kind,
            pool_id,
            is_expandable,
            stack,
            blocks,
        })
    }

    fn blocks(
        &mut self,
        value: Value,
        segment: usize,
        mut address: u64,
    ) -> Result<Vec<Block>, ReadError> {
        let count = self.items(value, Place::Segment { segment }, "blocks")?;
        let mut blocks = Vec::new();
        self.heap.budget.reserve(&mut blocks, count)?;
        for position in 0..count {
            let place = Place::Block { segment, block: position };
            let Value::Dict(dict) = self.item(value, position) else {
                return Err(ReadError::WrongType { place, key: "blocks", expected: "dicts" });
            };
            self.visit(self.pairs(dict).len())?;
            let block = self.block(dict, place, address)?;
            address = block.address.saturating_add(block.bytes);
            blocks.push(block);
        }
        Ok(blocks)
    }

    fn block(&mut self, dict: u32, place: Place, next_address: u64) -> Result<Block, ReadError> {
        let (mut address, mut bytes, mut requested_bytes, mut state) =
            (next_address, None, None, None);
        let (mut frames, mut history) = (None, None);
        for &(key, value) in self.pairs(dict) {
            let Value::Word(key) = key else { continue };
            match key {
                Word::Address => address = size(value, place, "address", ADDRESS_MAX)?,
                Word::Size => bytes = Some(size(value, place, "size", SIZE_BYTES_MAX)?),
                Word::RequestedSize => {
                    requested_bytes = Some(size(value, place, "requested_size", SIZE_BYTES_MAX)?);
                }
                Word::State => state = Some(block_state(value, place)?),
                Word::Frames => frames = Some(value),
                Word::History => history = Some(value),
                _ => {}
            }
        }
        let missing = |key| ReadError::MissingKey { place, key };
        let bytes = bytes.ok_or(missing("size"))?;
        let state = state.ok_or(missing("state"))?;
        if let Some(history) = history {
            let (past_bytes, past_frames) = self.history(history, place)?;
            requested_bytes = requested_bytes.or(past_bytes);
            frames = frames.or(past_frames);
        }
        let requested_bytes = requested_bytes.unwrap_or(bytes);
        let stack = frames.and_then(|frames| self.stack(frames));
        Ok(Block { address, bytes, requested_bytes, state, stack })
    }

    /// What the newest item of a block's history says: the bytes asked for, and the frames.
    /// PyTorch 2.0 and before wrote it, the newest first.
    fn history(
        &mut self,
        history: Value,
        place: Place,
    ) -> Result<(Option<u64>, Option<Value>), ReadError> {
        if self.items(history, place, "history")? == 0 {
            return Ok((None, None));
        }
        let Value::Dict(newest) = self.item(history, 0) else {
            return Err(ReadError::WrongType { place, key: "history", expected: "dicts" });
        };
        self.visit(self.pairs(newest).len())?;
        let bytes = match self.last(newest, Word::RealSize) {
            Some(value) => Some(size(value, place, "real_size", SIZE_BYTES_MAX)?),
            None => None,
        };
        Ok((bytes, self.last(newest, Word::Frames)))
    }

    /// The call stack that is a value of `frames`.
    pub(super) fn stack(&mut self, frames: Value) -> Option<crate::pytorch::stacks::StackId> {
        match frames {
            Value::List(list) => self.words.stack(list, &self.heap),
            Value::Tuple(tuple) => self.words.stack_of_tuple(tuple, &self.heap),
            _ => None,
        }
    }
}
