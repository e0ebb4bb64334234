//! Reads trace entries straight from the opcodes that Python writes for them, without a stack.
//!
//! Nearly all of a large snapshot is the same run of opcodes: an empty dictionary, a mark, known
//! keys fetched from the memo, each with a number, a memo's value, a text, a list of frames or a
//! pair, and the opcode that sets them all. Whatever else comes, this gives up and the machine
//! takes the same bytes one opcode at a time, so nothing is judged here.
//!
//! What the bytes are read with is passed by value or inlined, so that it stays in registers, and
//! packed values of the memo go into an entry as they are: an entry took 1,000 instructions when
//! each was unpacked and the machine's stack served each entry alone.

use super::heap::{Heap, Value};
use super::machine::long_value;
use super::opcode::allowed as op;
use super::packed::Packed;
use super::raw_entry::{Field, RawEntry};
use super::window::AHEAD_BYTES;
use super::word::Word;

/// What of the machine entries are read with.
pub(super) struct EntryRun<'machine> {
    pub(super) memo: &'machine mut Vec<Packed>,
    pub(super) stack: &'machine mut Vec<Value>,
    pub(super) heap: &'machine mut Heap,
    /// After the first entry, none is read once there are so many dictionaries.
    pub(super) dict_count_max: usize,
}

impl EntryRun<'_> {
    /// Reads the entry whose `EMPTY_DICT` stands just before `bytes`, and those that follow it,
    /// onto the stack. How many bytes they took; nothing if the first is not as expected, and then
    /// memo and stack are as they were.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut rest = Bytes(bytes);
        let mut taken = None;
        loop {
            let (height, memo_count) = (self.stack.len(), self.memo.len());
            let Some(after) = self.entry(rest) else {
                self.memo.truncate(memo_count);
                self.stack.truncate(height);
                return taken;
            };
            taken = Some(bytes.len() - after.0.len());
            match after.0 {
                [op::EMPTY_DICT, next @ ..]
                    if AHEAD_BYTES <= next.len()
                        && self.heap.dict_count() < self.dict_count_max =>
                {
                    rest = Bytes(next);
                }
                _ => return taken,
            }
        }
    }

    /// Reads one entry onto the stack, if all of it is as expected.
    #[inline(always)]
    fn entry<'bytes>(&mut self, mut rest: Bytes<'bytes>) -> Option<Bytes<'bytes>> {
        // The dictionary is added only once it is whole; nothing else adds one until then.
        let dict = self.heap.next_dict()?;
        self.heap.budget.push_if_room(self.stack, dict)?;
        self.memoize(&mut rest, Packed::of(dict))?;
        if rest.byte()? != op::MARK {
            return None;
        }
        let mut entry = RawEntry::EMPTY;
        loop {
            let key = match rest.byte()? {
                op::BINGET => usize::from(rest.byte()?),
                op::LONG_BINGET => usize::try_from(u32::from_le_bytes(rest.array()?)).ok()?,
                op::SETITEMS => break,
                _ => return None,
            };
            #[expect(clippy::wildcard_enum_match_arm, reason = "only these have numbers")]
            match self.memo.get(key)?.word()? {
                Word::Addr | Word::DeviceFree => {
                    entry.set_integer(Field::Address, rest.integer()?);
                }
                Word::Size => entry.set_integer(Field::Size, rest.integer()?),
                Word::Stream => entry.set_integer(Field::Stream, rest.integer()?),
                Word::TimeUs => entry.set_integer(Field::TimeUs, rest.integer()?),
                key => {
                    let value = self.value(&mut rest)?;
                    entry.set_packed(key, value);
                }
            }
        }
        // A dictionary without an action is no entry.
        if !entry.has_action() {
            return None;
        }
        self.heap.add_entry(entry)?;
        Some(rest)
    }

    /// The value of a key that has no number.
    #[inline(always)]
    fn value(&mut self, rest: &mut Bytes<'_>) -> Option<Packed> {
        match rest.peek()? {
            op::BINGET => {
                rest.byte()?;
                self.short_get(rest)
            }
            op::LONG_BINGET => {
                rest.byte()?;
                self.long_get(rest)
            }
            op::SHORT_BINUNICODE => {
                rest.byte()?;
                let length = usize::from(rest.byte()?);
                self.text(rest, length)
            }
            _ => {
                let (value, after) = self.rare_value(*rest)?;
                *rest = after;
                Some(value)
            }
        }
    }

    #[inline(never)]
    fn rare_value<'bytes>(&mut self, mut rest: Bytes<'bytes>) -> Option<(Packed, Bytes<'bytes>)> {
        let value = match rest.peek()? {
            op::BINUNICODE => {
                rest.byte()?;
                let length = u32::from_le_bytes(rest.array()?);
                self.text(&mut rest, usize::try_from(length).ok()?)?
            }
            op::NONE => {
                rest.byte()?;
                Packed::NOTHING
            }
            op::EMPTY_LIST => {
                rest.byte()?;
                self.frames(&mut rest)?
            }
            _ => self.pair(&mut rest)?,
        };
        Some((value, rest))
    }

    /// A pair of integers; nothing comes of one alone.
    fn pair(&mut self, rest: &mut Bytes<'_>) -> Option<Packed> {
        let first = rest.integer()?;
        let (op::BININT1 | op::BININT2 | op::BININT | op::LONG1) = rest.peek()? else {
            return Some(Packed::NOTHING);
        };
        let second = rest.integer()?;
        if rest.byte()? != op::TUPLE2 {
            return None;
        }
        let pair = self.heap.add_tuple(&[Value::Int(first), Value::Int(second)]).ok()?;
        let pair = Packed::of(pair);
        self.memoize(rest, pair)?;
        Some(pair)
    }

    #[inline(always)]
    fn text(&mut self, rest: &mut Bytes<'_>, length: usize) -> Option<Packed> {
        let value = match rest.take(length)? {
            // The compile context of nearly every entry.
            b"N/A" => Packed::of(Value::Word(Word::NotApplicable)),
            text => Packed::of(self.heap.add_text(text).ok()?),
        };
        self.memoize(rest, value)?;
        Some(value)
    }

    /// A list of values that the memo holds.
    fn frames(&mut self, rest: &mut Bytes<'_>) -> Option<Packed> {
        let list = self.heap.add_list(&[]).ok()?;
        let Value::List(number) = list else { return None };
        self.memoize(rest, Packed::of(list))?;
        let height = self.stack.len();
        match rest.0 {
            [op::MARK, ..] => {
                rest.byte()?;
                while let Some(frame) = self.frame_or(rest, op::APPENDS)? {
                    self.heap.budget.push_if_room(self.stack, frame)?;
                }
            }
            [op::BINGET, _, op::APPEND, ..] | [op::LONG_BINGET, _, _, _, _, op::APPEND, ..] => {
                while let Some(frame) = self.frame_or(rest, op::APPEND)? {
                    self.heap.budget.push_if_room(self.stack, frame)?;
                }
            }
            _ => return Some(Packed::of(list)),
        }
        self.heap.extend_list(number, self.stack.get(height..)?).ok()?;
        self.stack.truncate(height);
        Some(Packed::of(list))
    }

    /// One value of the memo, or nothing at the opcode `end`.
    #[inline(always)]
    fn frame_or(&self, rest: &mut Bytes<'_>, end: u8) -> Option<Option<Value>> {
        let value = match rest.byte()? {
            op::BINGET => self.short_get(rest)?,
            op::LONG_BINGET => self.long_get(rest)?,
            code if code == end => return Some(None),
            _ => return None,
        };
        self.heap.unpack(value).map(Some)
    }

    /// Keeps `value` in the memo if the writer does, which counts its keys up from 0.
    #[inline(always)]
    fn memoize(&mut self, rest: &mut Bytes<'_>, value: Packed) -> Option<()> {
        let key = match rest.0 {
            [op::MEMOIZE, after @ ..] => {
                rest.0 = after;
                return self.heap.budget.push_if_room(self.memo, value);
            }
            [op::BINPUT, key, after @ ..] => {
                rest.0 = after;
                usize::from(*key)
            }
            [op::LONG_BINPUT, a, b, c, d, after @ ..] => {
                rest.0 = after;
                usize::try_from(u32::from_le_bytes([*a, *b, *c, *d])).ok()?
            }
            _ => return Some(()),
        };
        if key != self.memo.len() {
            return None;
        }
        self.heap.budget.push_if_room(self.memo, value)
    }

    #[inline(always)]
    fn short_get(&self, rest: &mut Bytes<'_>) -> Option<Packed> {
        let key = rest.byte()?;
        self.get(usize::from(key))
    }

    #[inline(always)]
    fn long_get(&self, rest: &mut Bytes<'_>) -> Option<Packed> {
        let key = u32::from_le_bytes(rest.array()?);
        self.get(usize::try_from(key).ok()?)
    }

    /// A text, word or container of the memo; other values stand in few entries.
    #[inline(always)]
    fn get(&self, key: usize) -> Option<Packed> {
        self.memo.get(key).copied().filter(|value| value.is_whole())
    }
}

/// Bytes that are not taken yet.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    #[inline(always)]
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    #[inline(always)]
    fn byte(&mut self) -> Option<u8> {
        let (&first, after) = self.0.split_first()?;
        self.0 = after;
        Some(first)
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (&first, after) = self.0.split_first_chunk()?;
        self.0 = after;
        Some(first)
    }

    #[inline(always)]
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, after) = self.0.split_at_checked(length)?;
        self.0 = after;
        Some(taken)
    }

    /// An integer of at most 64 bits.
    #[inline(always)]
    fn integer(&mut self) -> Option<i64> {
        Some(match self.byte()? {
            op::BININT1 => i64::from(self.byte()?),
            op::BININT2 => i64::from(u16::from_le_bytes(self.array()?)),
            op::BININT => i64::from(i32::from_le_bytes(self.array()?)),
            op::LONG1 => {
                let length = self.byte()?;
                // Addresses and times have six and seven bytes: a read of eight is cut to them.
                if let (Some(eight), 1..=8) = (self.0.first_chunk(), length) {
                    let unused = 64 - 8 * u32::from(length);
                    self.0 = self.0.get(usize::from(length)..)?;
                    return Some((i64::from_le_bytes(*eight) << unused) >> unused);
                }
                let Value::Int(value) = long_value(self.take(usize::from(length))?) else {
                    return None;
                };
                value
            }
            _ => return None,
        })
    }
}
