//! What a snapshot says in words: texts, call stacks and their frames, each distinct one stored
//! once and named by a number.

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroU32;

/// A text of a snapshot, by its number in [`Texts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(NonZeroU32);

impl TextId {
    /// As an index, below [`Texts::count`].
    #[must_use]
    pub fn index(self) -> usize {
        position(self.0)
    }
}

/// A call stack of a snapshot, by its number in [`Stacks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(NonZeroU32);

impl StackId {
    /// As an index, below [`Stacks::count`].
    #[must_use]
    pub fn index(self) -> usize {
        position(self.0)
    }
}

/// One line of a call stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame<'a> {
    /// The source file; empty where the snapshot does not say.
    pub file: &'a str,
    /// The line in it, counted from 1; 0 where the snapshot does not say.
    pub line: u32,
    /// The function; empty where the snapshot does not say.
    pub name: &'a str,
}

/// All distinct texts of a snapshot. Bytes that are no UTF-8 read as replacement characters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Texts {
    characters: String,
    /// Where each text ends in `characters`.
    ends: Vec<usize>,
}

impl Texts {
    /// The text numbered `text`, in constant time.
    ///
    /// # Panics
    /// If `text` is of another snapshot, and this one has fewer.
    #[must_use]
    pub fn get(&self, text: TextId) -> &str {
        let range = range_before(&self.ends, text.index());
        self.characters.get(range).expect("the text is of this snapshot")
    }

    /// How many distinct texts there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.ends.len()
    }
}

/// All distinct call stacks of a snapshot, and their distinct frames.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stacks {
    /// Texts of frames alone: files and functions.
    texts: Texts,
    frames: Vec<StoredFrame>,
    /// The frames of all stacks, one stack after the other, by their numbers.
    items: Vec<u32>,
    /// Where each stack ends in `items`.
    ends: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct StoredFrame {
    file: TextId,
    name: TextId,
    line: u32,
}

impl Stacks {
    /// The frames of `stack`, innermost first, as PyTorch writes them.
    ///
    /// # Panics
    /// If `stack` is of another snapshot, and this one has fewer.
    pub fn frames(
        &self,
        stack: StackId,
    ) -> impl ExactSizeIterator<Item = Frame<'_>> + DoubleEndedIterator {
        let range = range_before(&self.ends, stack.index());
        let numbers = self.items.get(range).expect("the stack is of this snapshot");
        numbers.iter().map(|number| {
            let frame = self.frames.get(index(*number)).expect("frames are numbered as stored");
            Frame {
                file: self.texts.get(frame.file),
                line: frame.line,
                name: self.texts.get(frame.name),
            }
        })
    }

    /// How many distinct stacks there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.ends.len()
    }

    /// How many distinct frames they are made of.
    #[must_use]
    pub const fn frame_count(&self) -> usize {
        self.frames.len()
    }
}

/// Makes [`Texts`], each distinct text once.
#[derive(Debug, Default)]
pub(crate) struct TextsBuilder {
    texts: Texts,
    numbers: HashMap<Box<str>, TextId>,
}

impl TextsBuilder {
    /// The number of `text`. Nothing comes of the text that would be one too many for 32 bits.
    pub(crate) fn add(&mut self, text: &str) -> Option<TextId> {
        if let Some(id) = self.numbers.get(text) {
            return Some(*id);
        }
        let id = TextId(number(self.texts.ends.len())?);
        self.texts.characters.push_str(text);
        self.texts.ends.push(self.texts.characters.len());
        self.numbers.insert(text.into(), id);
        Some(id)
    }

    pub(crate) fn build(mut self) -> Texts {
        self.texts.characters.shrink_to_fit();
        self.texts.ends.shrink_to_fit();
        self.texts
    }
}

/// Makes [`Stacks`], each distinct frame and stack once.
#[derive(Debug, Default)]
pub(crate) struct StacksBuilder {
    texts: TextsBuilder,
    stacks: Stacks,
    frame_numbers: HashMap<StoredFrame, u32>,
    stack_numbers: HashMap<Box<[u32]>, StackId>,
}

impl StacksBuilder {
    /// The number of a frame. Nothing comes of the one that would be too many for 32 bits.
    pub(crate) fn add_frame(&mut self, file: &str, line: u32, name: &str) -> Option<u32> {
        let (file, name) = (self.texts.add(file)?, self.texts.add(name)?);
        self.add_numbered_frame(file, line, name)
    }

    /// The number of a text of frames. Nothing comes of the one that would be too many.
    pub(crate) fn add_text(&mut self, text: &str) -> Option<TextId> {
        self.texts.add(text)
    }

    /// The number of a frame whose texts have their numbers already.
    pub(crate) fn add_numbered_frame(
        &mut self,
        file: TextId,
        line: u32,
        name: TextId,
    ) -> Option<u32> {
        let frame = StoredFrame { file, line, name };
        add(&mut self.stacks.frames, &mut self.frame_numbers, frame)
    }

    /// The number of the stack of these frames, innermost first. Nothing comes of an empty one.
    pub(crate) fn add_stack(&mut self, frames: &[u32]) -> Option<StackId> {
        if frames.is_empty() {
            return None;
        }
        if let Some(id) = self.stack_numbers.get(frames) {
            return Some(*id);
        }
        let id = StackId(number(self.stacks.ends.len())?);
        self.stacks.items.extend_from_slice(frames);
        self.stacks.ends.push(self.stacks.items.len());
        self.stack_numbers.insert(frames.into(), id);
        Some(id)
    }

    pub(crate) fn build(mut self) -> Stacks {
        self.stacks.texts = self.texts.build();
        self.stacks.items.shrink_to_fit();
        self.stacks.ends.shrink_to_fit();
        self.stacks
    }
}

fn add<T: Copy + Eq + Hash>(
    items: &mut Vec<T>,
    numbers: &mut HashMap<T, u32>,
    item: T,
) -> Option<u32> {
    if let Some(number) = numbers.get(&item) {
        return Some(*number);
    }
    let number = u32::try_from(items.len()).ok()?;
    items.push(item);
    numbers.insert(item, number);
    Some(number)
}

/// What lies between the end before the one at `position` and that.
fn range_before(ends: &[usize], position: usize) -> std::ops::Range<usize> {
    let start = position.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    start..ends.get(position).copied().unwrap_or(usize::MAX)
}

/// The number of what stands at `position`, counted from 1 so that none takes no room.
fn number(position: usize) -> Option<NonZeroU32> {
    u32::try_from(position).ok()?.checked_add(1).and_then(NonZeroU32::new)
}

fn position(number: NonZeroU32) -> usize {
    index(number.get()) - 1
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("this library needs pointers of at least 32 bits")
}
