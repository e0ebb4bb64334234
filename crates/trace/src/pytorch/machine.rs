//! Runs the allowed pickle opcodes over an explicit stack, without recursion and without calls.

use super::entry_run::EntryRun;
use super::error::ReadError;
use super::heap::{Heap, Value, index};
use super::opcode::allowed as op;
use super::opcode::refused_name;
use super::packed::Packed;
use super::window::{TAKE_BYTES_MAX, Window};

/// What a pickle came to.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) heap: Heap,
    /// The value on top at the end.
    pub(super) top: Value,
    /// How many bytes the pickle has.
    pub(super) pickle_bytes: u64,
}

/// The pickle machine: stack, marks and memo.
pub(super) struct Machine<'a> {
    window: Window<'a>,
    heap: Heap,
    stack: Vec<Value>,
    /// Heights of the stack at each open mark.
    marks: Vec<usize>,
    memo: Vec<Packed>,
    /// Where the last announced frame ends.
    frame_end: u64,
    /// Once there are so many dictionaries, no step makes more than one.
    dict_count_max: usize,
}

impl<'a> Machine<'a> {
    pub(super) const fn new(window: Window<'a>, heap: Heap) -> Self {
        Self {
            window,
            heap,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            frame_end: 0,
            dict_count_max: usize::MAX,
        }
    }

    /// Runs to the end of the pickle.
    pub(super) fn run(mut self) -> Result<Outcome, ReadError> {
        self.window.check_pickle_start()?;
        loop {
            self.heap.budget.offset = self.window.offset();
            let code = self.window.byte()?;
            if code == op::STOP {
                return self.stop();
            }
            self.step(code)?;
        }
    }

    /// Runs until the dictionary numbered `dict` is made, and says where the opcode that makes it
    /// stands. Numbers are given in the order of the bytes, so another run over the same bytes
    /// gives the same ones.
    pub(super) fn offset_of_dict(mut self, dict: u32) -> Option<u64> {
        self.window.check_pickle_start().ok()?;
        self.dict_count_max = index(dict);
        loop {
            let offset = self.window.offset();
            self.heap.budget.offset = offset;
            let code = self.window.byte().ok()?;
            if code == op::STOP {
                return None;
            }
            self.step(code).ok()?;
            if index(dict) < self.heap.dict_count() {
                return Some(offset);
            }
        }
    }

    fn stop(mut self) -> Result<Outcome, ReadError> {
        let top = self.pop()?;
        let pickle_bytes = self.window.offset();
        self.window.skip(self.frame_end.saturating_sub(pickle_bytes))?;
        self.window.finish()?;
        self.heap.budget.release(self.stack);
        self.heap.budget.release(self.marks);
        self.heap.budget.release(self.memo);
        Ok(Outcome { heap: self.heap, top, pickle_bytes })
    }

    #[inline]
    fn step(&mut self, code: u8) -> Result<(), ReadError> {
        match code {
            op::BINGET => {
                let key = self.window.byte()?;
                self.get(u32::from(key))
            }
            op::LONG_BINGET => {
                let key = self.window.array()?;
                self.get(u32::from_le_bytes(key))
            }
            op::MEMOIZE => {
                let value = self.top()?;
                let value = self.heap.pack(value)?;
                self.heap.budget.push(&mut self.memo, value)
            }
            op::LONG1 => {
                let length = self.window.byte()?;
                self.long(u64::from(length))
            }
            op::BININT1 => {
                let value = self.window.byte()?;
                self.push(Value::Int(i64::from(value)))
            }
            op::BININT2 => {
                let value = self.window.array()?;
                self.push(Value::Int(i64::from(u16::from_le_bytes(value))))
            }
            op::BININT => {
                let value = self.window.array()?;
                self.push(Value::Int(i64::from(i32::from_le_bytes(value))))
            }
            op::MARK => self.heap.budget.push(&mut self.marks, self.stack.len()),
            op::EMPTY_DICT => self.dict(),
            op::SETITEMS => self.set_items(),
            op::SHORT_BINUNICODE => {
                let length = self.window.byte()?;
                self.text(u64::from(length))
            }
            _ => self.step_rare(code),
        }
    }

    /// The opcodes that are not in every trace entry.
    fn step_rare(&mut self, code: u8) -> Result<(), ReadError> {
        match code {
            op::PROTO => self.protocol(),
            op::FRAME => self.frame(),
            op::POP => self.pop_or_unmark(),
            op::POP_MARK => self.since_mark().map(|height| self.stack.truncate(height)),
            op::DUP => self.top().and_then(|value| self.push(value)),
            op::NONE => self.push(Value::None),
            op::NEWTRUE => self.push(Value::Bool(true)),
            op::NEWFALSE => self.push(Value::Bool(false)),
            op::LONG4 => {
                let length = i32::from_le_bytes(self.window.array()?);
                let length = u64::try_from(length)
                    .map_err(|_| self.malformed("an integer has a negative length"))?;
                self.long(length)
            }
            op::BINFLOAT => {
                let bytes = self.window.array()?;
                self.push(Value::Float(f64::from_be_bytes(bytes)))
            }
            op::BINUNICODE => {
                let length = self.window.array()?;
                self.text(u64::from(u32::from_le_bytes(length)))
            }
            op::BINUNICODE8 => {
                let length = self.window.array()?;
                self.text(u64::from_le_bytes(length))
            }
            op::SHORT_BINBYTES => {
                let length = self.window.byte()?;
                self.pass(u64::from(length))
            }
            op::BINBYTES => {
                let length = self.window.array()?;
                self.pass(u64::from(u32::from_le_bytes(length)))
            }
            op::BINBYTES8 | op::BYTEARRAY8 => {
                let length = self.window.array()?;
                self.pass(u64::from_le_bytes(length))
            }
            op::BINPUT => {
                let key = self.window.byte()?;
                self.put(u32::from(key))
            }
            op::LONG_BINPUT => {
                let key = self.window.array()?;
                self.put(u32::from_le_bytes(key))
            }
            _ => self.step_container(code),
        }
    }

    fn step_container(&mut self, code: u8) -> Result<(), ReadError> {
        match code {
            op::EMPTY_LIST => self.replace(self.stack.len(), Heap::add_list),
            op::LIST => {
                let height = self.since_mark()?;
                self.replace(height, Heap::add_list)
            }
            op::EMPTY_TUPLE => self.replace(self.stack.len(), Heap::add_tuple),
            op::TUPLE => {
                let height = self.since_mark()?;
                self.replace(height, Heap::add_tuple)
            }
            op::TUPLE1 => self.below(1).and_then(|height| self.replace(height, Heap::add_tuple)),
            op::TUPLE2 => self.below(2).and_then(|height| self.replace(height, Heap::add_tuple)),
            op::TUPLE3 => self.below(3).and_then(|height| self.replace(height, Heap::add_tuple)),
            op::APPEND => self.below(1).and_then(|height| self.append_from(height)),
            op::APPENDS => self.since_mark().and_then(|height| self.append_from(height)),
            op::DICT => {
                let height = self.since_mark()?;
                let dict = self.heap.add_dict()?;
                self.set_items_of(dict, height)?;
                self.push(dict)
            }
            op::SETITEM => {
                let height = self.below(2)?;
                let dict = self.under(height)?;
                self.set_items_of(dict, height)
            }
            _ => Err(match refused_name(code) {
                Some(name) => ReadError::RefusedOpcode { name, code, offset: self.offset() },
                None => ReadError::UnknownOpcode { code, offset: self.offset() },
            }),
        }
    }

    /// A dictionary begins: a whole trace entry, or many, if what follows is so.
    #[inline]
    fn dict(&mut self) -> Result<(), ReadError> {
        let ahead = self.window.ahead()?;
        let Self { memo, stack, heap, dict_count_max, .. } = self;
        let mut run = EntryRun { memo, stack, heap, dict_count_max: *dict_count_max };
        if let Some(taken) = run.read(ahead) {
            self.window.pass(taken);
            return Ok(());
        }
        let dict = self.heap.add_dict()?;
        self.push(dict)
    }

    fn protocol(&mut self) -> Result<(), ReadError> {
        match self.window.byte()? {
            2..=5 => Ok(()),
            _ => Err(self.malformed("a protocol other than 2 to 5 is announced")),
        }
    }

    fn frame(&mut self) -> Result<(), ReadError> {
        let length = u64::from_le_bytes(self.window.array()?);
        let end = self.window.offset().checked_add(length);
        match end {
            Some(end) if end <= self.window.bytes_max() => {
                self.frame_end = end;
                Ok(())
            }
            _ => Err(self.malformed("a frame is announced that is longer than any file read here")),
        }
    }

    /// An integer of `length` bytes, little end first, two's complement.
    #[inline]
    fn long(&mut self, length: u64) -> Result<(), ReadError> {
        let value = match usize::try_from(length) {
            Ok(count) if count <= 255 => long_value(self.window.take(count)?),
            _ => {
                self.window.skip(length)?;
                Value::HugeInt
            }
        };
        self.push(value)
    }

    #[inline]
    fn text(&mut self, length: u64) -> Result<(), ReadError> {
        match usize::try_from(length) {
            Ok(count) if count <= TAKE_BYTES_MAX => {
                let text = self.window.take(count)?;
                let value = self.heap.add_text(text)?;
                self.push(value)
            }
            _ => self.pass(length),
        }
    }

    fn pass(&mut self, length: u64) -> Result<(), ReadError> {
        if self.window.bytes_max() < length {
            return Err(self.malformed("a text or bytes longer than any file read here begin"));
        }
        self.window.skip(length)?;
        self.push(Value::Passed)
    }

    #[inline]
    fn get(&mut self, key: u32) -> Result<(), ReadError> {
        let position = usize::try_from(key).unwrap_or(usize::MAX);
        match self.memo.get(position).and_then(|value| self.heap.unpack(*value)) {
            Some(value) => self.push(value),
            None => Err(self.malformed("a memo key is read that was never written")),
        }
    }

    /// Keeps the top under `key`. Writers count keys up from 0, so a key far beyond those in use
    /// is refused rather than made room for.
    fn put(&mut self, key: u32) -> Result<(), ReadError> {
        let value = self.top()?;
        let value = self.heap.pack(value)?;
        let position = usize::try_from(key).unwrap_or(usize::MAX);
        if let Some(slot) = self.memo.get_mut(position) {
            *slot = value;
            return Ok(());
        }
        if self.offset() < u64::from(key) {
            return Err(self.malformed("a memo key is written that is larger than its offset"));
        }
        let more = position + 1 - self.memo.len();
        self.heap.budget.reserve(&mut self.memo, more)?;
        self.memo.resize(position, Packed::NOTHING);
        self.memo.push(value);
        Ok(())
    }

    #[inline]
    fn push(&mut self, value: Value) -> Result<(), ReadError> {
        self.heap.budget.push(&mut self.stack, value)
    }

    /// The lowest height the stack may be popped to: an open mark shields what is under it.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    #[inline]
    fn top(&self) -> Result<Value, ReadError> {
        match self.stack.last() {
            Some(&value) if self.floor() < self.stack.len() => Ok(value),
            _ => Err(self.underflow()),
        }
    }

    fn pop(&mut self) -> Result<Value, ReadError> {
        let value = self.top()?;
        self.stack.pop();
        Ok(value)
    }

    /// POP takes the topmost value, or the mark if nothing stands above it.
    fn pop_or_unmark(&mut self) -> Result<(), ReadError> {
        if self.marks.last() == Some(&self.stack.len()) {
            self.marks.pop();
            return Ok(());
        }
        self.pop().map(|_| ())
    }

    /// Closes the last mark and gives the height of the stack at it.
    #[inline]
    fn since_mark(&mut self) -> Result<usize, ReadError> {
        self.marks.pop().ok_or_else(|| self.malformed("a mark is missing"))
    }

    /// The height `count` values under the top.
    fn below(&self, count: usize) -> Result<usize, ReadError> {
        let height = self.stack.len().checked_sub(count);
        height.filter(|height| self.floor() <= *height).ok_or_else(|| self.underflow())
    }

    /// The value just under `height`.
    #[inline]
    fn under(&self, height: usize) -> Result<Value, ReadError> {
        let position = height.checked_sub(1).filter(|position| self.floor() <= *position);
        position
            .and_then(|position| self.stack.get(position))
            .copied()
            .ok_or_else(|| self.underflow())
    }

    /// Replaces all values from `height` on by the container that `make` puts them in.
    fn replace(
        &mut self,
        height: usize,
        make: fn(&mut Heap, &[Value]) -> Result<Value, ReadError>,
    ) -> Result<(), ReadError> {
        let value = make(&mut self.heap, self.stack.get(height..).unwrap_or(&[]))?;
        self.stack.truncate(height);
        self.push(value)
    }

    fn append_from(&mut self, height: usize) -> Result<(), ReadError> {
        let Value::List(list) = self.under(height)? else {
            return Err(self.malformed("something is appended to what is no list"));
        };
        self.heap.extend_list(list, self.stack.get(height..).unwrap_or(&[]))?;
        self.stack.truncate(height);
        Ok(())
    }

    #[inline]
    fn set_items(&mut self) -> Result<(), ReadError> {
        let height = self.since_mark()?;
        let dict = self.under(height)?;
        self.set_items_of(dict, height)
    }

    #[inline]
    fn set_items_of(&mut self, dict: Value, height: usize) -> Result<(), ReadError> {
        let Value::Dict(dict) = dict else {
            return Err(self.malformed("an item is set in what is no dict"));
        };
        let items = self.stack.get(height..).unwrap_or(&[]);
        if items.len() % 2 != 0 {
            return Err(self.malformed("a dict key has no value"));
        }
        self.heap.extend_dict(dict, items)?;
        self.stack.truncate(height);
        Ok(())
    }

    /// Offset of the opcode being run.
    const fn offset(&self) -> u64 {
        self.heap.budget.offset
    }

    #[cold]
    fn malformed(&self, problem: &'static str) -> ReadError {
        ReadError::Malformed { problem, offset: self.offset() }
    }

    #[cold]
    fn underflow(&self) -> ReadError {
        self.malformed("a value is taken from an empty stack")
    }
}

/// A two's complement integer, little end first.
#[inline]
pub(super) fn long_value(bytes: &[u8]) -> Value {
    let negative = bytes.last().is_some_and(|last| 0x80 <= *last);
    let fill = if negative { 0xff } else { 0 };
    let mut low = [fill; 8];
    let (head, rest) = bytes.split_at(bytes.len().min(8));
    for (slot, byte) in low.iter_mut().zip(head) {
        *slot = *byte;
    }
    let value = i64::from_le_bytes(low);
    let fits = rest.iter().all(|byte| *byte == fill) && (value < 0) == negative;
    if fits { Value::Int(value) } else { Value::HugeInt }
}
