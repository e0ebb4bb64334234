//! The values a pickle makes, kept flat: containers are numbers into slabs, so that depth costs
//! nothing and dropping them never recurses.
//!
//! A dictionary that gets a whole trace entry at once, as Python writes them, becomes a
//! [`RawEntry`] of 40 bytes; any other keeps its pairs. Every byte a container grows by is
//! charged to one budget, and memory that the system refuses is an error like any other.

use super::error::ReadError;
use super::snapshot::Action;
use super::window::to_u64;
use super::word::Word;

/// One value. Copying it copies a number, as Python copies a reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// An integer that does not fit 64 bits.
    HugeInt,
    Float(f64),
    Word(Word),
    /// A text that is no word, by its number.
    Text(u32),
    /// Bytes, or a text too long to matter: passed over, not kept.
    Passed,
    List(u32),
    Tuple(u32),
    Dict(u32),
}

/// What a dictionary has become.
#[derive(Debug, Clone, Copy)]
pub(super) enum Dict {
    Empty,
    Entry(u32),
    Pairs(u32),
}

/// A trace entry as its dictionary gave it, nothing judged yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawEntry {
    /// `addr`, or `device_free` where there is no `addr`.
    pub(super) address: i64,
    pub(super) size: i64,
    pub(super) stream: i64,
    pub(super) time_us: i64,
    pub(super) action: RawAction,
    /// Fields that were given, by [`Field::bit`].
    given: u8,
    /// Fields whose value is no 64-bit integer.
    odd: u8,
}

/// The value of an entry's `action`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RawAction {
    Missing,
    NotText,
    Unknown,
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
    const EMPTY: Self = Self {
        address: 0,
        size: 0,
        stream: 0,
        time_us: 0,
        action: RawAction::Missing,
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
    fn set(&mut self, key: Value, value: Value) {
        let Value::Word(key) = key else { return };
        match key {
            Word::Addr | Word::DeviceFree => self.set_number(Field::Address, value),
            Word::Size => self.set_number(Field::Size, value),
            Word::Stream => self.set_number(Field::Stream, value),
            Word::TimeUs => self.set_number(Field::TimeUs, value),
            Word::Action => self.action = RawAction::of(value),
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
            Value::Word(word) => Action::of(word).map_or(Self::Unknown, Self::Known),
            Value::Text(_) | Value::Passed => Self::Unknown,
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

/// Counts memory against a limit.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
    limit: u64,
    /// Offset of the opcode being run, for messages.
    pub(super) offset: u64,
}

impl Budget {
    pub(super) const fn exceeded(&self) -> ReadError {
        ReadError::TooMuchMemory { limit: self.limit, offset: self.offset }
    }

    fn charge(&mut self, count: usize, item_bytes: usize) -> Result<(), ReadError> {
        let bytes = to_u64(count).saturating_mul(to_u64(item_bytes));
        self.left = self.left.checked_sub(bytes).ok_or(self.exceeded())?;
        Ok(())
    }

    /// Makes room for `more` items, growing in doublings.
    pub(super) fn reserve<T>(&mut self, items: &mut Vec<T>, more: usize) -> Result<(), ReadError> {
        let wanted = items.len().saturating_add(more);
        if wanted <= items.capacity() {
            return Ok(());
        }
        let capacity = wanted.max(items.capacity().saturating_mul(2));
        self.charge(capacity - items.capacity(), size_of::<T>())?;
        items.try_reserve_exact(capacity - items.len()).map_err(|_| self.exceeded())
    }

    #[inline]
    pub(super) fn push<T>(&mut self, items: &mut Vec<T>, item: T) -> Result<(), ReadError> {
        if items.len() == items.capacity() {
            self.reserve(items, 1)?;
        }
        items.push(item);
        Ok(())
    }

    /// Gives a vector's memory back.
    pub(super) fn release<T>(&mut self, items: Vec<T>) {
        let bytes = to_u64(items.capacity()).saturating_mul(to_u64(size_of::<T>()));
        self.left = self.left.saturating_add(bytes).min(self.limit);
    }
}

/// All containers of one pickle.
#[derive(Debug)]
pub(super) struct Heap {
    pub(super) budget: Budget,
    texts: Vec<u8>,
    /// Where each text ends in `texts`.
    text_ends: Vec<usize>,
    tuple_items: Vec<Value>,
    /// Where each tuple ends in `tuple_items`.
    tuple_ends: Vec<usize>,
    lists: Vec<Vec<Value>>,
    dicts: Vec<Dict>,
    pairs: Vec<Vec<(Value, Value)>>,
    entries: Vec<RawEntry>,
}

impl Heap {
    pub(super) const fn new(bytes_max: u64) -> Self {
        Self {
            budget: Budget { left: bytes_max, limit: bytes_max, offset: 0 },
            texts: Vec::new(),
            text_ends: Vec::new(),
            tuple_items: Vec::new(),
            tuple_ends: Vec::new(),
            lists: Vec::new(),
            dicts: Vec::new(),
            pairs: Vec::new(),
            entries: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn add_text(&mut self, text: &[u8]) -> Result<Value, ReadError> {
        if let Some(word) = Word::find(text) {
            return Ok(Value::Word(word));
        }
        self.budget.reserve(&mut self.texts, text.len())?;
        self.texts.extend_from_slice(text);
        let number = self.number(self.text_ends.len())?;
        self.budget.push(&mut self.text_ends, self.texts.len())?;
        Ok(Value::Text(number))
    }

    pub(super) fn add_list(&mut self, items: &[Value]) -> Result<Value, ReadError> {
        let number = self.number(self.lists.len())?;
        let mut list = Vec::new();
        self.budget.reserve(&mut list, items.len())?;
        list.extend_from_slice(items);
        self.budget.push(&mut self.lists, list)?;
        Ok(Value::List(number))
    }

    /// Appends to the list numbered `list`.
    pub(super) fn extend_list(&mut self, list: u32, items: &[Value]) -> Result<(), ReadError> {
        let list = self.lists.get_mut(index(list)).expect("list numbers come from add_list");
        self.budget.reserve(list, items.len())?;
        list.extend_from_slice(items);
        Ok(())
    }

    pub(super) fn add_tuple(&mut self, items: &[Value]) -> Result<Value, ReadError> {
        let number = self.number(self.tuple_ends.len())?;
        self.budget.reserve(&mut self.tuple_items, items.len())?;
        self.tuple_items.extend_from_slice(items);
        self.budget.push(&mut self.tuple_ends, self.tuple_items.len())?;
        Ok(Value::Tuple(number))
    }

    #[inline]
    pub(super) fn add_dict(&mut self) -> Result<Value, ReadError> {
        let number = self.number(self.dicts.len())?;
        self.budget.push(&mut self.dicts, Dict::Empty)?;
        Ok(Value::Dict(number))
    }

    /// Puts keys and values, which alternate in `items`, into the dictionary numbered `dict`.
    #[inline]
    pub(super) fn extend_dict(&mut self, dict: u32, items: &[Value]) -> Result<(), ReadError> {
        let (couples, _) = items.as_chunks::<2>();
        let slot = index(dict);
        let pairs_number = match self.dict(dict) {
            Dict::Entry(entry) => {
                let entry = self.entries.get_mut(index(entry)).expect("made with its dictionary");
                for &[key, value] in couples {
                    entry.set(key, value);
                }
                return Ok(());
            }
            Dict::Empty if couples.iter().any(|[key, _]| *key == Value::Word(Word::Action)) => {
                let mut entry = RawEntry::EMPTY;
                for &[key, value] in couples {
                    entry.set(key, value);
                }
                let number = self.number(self.entries.len())?;
                self.budget.push(&mut self.entries, entry)?;
                *self.dicts.get_mut(slot).expect("looked up above") = Dict::Entry(number);
                return Ok(());
            }
            Dict::Empty => {
                let number = self.number(self.pairs.len())?;
                self.budget.push(&mut self.pairs, Vec::new())?;
                *self.dicts.get_mut(slot).expect("looked up above") = Dict::Pairs(number);
                number
            }
            Dict::Pairs(number) => number,
        };
        let pairs = self.pairs.get_mut(index(pairs_number)).expect("made with its dictionary");
        self.budget.reserve(pairs, couples.len())?;
        pairs.extend(couples.iter().map(|&[key, value]| (key, value)));
        Ok(())
    }

    #[inline]
    pub(super) fn dict(&self, dict: u32) -> Dict {
        *self.dicts.get(index(dict)).expect("dictionary numbers come from add_dict")
    }

    pub(super) fn entry(&self, entry: u32) -> RawEntry {
        *self.entries.get(index(entry)).expect("entry numbers come from extend_dict")
    }

    pub(super) fn pairs(&self, pairs: u32) -> &[(Value, Value)] {
        self.pairs.get(index(pairs)).expect("pair numbers come from extend_dict")
    }

    pub(super) fn list(&self, list: u32) -> &[Value] {
        self.lists.get(index(list)).expect("list numbers come from add_list")
    }

    pub(super) fn tuple(&self, tuple: u32) -> &[Value] {
        slice_before(&self.tuple_items, &self.tuple_ends, tuple)
    }

    pub(super) fn text(&self, text: u32) -> &[u8] {
        slice_before(&self.texts, &self.text_ends, text)
    }

    fn number(&self, count: usize) -> Result<u32, ReadError> {
        u32::try_from(count).map_err(|_| self.budget.exceeded())
    }
}

/// The run of `items` that ends where `ends` says for `number`.
fn slice_before<'a, T>(items: &'a [T], ends: &[usize], number: u32) -> &'a [T] {
    let position = index(number);
    let start = position.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    let end = ends.get(position).copied().expect("numbers come from this slab");
    items.get(start..end).expect("ends only grow")
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("this library needs pointers of at least 32 bits")
}
