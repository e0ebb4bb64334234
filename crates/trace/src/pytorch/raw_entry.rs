//! A trace entry as its dictionary gave it, before anything is judged.

use super::entry::Action;
use super::heap::Value;
use super::word::Word;

/// A trace entry as its dictionary gave it, nothing judged yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawEntry {
    /// `addr`, or `device_free` where there is no `addr`.
    pub(super) address: i64,
    pub(super) size: i64,
    pub(super) stream: i64,
    pub(super) time_us: i64,
    pub(super) action: RawAction,
    /// The list that is its `frames`.
    pub(super) frames: Option<u32>,
    /// The tuple that is its `pool_id`.
    pub(super) pool: Option<u32>,
    /// Its `user_metadata`.
    pub(super) metadata: RawText,
    /// Its `compile_context`.
    pub(super) compile_context: RawText,
    /// Numbers that were given, by [`Field::bit`].
    given: u8,
    /// Numbers whose value is no 64-bit integer.
    odd: u8,
}

/// The value of an entry's `action`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RawAction {
    Missing,
    NotText,
    /// A text that is no action of those known.
    Unknown(RawText),
    Known(Action),
}

/// A text of an entry, or what stands in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RawText {
    /// Nothing, or what is no text.
    Missing,
    Word(Word),
    /// A text of the heap.
    Text(u32),
}

impl RawText {
    #[inline]
    #[expect(clippy::wildcard_enum_match_arm, reason = "whatever else there is, is no text")]
    pub(super) const fn of(value: Value) -> Self {
        match value {
            Value::Word(word) => Self::Word(word),
            Value::Text(text) => Self::Text(text),
            _ => Self::Missing,
        }
    }
}

/// The numbers of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Address,
    Size,
    Stream,
    TimeUs,
}

impl Field {
    const fn bit(self) -> u8 {
        match self {
            Self::Address => 1,
            Self::Size => 2,
            Self::Stream => 4,
            Self::TimeUs => 8,
        }
    }

    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Address => "addr",
            Self::Size => "size",
            Self::Stream => "stream",
            Self::TimeUs => "time_us",
        }
    }
}

/// How an entry holds one of its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    Missing,
    Odd,
    Int(i64),
}

impl RawEntry {
    pub(super) const EMPTY: Self = Self {
        address: 0,
        size: 0,
        stream: 0,
        time_us: 0,
        action: RawAction::Missing,
        frames: None,
        pool: None,
        metadata: RawText::Missing,
        compile_context: RawText::Missing,
        given: 0,
        odd: 0,
    };

    /// The entry that these pairs describe; later pairs win.
    pub(super) fn from_pairs(pairs: &[(Value, Value)]) -> Self {
        let mut entry = Self::EMPTY;
        for &(key, value) in pairs {
            entry.set(key, value);
        }
        entry
    }

    #[inline]
    #[expect(clippy::wildcard_enum_match_arm, reason = "other keys do not matter here")]
    pub(super) fn set(&mut self, key: Value, value: Value) {
        let Value::Word(key) = key else { return };
        match key {
            Word::Addr | Word::DeviceFree => self.set_number(Field::Address, value),
            Word::Size => self.set_number(Field::Size, value),
            Word::Stream => self.set_number(Field::Stream, value),
            Word::TimeUs => self.set_number(Field::TimeUs, value),
            Word::Action => self.action = RawAction::of(value),
            Word::Frames => {
                self.frames = if let Value::List(list) = value { Some(list) } else { None }
            }
            Word::PoolId => {
                self.pool = if let Value::Tuple(tuple) = value { Some(tuple) } else { None }
            }
            Word::UserMetadata => self.metadata = RawText::of(value),
            Word::CompileContext => self.compile_context = RawText::of(value),
            _ => {}
        }
    }

    #[inline]
    fn set_number(&mut self, field: Field, value: Value) {
        self.given |= field.bit();
        if let Value::Int(number) = value {
            self.odd &= !field.bit();
            match field {
                Field::Address => self.address = number,
                Field::Size => self.size = number,
                Field::Stream => self.stream = number,
                Field::TimeUs => self.time_us = number,
            }
        } else {
            self.odd |= field.bit();
        }
    }

    #[inline]
    pub(super) const fn number(&self, field: Field) -> Given {
        if self.given & field.bit() == 0 {
            return Given::Missing;
        }
        if self.odd & field.bit() != 0 {
            return Given::Odd;
        }
        Given::Int(match field {
            Field::Address => self.address,
            Field::Size => self.size,
            Field::Stream => self.stream,
            Field::TimeUs => self.time_us,
        })
    }
}

impl RawAction {
    fn of(value: Value) -> Self {
        match value {
            Value::Word(word) => {
                Action::of(word).map_or(Self::Unknown(RawText::Word(word)), Self::Known)
            }
            Value::Text(_) | Value::Passed => Self::Unknown(RawText::of(value)),
            Value::None
            | Value::Bool(_)
            | Value::Int(_)
            | Value::HugeInt
            | Value::Float(_)
            | Value::List(_)
            | Value::Tuple(_)
            | Value::Dict(_) => Self::NotText,
        }
    }
}
