//! A value in four bytes, for the memo and for lists: most are numbers of containers or texts.

use super::budget::Budget;
use super::error::ReadError;
use super::heap::{Value, index};
use super::word::Word;

/// How many containers or texts of one kind there may be.
pub(super) const NUMBERS_MAX: u32 = 1 << TAG_SHIFT;

const TAG_SHIFT: u32 = 29;
const WORD: u32 = 1 << TAG_SHIFT;
const TEXT: u32 = 2 << TAG_SHIFT;
const LIST: u32 = 3 << TAG_SHIFT;
const TUPLE: u32 = 4 << TAG_SHIFT;
const DICT: u32 = 5 << TAG_SHIFT;
const ODD: u32 = 6 << TAG_SHIFT;

/// A value, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Packed(u32);

impl Packed {
    pub(super) const NOTHING: Self = Self(0);

    /// Packs a word, a text or a container; nothing comes of other values.
    #[inline]
    pub(super) fn of(value: Value) -> Self {
        match value {
            Value::Word(word) => Self(WORD | u32::from(word.code())),
            Value::Text(number) => Self(TEXT | number),
            Value::List(number) => Self(LIST | number),
            Value::Tuple(number) => Self(TUPLE | number),
            Value::Dict(number) => Self(DICT | number),
            Value::None
            | Value::Bool(_)
            | Value::Int(_)
            | Value::HugeInt
            | Value::Float(_)
            | Value::Passed => Self::NOTHING,
        }
    }

    /// Packs a text; nothing comes of other values.
    #[inline]
    pub(super) fn of_text(value: Value) -> Self {
        Self::of(value).if_text()
    }

    /// Packs a tuple; nothing comes of other values.
    #[inline]
    pub(super) fn of_tuple(value: Value) -> Self {
        Self::of(value).if_tuple()
    }

    /// This, if it is a text; nothing comes of other values.
    #[inline(always)]
    pub(super) const fn if_text(self) -> Self {
        if matches!(self.tag(), WORD | TEXT) { self } else { Self::NOTHING }
    }

    /// This, if it is a tuple; nothing comes of other values.
    #[inline(always)]
    pub(super) const fn if_tuple(self) -> Self {
        if self.tag() == TUPLE { self } else { Self::NOTHING }
    }

    /// Whether this is a value that needs no [`Packer`] to be unpacked.
    #[inline(always)]
    pub(super) const fn is_whole(self) -> bool {
        matches!(self.tag(), WORD..=DICT)
    }

    #[inline]
    pub(super) const fn dict(self) -> Option<u32> {
        if self.tag() == DICT { Some(self.number()) } else { None }
    }

    #[inline]
    pub(super) const fn list(self) -> Option<u32> {
        if self.tag() == LIST { Some(self.number()) } else { None }
    }

    #[inline]
    pub(super) const fn tuple(self) -> Option<u32> {
        if self.tag() == TUPLE { Some(self.number()) } else { None }
    }

    #[inline]
    pub(super) const fn text(self) -> Option<u32> {
        if self.tag() == TEXT { Some(self.number()) } else { None }
    }

    #[inline(always)]
    pub(super) fn word(self) -> Option<Word> {
        if self.tag() == WORD { Word::of_code(index(self.number())) } else { None }
    }

    const fn tag(self) -> u32 {
        self.0 & (7 << TAG_SHIFT)
    }

    const fn number(self) -> u32 {
        self.0 & (NUMBERS_MAX - 1)
    }
}

/// Packs any value: those that need more than four bytes are kept here.
#[derive(Debug, Default)]
pub(super) struct Packer {
    odd: Vec<Value>,
}

impl Packer {
    #[inline]
    pub(super) fn pack(&mut self, value: Value, budget: &mut Budget) -> Result<Packed, ReadError> {
        let packed = Packed::of(value);
        if packed == Packed::NOTHING { self.pack_odd(value, budget) } else { Ok(packed) }
    }

    #[cold]
    fn pack_odd(&mut self, value: Value, budget: &mut Budget) -> Result<Packed, ReadError> {
        let number = u32::try_from(self.odd.len()).ok().filter(|number| *number < NUMBERS_MAX);
        let number = number.ok_or(budget.exceeded())?;
        budget.push(&mut self.odd, value)?;
        Ok(Packed(ODD | number))
    }

    /// The value that was packed; nothing for [`Packed::NOTHING`].
    #[inline(always)]
    pub(super) fn unpack(&self, packed: Packed) -> Option<Value> {
        let number = packed.number();
        Some(match packed.tag() {
            WORD => Value::Word(packed.word()?),
            TEXT => Value::Text(number),
            LIST => Value::List(number),
            TUPLE => Value::Tuple(number),
            DICT => Value::Dict(number),
            ODD => *self.odd.get(index(number)).expect("odd values are numbered as kept"),
            _ => return None,
        })
    }
}
