//! The values a pickle makes, kept flat: containers are numbers into slabs, so that depth costs
//! nothing and dropping them never recurses.
//!
//! A dictionary that gets a whole trace entry at once, as Python writes them, becomes a
//! [`RawEntry`]; any other keeps its pairs. Every byte a container grows by is charged to one
//! budget, and memory that the system refuses is an error like any other.

use std::ops::Range;

use super::budget::Budget;
use super::error::ReadError;
use super::lists::{Items, Lists};
use super::packed::{NUMBERS_MAX, Packed, Packer};
use super::raw_entry::RawEntry;
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

impl Value {
    /// The dictionary's number, if it is one.
    #[inline]
    pub(super) const fn dict(self) -> Option<u32> {
        if let Self::Dict(dict) = self { Some(dict) } else { None }
    }
}

/// What a dictionary has become.
#[derive(Debug, Clone, Copy)]
pub(super) enum Dict {
    Empty,
    Entry(u32),
    Pairs(u32),
}

/// A [`Dict`] in four bytes.
#[derive(Debug, Clone, Copy)]
struct PackedDict(u32);

const ENTRY: u32 = NUMBERS_MAX;
const PAIRS: u32 = 2 * NUMBERS_MAX;

impl Dict {
    #[inline]
    const fn pack(self) -> PackedDict {
        PackedDict(match self {
            Self::Empty => 0,
            Self::Entry(number) => ENTRY | number,
            Self::Pairs(number) => PAIRS | number,
        })
    }
}

impl PackedDict {
    #[inline]
    const fn unpack(self) -> Dict {
        match self.0 {
            0 => Dict::Empty,
            PAIRS.. => Dict::Pairs(self.0 & !PAIRS),
            _ => Dict::Entry(self.0 & !ENTRY),
        }
    }
}

/// All tuples of one pickle.
#[derive(Debug, Default)]
pub(super) struct Tuples {
    items: Vec<Value>,
    /// Where each tuple ends in `items`.
    ends: Vec<usize>,
}

impl Tuples {
    pub(super) fn get(&self, tuple: u32) -> &[Value] {
        slice_before(&self.items, &self.ends, tuple)
    }
}

/// All containers of one pickle.
#[derive(Debug)]
pub(super) struct Heap {
    pub(super) budget: Budget,
    texts: Vec<u8>,
    /// Where each text ends in `texts`.
    text_ends: Vec<usize>,
    tuples: Tuples,
    lists: Lists,
    /// Makes packed values of any others.
    packer: Packer,
    dicts: Vec<PackedDict>,
    pairs: Vec<Vec<(Value, Value)>>,
    entries: Vec<RawEntry>,
}

impl Heap {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            budget: Budget::new(bytes_max),
            texts: Vec::new(),
            text_ends: Vec::new(),
            tuples: Tuples::default(),
            lists: Lists::default(),
            packer: Packer::default(),
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
        let number = self.number(self.lists.count())?;
        self.lists.add(&mut self.budget)?;
        self.extend_list(number, items)?;
        Ok(Value::List(number))
    }

    /// Appends to the list numbered `list`.
    pub(super) fn extend_list(&mut self, list: u32, items: &[Value]) -> Result<(), ReadError> {
        let is_sharable =
            items.iter().all(|item| item.dict().is_some_and(|dict| !self.is_entry(dict)));
        self.lists.extend(list, items, is_sharable, &mut self.packer, &mut self.budget)
    }

    /// A tuple never changes, so one that equals the last made is the last made.
    pub(super) fn add_tuple(&mut self, items: &[Value]) -> Result<Value, ReadError> {
        let number = self.number(self.tuples.ends.len())?;
        if let Some(last) = number.checked_sub(1)
            && self.tuples.get(last) == items
        {
            return Ok(Value::Tuple(last));
        }
        let Tuples { items: all, ends } = &mut self.tuples;
        self.budget.reserve(all, items.len())?;
        all.extend_from_slice(items);
        self.budget.push(ends, all.len())?;
        Ok(Value::Tuple(number))
    }

    /// The dictionary that the next [`Self::add_dict`] or [`Self::add_entry`] will make.
    #[inline(always)]
    pub(super) fn next_dict(&self) -> Option<Value> {
        number_of(self.dicts.len()).map(Value::Dict)
    }

    /// How many dictionaries there are.
    pub(super) const fn dict_count(&self) -> usize {
        self.dicts.len()
    }

    /// A dictionary that is a whole trace entry. Nothing comes of one that there is no room for.
    #[inline(always)]
    pub(super) fn add_entry(&mut self, entry: RawEntry) -> Option<()> {
        let number = number_of(self.entries.len())?;
        self.budget.push_if_room(&mut self.entries, entry)?;
        let dict = Dict::Entry(number).pack();
        if self.budget.push_if_room(&mut self.dicts, dict).is_none() {
            self.entries.pop();
            return None;
        }
        Some(())
    }

    #[inline]
    pub(super) fn add_dict(&mut self) -> Result<Value, ReadError> {
        let number = self.number(self.dicts.len())?;
        self.budget.push(&mut self.dicts, Dict::Empty.pack())?;
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
                entry.set_all(couples);
                return Ok(());
            }
            Dict::Empty if couples.iter().any(|[key, _]| *key == Value::Word(Word::Action)) => {
                let mut entry = RawEntry::EMPTY;
                entry.set_all(couples);
                return self.become_entry(dict, entry);
            }
            Dict::Empty => {
                let number = self.number(self.pairs.len())?;
                self.budget.push(&mut self.pairs, Vec::new())?;
                *self.dicts.get_mut(slot).expect("looked up above") = Dict::Pairs(number).pack();
                number
            }
            Dict::Pairs(number) => number,
        };
        let pairs = self.pairs.get_mut(index(pairs_number)).expect("made with its dictionary");
        self.budget.reserve(pairs, couples.len())?;
        pairs.extend(couples.iter().map(|&[key, value]| (key, value)));
        Ok(())
    }

    /// Makes the empty dictionary numbered `dict` a trace entry.
    #[inline]
    pub(super) fn become_entry(&mut self, dict: u32, entry: RawEntry) -> Result<(), ReadError> {
        let number = self.number(self.entries.len())?;
        self.budget.push(&mut self.entries, entry)?;
        *self.dicts.get_mut(index(dict)).expect("dictionary numbers come from add_dict") =
            Dict::Entry(number).pack();
        Ok(())
    }

    #[inline]
    pub(super) fn dict(&self, dict: u32) -> Dict {
        self.dicts.get(index(dict)).expect("dictionary numbers come from add_dict").unpack()
    }

    /// Whether a dictionary is a whole trace entry. One that [`Self::next_dict`] promised is not
    /// made while its own values are read, and is none yet, as the machine has it.
    #[inline]
    fn is_entry(&self, dict: u32) -> bool {
        let made = self.dicts.get(index(dict));
        made.is_some_and(|made| matches!(made.unpack(), Dict::Entry(_)))
    }

    #[inline]
    pub(super) fn pack(&mut self, value: Value) -> Result<Packed, ReadError> {
        self.packer.pack(value, &mut self.budget)
    }

    #[inline]
    pub(super) fn unpack(&self, packed: Packed) -> Option<Value> {
        self.packer.unpack(packed)
    }

    /// All trace entries, in the order in which they were made; none are left.
    pub(super) fn take_entries(&mut self) -> Vec<RawEntry> {
        std::mem::take(&mut self.entries)
    }

    pub(super) fn entry(&self, entry: u32) -> RawEntry {
        *self.entries.get(index(entry)).expect("entry numbers come from extend_dict")
    }

    /// Whether the items of `list` are the entries from the first on, in order.
    pub(super) fn is_all_entries(&self, list: u32) -> bool {
        let Items::Values(values) = self.list(list) else { return false };
        values.iter().enumerate().all(|(position, value)| {
            let dict = value.dict().map(|dict| self.dict(dict));
            matches!(dict, Some(Dict::Entry(entry)) if index(entry) == position)
        })
    }

    pub(super) fn pairs(&self, pairs: u32) -> &[(Value, Value)] {
        self.pairs.get(index(pairs)).expect("pair numbers come from extend_dict")
    }

    pub(super) fn list(&self, list: u32) -> Items<'_> {
        self.lists.items(list)
    }

    /// How many lists there are that equal ones share.
    pub(super) const fn run_count(&self) -> usize {
        self.lists.run_count()
    }

    pub(super) const fn tuples(&self) -> &Tuples {
        &self.tuples
    }

    pub(super) fn text(&self, text: u32) -> &[u8] {
        slice_before(&self.texts, &self.text_ends, text)
    }

    fn number(&self, count: usize) -> Result<u32, ReadError> {
        number_of(count).ok_or(self.budget.exceeded())
    }
}

#[inline(always)]
fn number_of(count: usize) -> Option<u32> {
    u32::try_from(count).ok().filter(|number| *number < NUMBERS_MAX)
}

/// The run of `items` that ends where `ends` says for `number`.
fn slice_before<'a, T>(items: &'a [T], ends: &[usize], number: u32) -> &'a [T] {
    items.get(range_before(ends, number)).expect("ends only grow")
}

/// What lies between the end before `number` and its own.
pub(super) fn range_before(ends: &[usize], number: u32) -> Range<usize> {
    let position = index(number);
    let start = position.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    start..ends.get(position).copied().expect("numbers come from this slab")
}

#[inline(always)]
pub(super) fn index(number: u32) -> usize {
    usize::try_from(number).expect("this library needs pointers of at least 32 bits")
}
