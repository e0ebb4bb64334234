//! Who an allocation belongs to: a line of the program, an annotation, or else its size.
//!
//! The rule, in this order:
//! 1. the innermost frame that a caller's pattern matches, if there is a pattern;
//! 2. the innermost frame of the program itself: outside PyTorch, installed packages and Python's
//!    own library;
//! 3. the innermost annotation that is open at that moment;
//! 4. the innermost frame of Python at all;
//! 5. the size class.

use std::collections::HashMap;

use crate::pytorch::{Frame, Snapshot, StackId, Stage, TextId};

/// An owner: an index into [`Owners::names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(u32);

impl OwnerId {
    /// The index into [`Owners::names`].
    #[must_use]
    pub fn index(self) -> usize {
        usize::try_from(self.0).expect("an index was a length once")
    }
}

/// Says whether a frame, written `file:line name`, is an owner.
pub type Pattern<'a> = &'a dyn Fn(&str) -> bool;

/// Finds owners, and gives each a number. Costs one look at each stack, and then a lookup.
///
/// ```
/// use trace::pytorch::{ReadOptions, read_file};
/// use trace::{OpenAnnotations, Owners};
///
/// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
/// # let file = std::path::Path::new(folder).join("side_stream.pickle.zst");
/// let snapshot = read_file(&file, &ReadOptions::default(), None)?;
/// let mut owners = Owners::new(&snapshot, None);
/// let owner = owners.of(None, 3 << 20, None);
/// assert_eq!(owners.names()[owner.index()], "size 2 MiB to 4 MiB");
/// # Ok::<(), trace::pytorch::ReadError>(())
/// ```
pub struct Owners<'a> {
    snapshot: &'a Snapshot,
    pattern: Option<Pattern<'a>>,
    names: Vec<String>,
    numbers: HashMap<String, OwnerId>,
    by_stack: HashMap<StackId, Found>,
    by_annotation: HashMap<TextId, OwnerId>,
}

impl std::fmt::Debug for Owners<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut told = formatter.debug_struct("Owners");
        told.field("has_pattern", &self.pattern.is_some()).field("names", &self.names);
        told.finish_non_exhaustive()
    }
}

/// What a stack says.
#[derive(Debug, Clone)]
enum Found {
    /// An owner by the pattern or as the program's own.
    Own(OwnerId),
    /// No owner, but the innermost frame of Python, if there is one.
    Foreign(Option<Box<str>>),
}

impl<'a> Owners<'a> {
    /// Owners by the program's own frames, or first by `pattern`.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, pattern: Option<Pattern<'a>>) -> Self {
        Self {
            snapshot,
            pattern,
            names: Vec::new(),
            numbers: HashMap::new(),
            by_stack: HashMap::new(),
            by_annotation: HashMap::new(),
        }
    }

    /// The owner of an allocation of `bytes` with that stack, while that annotation was open.
    pub fn of(
        &mut self,
        stack: Option<StackId>,
        bytes: u64,
        annotation: Option<TextId>,
    ) -> OwnerId {
        let foreign = match stack.map(|stack| self.of_stack(stack)) {
            Some(Found::Own(owner)) => return owner,
            Some(Found::Foreign(frame)) => frame,
            None => None,
        };
        match (annotation, foreign) {
            (Some(annotation), _) => self.of_annotation(annotation),
            (None, Some(frame)) => self.numbered(frame.into()),
            (None, None) => self.numbered(format!("size {}", size_class(bytes))),
        }
    }

    /// The name of each owner found so far.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    fn of_stack(&mut self, stack: StackId) -> Found {
        if let Some(found) = self.by_stack.get(&stack) {
            return found.clone();
        }
        let frames = || self.snapshot.stacks.frames(stack);
        let matched = self.pattern.and_then(|matches| frames().map(told).find(|it| matches(it)));
        let own = matched.or_else(|| frames().find(|it| is_own_file(it.file)).map(told));
        let foreign = frames().find(|it| is_python_file(it.file)).map(told);
        let found = match own {
            Some(name) => Found::Own(self.numbered(name)),
            None => Found::Foreign(foreign.map(Into::into)),
        };
        self.by_stack.insert(stack, found.clone());
        found
    }

    fn of_annotation(&mut self, annotation: TextId) -> OwnerId {
        if let Some(owner) = self.by_annotation.get(&annotation) {
            return *owner;
        }
        let name = self.snapshot.texts.get(annotation).to_owned();
        let owner = self.numbered(name);
        self.by_annotation.insert(annotation, owner);
        owner
    }

    fn numbered(&mut self, name: String) -> OwnerId {
        if let Some(owner) = self.numbers.get(&name) {
            return *owner;
        }
        let count = u32::try_from(self.names.len()).expect("fewer owners than a file has bytes");
        let owner = OwnerId(count);
        self.names.push(name.clone());
        self.numbers.insert(name, owner);
        owner
    }
}

/// A frame as owners are called by it and patterns see it: `file:line name`, without a name that
/// is not known.
fn told(frame: Frame<'_>) -> String {
    let place = format!("{}:{}", frame.file, frame.line);
    if frame.name.is_empty() { place } else { place + " " + frame.name }
}

/// Whether a file is the program's own: none of PyTorch's, of installed packages' or of Python's.
#[must_use]
pub fn is_own_file(file: &str) -> bool {
    let file = file.replace('\\', "/");
    let is_installed = ["/site-packages/", "/dist-packages/", "/torch/", "/lib/python3"]
        .iter()
        .any(|part| file.contains(part));
    is_python_file(&file) && !is_installed && !file.starts_with("torch/")
}

/// Whether a file is Python's source at all, as opposed to C++ or generated code.
fn is_python_file(file: &str) -> bool {
    const OTHERS: &[&str] = &[".cpp", ".cc", ".c", ".cu", ".h", ".hpp", ".cuh", ".so", ".S"];
    !file.is_empty()
        && file != "??"
        && !file.starts_with('<')
        && !OTHERS.iter().any(|ending| file.ends_with(ending) || file.contains(".so."))
}

/// The powers of two that `bytes` lie between, the lower one included.
#[must_use]
pub fn size_class(bytes: u64) -> String {
    if bytes < 512 {
        return "below 512 B".to_owned();
    }
    let low = bytes.ilog2();
    format!("{} to {}", power_of_two(low), power_of_two(low + 1))
}

fn power_of_two(exponent: u32) -> String {
    const UNITS: &[&str] = &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = usize::try_from(exponent / 10).ok().and_then(|unit| UNITS.get(unit));
    format!("{} {}", 1_u32 << (exponent % 10), unit.unwrap_or(&"EiB"))
}

/// How many annotations can be open at once; what begins beyond that is left out, so that a file
/// that only ever begins them costs no more time than its length.
const OPEN_ANNOTATIONS_MAX: usize = 1000;

/// The annotations of a device as time goes on.
///
/// Of more than a thousand open ones the innermost are left out.
#[derive(Debug)]
pub struct OpenAnnotations {
    /// Time, name, and whether it begins.
    steps: Vec<(i64, TextId, bool)>,
    next: usize,
    open: Vec<TextId>,
}

impl OpenAnnotations {
    /// The annotations of `device`, and those of no device, before any has begun.
    #[must_use]
    pub fn new(snapshot: &Snapshot, device: usize) -> Self {
        let mut steps: Vec<_> = snapshot
            .annotations
            .iter()
            .filter(|it| it.device.is_none_or(|its| its == device))
            .filter_map(|it| match it.stage {
                Stage::Start => Some((it.time_us, it.name, true)),
                Stage::End => Some((it.time_us, it.name, false)),
                Stage::Other => None,
            })
            .collect();
        steps.sort_by_key(|(time_us, _, _)| *time_us);
        Self { steps, next: 0, open: Vec::new() }
    }

    /// The innermost annotation that is open at `time_us`, which is not before any earlier call's.
    pub fn at(&mut self, time_us: i64) -> Option<TextId> {
        while let Some(&(at, name, begins)) = self.steps.get(self.next)
            && at <= time_us
        {
            self.next += 1;
            if begins {
                if self.open.len() < OPEN_ANNOTATIONS_MAX {
                    self.open.push(name);
                }
            } else if let Some(place) = self.open.iter().rposition(|open| *open == name) {
                self.open.remove(place);
            }
        }
        self.open.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, is_own_file, size_class, told};

    #[test]
    fn a_file_of_the_program_is_told_from_an_installed_one() {
        for own in ["train.py", "/home/me/train.py", "C:\\work\\train.py", "/data/torchy/model.py"]
        {
            assert!(is_own_file(own), "{own}");
        }
        for installed in [
            "",
            "??",
            "<frozen runpy>",
            "<string>",
            "torch/nn/modules/linear.py",
            "/usr/lib/python3.11/threading.py",
            "/opt/env/lib/python3.12/site-packages/transformers/trainer.py",
            "/usr/lib/python3/dist-packages/numpy/core.py",
            "C:\\env\\Lib\\site-packages\\torch\\nn\\functional.py",
            "/build/pytorch/torch/csrc/autograd/engine.cpp",
            "/lib/x86_64-linux-gnu/libc.so.6",
        ] {
            assert!(!is_own_file(installed), "{installed}");
        }
    }

    #[test]
    fn a_frame_without_a_name_has_no_blank_behind_its_place() {
        let frame = |name| Frame { file: "src/step.rs", line: 66, name };
        assert_eq!(told(frame("")), "src/step.rs:66");
        assert_eq!(told(frame("step")), "src/step.rs:66 step");
    }

    #[test]
    fn a_size_lies_between_two_powers() {
        for (bytes, class) in [
            (0, "below 512 B"),
            (512, "512 B to 1 KiB"),
            (1023, "512 B to 1 KiB"),
            (1024, "1 KiB to 2 KiB"),
            (3 << 20, "2 MiB to 4 MiB"),
            (u64::MAX, "8 EiB to 16 EiB"),
        ] {
            assert_eq!(size_class(bytes), class, "{bytes}");
        }
    }
}
