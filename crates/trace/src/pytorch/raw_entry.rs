//! A trace entry as its dictionary gave it, before anything is judged.

use super::entry::Action;
use super::heap::Value;
use super::packed::Packed;
use super::word::Word;

/// A trace entry as its dictionary gave it, nothing judged yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawEntry {
    /// `addr`, or `device_free` where there is no `addr`.
    pub(super) address: i64,
    pub(super) size: i64,
    pub(super) stream: i64,
    pub(super) time_us: i64,
    /// Its `action`, if that is a text that was kept.
    action: Packed,
    /// Its `frames`, if they are a list or a tuple.
    pub(super) frames: Packed,
    /// Its `user_metadata`, if that is a text.
    pub(super) metadata: Packed,
    /// Its `compile_context`, if that is a text.
    pub(super) compile_context: Packed,
    /// Its `pool_id`, if that is a tuple.
    pub(super) pool: Packed,
    /// What was given, by [`Field::bit`] and [`ACTION_BIT`].
    given: u8,
    /// Numbers whose value is no 64-bit integer, and an action that is no text.
    odd: u8,
}

/// The value of an entry's `action`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RawAction {
    Missing,
    NotText,
    /// A text that is no action of those known; nothing where it was too long to be kept.
    Unknown(Packed),
    Known(Action),
}

/// The numbers of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Address,
    Size,
    Stream,
    TimeUs,
}

/// Beside the bits of [`Field`]: the action.
const ACTION_BIT: u8 = 16;

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
        action: Packed::NOTHING,
        frames: Packed::NOTHING,
        pool: Packed::NOTHING,
        metadata: Packed::NOTHING,
        compile_context: Packed::NOTHING,
        given: 0,
        odd: 0,
    };

    /// The entry that these pairs describe; later pairs win.
    pub(super) fn from_pairs(pairs: &[(Value, Value)]) -> Self {
        let mut entry = Self::EMPTY;
        for &(key, value) in pairs {
            if let Value::Word(key) = key {
                entry.set(key, value);
            }
        }
        entry
    }

    /// Sets what the keys and values of these couples say; later ones win.
    pub(super) fn set_all(&mut self, couples: &[[Value; 2]]) {
        for &[key, value] in couples {
            if let Value::Word(key) = key {
                self.set(key, value);
            }
        }
    }

    #[inline(always)]
    #[expect(clippy::wildcard_enum_match_arm, reason = "other keys do not matter here")]
    pub(super) fn set(&mut self, key: Word, value: Value) {
        match key {
            Word::Addr | Word::DeviceFree => self.set_number(Field::Address, value),
            Word::Size => self.set_number(Field::Size, value),
            Word::Stream => self.set_number(Field::Stream, value),
            Word::TimeUs => self.set_number(Field::TimeUs, value),
            Word::Action => self.set_action(value),
            Word::Frames => self.frames = Packed::of(value),
            Word::PoolId => self.pool = Packed::of_tuple(value),
            Word::UserMetadata => self.metadata = Packed::of_text(value),
            Word::CompileContext => self.compile_context = Packed::of_text(value),
            _ => {}
        }
    }

    /// Sets what a key other than those of numbers says, by a text, a container or nothing.
    #[inline(always)]
    #[expect(clippy::wildcard_enum_match_arm, reason = "other keys do not matter here")]
    pub(super) fn set_packed(&mut self, key: Word, value: Packed) {
        match key {
            Word::Action => {
                self.given |= ACTION_BIT;
                self.action = value.if_text();
                if self.action == Packed::NOTHING {
                    self.odd |= ACTION_BIT;
                } else {
                    self.odd &= !ACTION_BIT;
                }
            }
            Word::Frames => self.frames = value,
            Word::PoolId => self.pool = value.if_tuple(),
            Word::UserMetadata => self.metadata = value.if_text(),
            Word::CompileContext => self.compile_context = value.if_text(),
            _ => {}
        }
    }

    /// Sets a number to an integer.
    #[inline(always)]
    pub(super) fn set_integer(&mut self, field: Field, number: i64) {
        self.given |= field.bit();
        self.odd &= !field.bit();
        match field {
            Field::Address => self.address = number,
            Field::Size => self.size = number,
            Field::Stream => self.stream = number,
            Field::TimeUs => self.time_us = number,
        }
    }

    /// Whether it has an action of any kind.
    #[inline(always)]
    pub(super) const fn has_action(&self) -> bool {
        self.given & ACTION_BIT != 0
    }

    #[inline(always)]
    fn set_action(&mut self, value: Value) {
        self.given |= ACTION_BIT;
        self.action = Packed::of_text(value);
        if self.action == Packed::NOTHING && value != Value::Passed {
            self.odd |= ACTION_BIT;
        } else {
            self.odd &= !ACTION_BIT;
        }
    }

    /// Its `action`.
    #[inline]
    pub(super) fn action(&self) -> RawAction {
        if !self.has_action() {
            return RawAction::Missing;
        }
        if self.odd & ACTION_BIT != 0 {
            return RawAction::NotText;
        }
        let known = self.action.word().and_then(Action::of);
        known.map_or(RawAction::Unknown(self.action), RawAction::Known)
    }

    /// Its `action`, if that is known and all numbers were given as 64-bit integers.
    #[inline(always)]
    pub(super) fn usual_action(&self) -> Option<Action> {
        const ALL: u8 = ACTION_BIT
            | Field::Address.bit()
            | Field::Size.bit()
            | Field::Stream.bit()
            | Field::TimeUs.bit();
        if self.given != ALL || self.odd != 0 {
            return None;
        }
        self.action.word().and_then(Action::of)
    }

    #[inline(always)]
    fn set_number(&mut self, field: Field, value: Value) {
        if let Value::Int(number) = value {
            self.set_integer(field, number);
        } else {
            self.given |= field.bit();
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
