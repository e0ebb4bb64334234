//! Texts, call stacks, pools and the names of unknown actions, each numbered once.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::pytorch::entry::Action;
use crate::pytorch::heap::{Dict, Heap, Value};
use crate::pytorch::lists::Items;
use crate::pytorch::packed::Packed;
use crate::pytorch::pools::{PoolNumber, PoolsBuilder};
use crate::pytorch::snapshot::Snapshot;
use crate::pytorch::stacks::{StackId, StacksBuilder, TextId, TextsBuilder};
use crate::pytorch::word::Word;

/// How many unknown actions are told apart.
const UNKNOWN_ACTIONS_MAX: usize = 1000;
/// The name for all that are more.
const MORE_ACTIONS: &str = "(others)";
/// Texts longer than this are looked up once, by their number: a file may name one in each entry.
const LONG_TEXT_BYTES: usize = 64;
/// The most frames of a stack that are kept, the innermost ones.
const FRAMES_MAX: usize = 10_000;

/// What a snapshot says in words and names by number, while it is collected.
#[derive(Default)]
pub(super) struct Words {
    texts: TextsBuilder,
    pools: PoolsBuilder,
    stacks: StacksBuilder,
    /// The stack of each shared list of the heap, by its number, once it was asked for.
    stack_of_run: Vec<Option<Option<StackId>>>,
    /// The stack of other lists.
    stack_of_list: HashMap<u32, Option<StackId>>,
    /// The stack of tuples, which PyTorch does not write.
    stack_of_tuple: HashMap<u32, Option<StackId>>,
    frame_of_dict: HashMap<u32, Option<u32>>,
    /// Long texts that were looked up among those of entries, and among those of frames.
    long_texts: HashMap<Packed, Option<TextId>>,
    long_frame_texts: HashMap<Packed, Option<TextId>>,
    unknown_actions: Vec<(String, usize)>,
    unknown_numbers: HashMap<String, u16>,
    long_unknown: HashMap<Packed, u16>,
}

impl Words {
    /// The stack whose frames the list numbered `list` holds.
    pub(super) fn stack(&mut self, list: u32, heap: &Heap) -> Option<StackId> {
        match heap.list(list) {
            Items::Run { run, dicts } => {
                let position = usize::try_from(run).ok()?;
                if let Some(Some(known)) = self.stack_of_run.get(position) {
                    return *known;
                }
                let stack = self.add_stack(dicts.iter().copied(), heap);
                if self.stack_of_run.len() <= position {
                    self.stack_of_run.resize(heap.run_count(), None);
                }
                if let Some(slot) = self.stack_of_run.get_mut(position) {
                    *slot = Some(stack);
                }
                stack
            }
            Items::Values([]) => None,
            Items::Values(values) => {
                if let Some(known) = self.stack_of_list.get(&list) {
                    return *known;
                }
                let dicts = values.iter().filter_map(|value| value.dict());
                let stack = self.add_stack(dicts, heap);
                self.stack_of_list.insert(list, stack);
                stack
            }
        }
    }

    /// The stack whose frames the tuple numbered `tuple` holds.
    #[cold]
    pub(super) fn stack_of_tuple(&mut self, tuple: u32, heap: &Heap) -> Option<StackId> {
        if let Some(known) = self.stack_of_tuple.get(&tuple) {
            return *known;
        }
        let dicts = heap.tuples().get(tuple).iter().filter_map(|value| value.dict());
        let stack = self.add_stack(dicts, heap);
        self.stack_of_tuple.insert(tuple, stack);
        stack
    }

    fn add_stack(&mut self, dicts: impl Iterator<Item = u32>, heap: &Heap) -> Option<StackId> {
        let frames: Vec<u32> =
            dicts.take(FRAMES_MAX).filter_map(|dict| self.frame(dict, heap)).collect();
        self.stacks.add_stack(&frames)
    }

    fn frame(&mut self, dict: u32, heap: &Heap) -> Option<u32> {
        if let Some(known) = self.frame_of_dict.get(&dict) {
            return *known;
        }
        let (mut file, mut name, mut line) = (Packed::NOTHING, Packed::NOTHING, 0);
        if let Dict::Pairs(pairs) = heap.dict(dict) {
            for &(key, value) in heap.pairs(pairs) {
                match (key, value) {
                    (Value::Word(Word::Filename), value) => file = Packed::of_text(value),
                    (Value::Word(Word::Name), value) => name = Packed::of_text(value),
                    (Value::Word(Word::Line), Value::Int(value)) => {
                        line = u32::try_from(value).unwrap_or(0);
                    }
                    _ => {}
                }
            }
        }
        let Self { stacks, long_frame_texts, .. } = self;
        let mut add = |text| numbered(text, heap, long_frame_texts, |text| stacks.add_text(text));
        let texts = add(file).zip(add(name));
        let frame = texts.and_then(|(file, name)| stacks.add_numbered_frame(file, line, name));
        self.frame_of_dict.insert(dict, frame);
        frame
    }

    /// A text of an entry; nothing comes of an empty one and of PyTorch's "N/A".
    #[inline(always)]
    pub(super) fn text(&mut self, text: Packed, heap: &Heap) -> Option<TextId> {
        match (text, text.word()) {
            (Packed::NOTHING, _) | (_, Some(Word::Nothing | Word::NotApplicable)) => None,
            _ => self.name(text, heap),
        }
    }

    /// A text that must be there; an empty one if it is not.
    pub(super) fn name(&mut self, text: Packed, heap: &Heap) -> Option<TextId> {
        let Self { texts, long_texts, .. } = self;
        numbered(text, heap, long_texts, |text| texts.add(text))
    }

    /// The number of a pool.
    #[inline]
    pub(super) fn pool(&mut self, id: (u64, u64)) -> Option<PoolNumber> {
        self.pools.add(id)
    }

    /// Counts an action that is not known.
    pub(super) fn unknown_action(&mut self, name: Packed, heap: &Heap) -> Action {
        let number = match self.long_unknown.get(&name) {
            Some(number) => *number,
            None => {
                let number = self.unknown_number(String::from_utf8_lossy(bytes(name, heap)));
                if LONG_TEXT_BYTES < bytes(name, heap).len() {
                    self.long_unknown.insert(name, number);
                }
                number
            }
        };
        if let Some((_, count)) = self.unknown_actions.get_mut(usize::from(number)) {
            *count += 1;
        }
        Action::Other(number)
    }

    fn unknown_number(&mut self, mut name: Cow<'_, str>) -> u16 {
        let is_full = UNKNOWN_ACTIONS_MAX <= self.unknown_actions.len();
        if is_full && !self.unknown_numbers.contains_key(name.as_ref()) {
            name = MORE_ACTIONS.into();
        }
        if let Some(number) = self.unknown_numbers.get(name.as_ref()) {
            return *number;
        }
        let number = self.unknown_actions.len();
        let number = u16::try_from(number).expect("the number of names is limited");
        self.unknown_actions.push((name.clone().into_owned(), 0));
        self.unknown_numbers.insert(name.into_owned(), number);
        number
    }

    pub(super) fn build_into(self, snapshot: &mut Snapshot) {
        snapshot.texts = self.texts.build();
        snapshot.stacks = self.stacks.build();
        snapshot.pools = self.pools.build();
        snapshot.unknown_actions = self.unknown_actions;
    }
}

/// The number that `add` gives to a text, which it is asked for once if the text is long.
fn numbered(
    text: Packed,
    heap: &Heap,
    long: &mut HashMap<Packed, Option<TextId>>,
    add: impl FnOnce(&str) -> Option<TextId>,
) -> Option<TextId> {
    let bytes = bytes(text, heap);
    if bytes.len() <= LONG_TEXT_BYTES {
        return add(&String::from_utf8_lossy(bytes));
    }
    *long.entry(text).or_insert_with(|| add(&String::from_utf8_lossy(bytes)))
}

fn bytes(text: Packed, heap: &Heap) -> &[u8] {
    match (text.word(), text.text()) {
        (Some(word), _) => word.text(),
        (_, Some(text)) => heap.text(text),
        _ => b"",
    }
}
