//! The lists of a pickle. Those that hold dictionaries only, as every call stack does, are kept
//! once for all that are equal; any other list owns its items.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use super::budget::Budget;
use super::error::ReadError;
use super::heap::{Value, index, range_before};
use super::packed::{Packed, Packer};

/// The longest list that is looked for among those kept; call stacks are shorter.
const RUN_ITEMS_MAX: usize = 1000;

/// What a list has become.
#[derive(Debug, Clone, Copy)]
enum List {
    Empty,
    /// One that equal lists share, by its number.
    Run(u32),
    /// One with items of its own, by their number.
    Owned(u32),
}

/// All lists of one pickle.
#[derive(Debug, Default)]
pub(super) struct Lists {
    lists: Vec<List>,
    owned: Vec<Vec<Packed>>,
    /// The dictionaries of all shared lists, by their numbers.
    run_items: Vec<u32>,
    /// Where each shared list ends in `run_items`.
    run_ends: Vec<usize>,
    /// A shared list by the hash of its items. Of two with the same hash the first is found.
    runs: HashMap<u64, u32>,
    hasher: RandomState,
    scratch: Vec<u32>,
}

/// A list as it is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Items<'a> {
    /// Dictionaries, by their numbers; equal lists have the same `run`.
    Run {
        run: u32,
        dicts: &'a [u32],
    },
    Values(&'a [Packed]),
}

impl Items<'_> {
    pub(super) const fn len(&self) -> usize {
        match self {
            Self::Run { dicts, .. } => dicts.len(),
            Self::Values(values) => values.len(),
        }
    }

    pub(super) fn get(&self, position: usize) -> Option<Packed> {
        match self {
            Self::Run { dicts, .. } => {
                dicts.get(position).map(|dict| Packed::of(Value::Dict(*dict)))
            }
            Self::Values(values) => values.get(position).copied(),
        }
    }
}

impl Lists {
    /// How many there are; the next one's number.
    pub(super) const fn count(&self) -> usize {
        self.lists.len()
    }

    pub(super) const fn run_count(&self) -> usize {
        self.run_ends.len()
    }

    pub(super) fn add(&mut self, budget: &mut Budget) -> Result<(), ReadError> {
        budget.push(&mut self.lists, List::Empty)
    }

    /// Appends to the list numbered `list`. `sharable` says that the items are dictionaries other
    /// than trace entries.
    pub(super) fn extend(
        &mut self,
        list: u32,
        items: &[Value],
        sharable: bool,
        packer: &mut Packer,
        budget: &mut Budget,
    ) -> Result<(), ReadError> {
        let known = *self.lists.get(index(list)).expect("list numbers come from add");
        let owned = match known {
            _ if items.is_empty() => return Ok(()),
            List::Empty if sharable && items.len() <= RUN_ITEMS_MAX => {
                let mut dicts = std::mem::take(&mut self.scratch);
                dicts.clear();
                dicts.extend(items.iter().filter_map(|item| item.dict()));
                let shared = self.share(list, &dicts, budget);
                self.scratch = dicts;
                return shared;
            }
            List::Empty => self.own(list, budget)?,
            List::Run(run) => {
                let range = range_before(&self.run_ends, run);
                let owned = self.own(list, budget)?;
                let dicts = self.run_items.get(range).expect("ends only grow");
                let values = self.owned.get_mut(index(owned)).expect("just made");
                budget.reserve(values, dicts.len() + items.len())?;
                values.extend(dicts.iter().map(|dict| Packed::of(Value::Dict(*dict))));
                owned
            }
            List::Owned(owned) => owned,
        };
        let values = self.owned.get_mut(index(owned)).expect("owners come from own");
        budget.reserve(values, items.len())?;
        for item in items {
            values.push(packer.pack(*item, budget)?);
        }
        Ok(())
    }

    /// Makes the empty list numbered `list` the list of these dictionaries.
    pub(super) fn share(
        &mut self,
        list: u32,
        dicts: &[u32],
        budget: &mut Budget,
    ) -> Result<(), ReadError> {
        let hash = self.hasher.hash_one(dicts);
        let known = self.runs.get(&hash).copied();
        let run = match known.filter(|run| self.run(*run) == dicts) {
            Some(run) => run,
            None => {
                let run = u32::try_from(self.run_ends.len()).map_err(|_| budget.exceeded())?;
                budget.reserve(&mut self.run_items, dicts.len())?;
                self.run_items.extend_from_slice(dicts);
                budget.push(&mut self.run_ends, self.run_items.len())?;
                if known.is_none() {
                    budget.charge(1, 2 * size_of::<(u64, u64)>())?;
                    self.runs.insert(hash, run);
                }
                run
            }
        };
        *self.lists.get_mut(index(list)).expect("list numbers come from add") = List::Run(run);
        Ok(())
    }

    fn own(&mut self, list: u32, budget: &mut Budget) -> Result<u32, ReadError> {
        let owned = u32::try_from(self.owned.len()).map_err(|_| budget.exceeded())?;
        budget.push(&mut self.owned, Vec::new())?;
        *self.lists.get_mut(index(list)).expect("list numbers come from add") = List::Owned(owned);
        Ok(owned)
    }

    fn run(&self, run: u32) -> &[u32] {
        self.run_items.get(range_before(&self.run_ends, run)).expect("ends only grow")
    }

    pub(super) fn items(&self, list: u32) -> Items<'_> {
        match *self.lists.get(index(list)).expect("list numbers come from add") {
            List::Empty => Items::Values(&[]),
            List::Run(run) => Items::Run { run, dicts: self.run(run) },
            List::Owned(owned) => {
                Items::Values(self.owned.get(index(owned)).expect("owners come from own"))
            }
        }
    }
}
