//! Reads a trace entry straight from the opcodes that Python writes for one, without a stack.
//!
//! Nearly all of a large snapshot is the same run of opcodes: an empty dictionary, a mark, known
//! keys fetched from the memo, each with a number, a memo's value, a text, a list of frames or a
//! pair, and the opcode that sets them all. Whatever else comes, this gives up and the machine
//! takes the same bytes one opcode at a time, so nothing is judged here.

use super::heap::{Heap, Value};
use super::machine::long_value;
use super::opcode::allowed as op;
use super::packed::Packed;
use super::raw_entry::{RawAction, RawEntry};
use super::word::Word;

/// What of the machine an entry is read with.
pub(super) struct EntryRun<'bytes, 'machine> {
    /// The bytes after the entry's `EMPTY_DICT`, then those not yet taken.
    pub(super) rest: &'bytes [u8],
    pub(super) memo: &'machine mut Vec<Packed>,
    pub(super) stack: &'machine mut Vec<Value>,
    pub(super) heap: &'machine mut Heap,
}

impl EntryRun<'_, '_> {
    /// Reads one entry: its dictionary, if all of it is as expected. When it gives up, the memo
    /// and the stack have to be cut back to what they were.
    #[inline]
    pub(super) fn read(&mut self) -> Option<Value> {
        // The dictionary is added only once it is whole; nothing else adds one until then.
        let dict = self.heap.next_dict()?;
        self.memoize(dict)?;
        if self.byte()? != op::MARK {
            return None;
        }
        let mut entry = RawEntry::EMPTY;
        loop {
            let key = match self.byte()? {
                op::BINGET => usize::from(self.byte()?),
                op::LONG_BINGET => usize::try_from(u32::from_le_bytes(self.array()?)).ok()?,
                op::SETITEMS => break,
                _ => return None,
            };
            let key = self.memo.get(key)?.word()?;
            let value = self.value()?;
            entry.set(key, value);
        }
        // A dictionary without an action is no entry.
        if entry.action() == RawAction::Missing {
            return None;
        }
        self.heap.add_entry(entry).ok()?;
        Some(dict)
    }

    #[inline(always)]
    fn value(&mut self) -> Option<Value> {
        match self.byte()? {
            op::BINGET => self.short_get(),
            op::LONG_BINGET => self.long_get(),
            op::SHORT_BINUNICODE => {
                let length = usize::from(self.byte()?);
                self.text(length)
            }
            op::BINUNICODE => {
                let length = u32::from_le_bytes(self.array()?);
                self.text(usize::try_from(length).ok()?)
            }
            op::NONE => Some(Value::None),
            op::EMPTY_LIST => self.frames(),
            code => self.number(code),
        }
    }

    /// An integer, or a pair of them.
    #[inline(always)]
    fn number(&mut self, code: u8) -> Option<Value> {
        let first = self.integer(code)?;
        let [op::BININT1 | op::BININT2 | op::BININT | op::LONG1, ..] = self.rest else {
            return Some(first);
        };
        let code = self.byte()?;
        let second = self.integer(code)?;
        if self.byte()? != op::TUPLE2 {
            return None;
        }
        let pair = self.heap.add_tuple(&[first, second]).ok()?;
        self.memoize(pair)?;
        Some(pair)
    }

    #[inline(always)]
    fn integer(&mut self, code: u8) -> Option<Value> {
        Some(match code {
            op::BININT1 => Value::Int(i64::from(self.byte()?)),
            op::BININT2 => Value::Int(i64::from(u16::from_le_bytes(self.array()?))),
            op::BININT => Value::Int(i64::from(i32::from_le_bytes(self.array()?))),
            op::LONG1 => {
                let length = self.byte()?;
                // Addresses and times have six and seven bytes: a read of eight is cut to them.
                if let (Some(eight), 1..=8) = (self.rest.first_chunk(), length) {
                    let unused = 64 - 8 * u32::from(length);
                    self.rest = self.rest.get(usize::from(length)..)?;
                    return Some(Value::Int((i64::from_le_bytes(*eight) << unused) >> unused));
                }
                long_value(self.take(usize::from(length))?)
            }
            _ => return None,
        })
    }

    #[inline(always)]
    fn text(&mut self, length: usize) -> Option<Value> {
        let value = match self.take(length)? {
            // The compile context of nearly every entry.
            b"N/A" => Value::Word(Word::NotApplicable),
            text => self.heap.add_text(text).ok()?,
        };
        self.memoize(value)?;
        Some(value)
    }

    /// A list of values that the memo holds.
    fn frames(&mut self) -> Option<Value> {
        let list = self.heap.add_list(&[]).ok()?;
        let Value::List(number) = list else { return None };
        self.memoize(list)?;
        let height = self.stack.len();
        match self.rest {
            [op::MARK, ..] => {
                self.byte()?;
                while let Some(frame) = self.frame_or(op::APPENDS)? {
                    self.heap.budget.push(self.stack, frame).ok()?;
                }
            }
            [op::BINGET, _, op::APPEND, ..] | [op::LONG_BINGET, _, _, _, _, op::APPEND, ..] => {
                while let Some(frame) = self.frame_or(op::APPEND)? {
                    self.heap.budget.push(self.stack, frame).ok()?;
                }
            }
            _ => return Some(list),
        }
        self.heap.extend_list(number, self.stack.get(height..)?).ok()?;
        self.stack.truncate(height);
        Some(list)
    }

    /// One value of the memo, or nothing at the opcode `end`.
    #[inline]
    fn frame_or(&mut self, end: u8) -> Option<Option<Value>> {
        match self.byte()? {
            op::BINGET => self.short_get().map(Some),
            op::LONG_BINGET => self.long_get().map(Some),
            code if code == end => Some(None),
            _ => None,
        }
    }

    /// Keeps `value` in the memo if the writer does, which counts its keys up from 0.
    #[inline(always)]
    fn memoize(&mut self, value: Value) -> Option<()> {
        let key = match self.rest {
            [op::MEMOIZE, after @ ..] => {
                self.rest = after;
                return self.remember(value);
            }
            [op::BINPUT, key, after @ ..] => {
                self.rest = after;
                usize::from(*key)
            }
            [op::LONG_BINPUT, a, b, c, d, after @ ..] => {
                self.rest = after;
                usize::try_from(u32::from_le_bytes([*a, *b, *c, *d])).ok()?
            }
            _ => return Some(()),
        };
        if key != self.memo.len() {
            return None;
        }
        self.remember(value)
    }

    #[inline(always)]
    fn remember(&mut self, value: Value) -> Option<()> {
        let value = self.heap.pack(value).ok()?;
        self.heap.budget.push(self.memo, value).ok()
    }

    #[inline(always)]
    fn short_get(&mut self) -> Option<Value> {
        let key = self.byte()?;
        self.heap.unpack(*self.memo.get(usize::from(key))?)
    }

    #[inline(always)]
    fn long_get(&mut self) -> Option<Value> {
        let key = u32::from_le_bytes(self.array()?);
        self.heap.unpack(*self.memo.get(usize::try_from(key).ok()?)?)
    }

    #[inline(always)]
    fn byte(&mut self) -> Option<u8> {
        let (&first, after) = self.rest.split_first()?;
        self.rest = after;
        Some(first)
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (&first, after) = self.rest.split_first_chunk()?;
        self.rest = after;
        Some(first)
    }
}

impl<'bytes> EntryRun<'bytes, '_> {
    #[inline]
    fn take(&mut self, length: usize) -> Option<&'bytes [u8]> {
        let (taken, after) = self.rest.split_at_checked(length)?;
        self.rest = after;
        Some(taken)
    }
}
