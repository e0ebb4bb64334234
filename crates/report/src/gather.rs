//! Brings together what a report shows of one device: lives, ranges, owners, stacks, annotations.

use std::collections::{HashMap, HashSet};

use trace::pytorch::{DeviceTrace, Entry, Frame, ReadError, Segment, Snapshot, StackId, Stage};
use trace::stream_trace::{Place, Recording};
use trace::{OpenAnnotations, Owners, is_own_file, size_class};

use crate::history::{History, Moment, NEVER, moment};
use crate::holes::{self, Sample};
use crate::levels::Levels;
use crate::picture::bytes_text;
use crate::ranges::{self, Change, Range};
use crate::{Figures, Options, recorded};

/// How deep annotations may lie in one another; a page shows three lanes of them.
const OPEN_ANNOTATIONS_MAX: usize = 1000;

/// How many unknown actions are named; whoever has more needs a newer reader.
const UNKNOWN_ACTIONS_NOTED_MAX: usize = 5;

/// Everything that is drawn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gathered {
    pub(crate) title: String,
    pub(crate) device: usize,
    pub(crate) history: History,
    pub(crate) levels: Levels,
    pub(crate) ranges: Vec<Range>,
    pub(crate) unmapped: Vec<(Moment, i128)>,
    pub(crate) samples: Vec<Sample>,
    /// The owner of each life.
    pub(crate) owners: Vec<usize>,
    pub(crate) owner_names: Vec<String>,
    pub(crate) stacks: Stacks,
    /// The stack of each life, and of each request that found no room.
    pub(crate) life_stacks: Vec<Option<usize>>,
    pub(crate) failed_stacks: Vec<Option<usize>>,
    /// For which streams each life waited when it was freed; absent where nobody knows.
    pub(crate) awaited: Option<Vec<Vec<usize>>>,
    /// What the program had noted for each life, as a text of the stacks.
    pub(crate) noted: Vec<Option<usize>>,
    pub(crate) annotations: Vec<Annotation>,
    /// What a reader should know of this trace.
    pub(crate) notes: Vec<String>,
}

/// A named part of the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Annotation {
    pub(crate) name: String,
    pub(crate) from: Moment,
    pub(crate) to: Moment,
    /// How many others it lies in.
    pub(crate) depth: usize,
}

/// The stacks that are used, each frame and text once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stacks {
    pub(crate) texts: Vec<String>,
    /// File, line, name, and whether it is the program's own.
    pub(crate) frames: Vec<(usize, u32, usize, bool)>,
    /// Frames of each stack, innermost first.
    pub(crate) stacks: Vec<Vec<usize>>,
    numbers: HashMap<StackId, usize>,
    frame_numbers: HashMap<(usize, u32, usize), usize>,
    text_numbers: HashMap<String, usize>,
    /// The stack of each frame that is a place.
    place_numbers: HashMap<usize, usize>,
}

impl Stacks {
    /// The number of a stack.
    fn take(&mut self, snapshot: &Snapshot, stack: Option<StackId>) -> Option<usize> {
        let stack = stack?;
        if let Some(number) = self.numbers.get(&stack) {
            return Some(*number);
        }
        let frames = snapshot.stacks.frames(stack).map(|frame| self.frame(&frame)).collect();
        self.numbers.insert(stack, self.stacks.len());
        self.stacks.push(frames);
        Some(self.stacks.len() - 1)
    }

    /// The number of the stack that is this place alone.
    fn take_place(&mut self, place: &Place) -> usize {
        let frame = self.frame(&Frame { file: &place.file, line: place.line, name: "" });
        let next = self.stacks.len();
        let number = *self.place_numbers.entry(frame).or_insert(next);
        if number == next {
            self.stacks.push(vec![frame]);
        }
        number
    }

    fn frame(&mut self, frame: &Frame<'_>) -> usize {
        let key = (self.text(frame.file), frame.line, self.text(frame.name));
        let next = self.frames.len();
        let number = *self.frame_numbers.entry(key).or_insert(next);
        if number == next {
            self.frames.push((key.0, key.1, key.2, is_own_file(frame.file)));
        }
        number
    }

    fn text(&mut self, text: &str) -> usize {
        if let Some(number) = self.text_numbers.get(text) {
            return *number;
        }
        self.text_numbers.insert(text.to_owned(), self.texts.len());
        self.texts.push(text.to_owned());
        self.texts.len() - 1
    }
}

impl Gathered {
    /// What lives and ranges alone tell.
    fn new(
        options: &Options<'_>,
        history: History,
        ranges: Vec<Range>,
        changes: &[Change],
    ) -> Self {
        let title = if options.title.is_empty() { "GPU memory" } else { options.title };
        let levels = Levels::of(&history, &ranges);
        Self {
            title: title.to_owned(),
            unmapped: ranges::unmapped_steps(&ranges, changes),
            samples: holes::samples(&history, &ranges, levels.peak_moment),
            history,
            levels,
            ranges,
            ..Self::default()
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures {
            device: self.device,
            event_count: self.history.events.len(),
            block_count: self.history.lives.len(),
            owner_count: self.owner_names.len(),
            peak_active_bytes: self.levels.peak_active_bytes,
            peak_reserved_bytes: self.levels.peak_reserved_bytes,
            out_of_memory_count: self.history.failed.len(),
        }
    }
}

/// Gathers a report's content from a snapshot.
pub(crate) fn gather(snapshot: &Snapshot, options: &Options<'_>) -> Result<Gathered, ReadError> {
    let mut notes = Vec::new();
    let (device, history, changes) = match snapshot.trace(options.device) {
        Ok(trace) => of_trace(snapshot, &trace, &mut notes),
        Err(error) => of_segments(snapshot, options.device, error, &mut notes)?,
    };
    let others = other_device_count(snapshot, device);
    if 0 < others {
        notes.push(format!("This is device {device}; the snapshot has {others} more."));
    }
    other_notes(snapshot, &mut notes);
    let mut segments =
        snapshot.segments.iter().filter(|segment| segment.device == device).peekable();
    // A file without segments, such as CSV, shows what its entries took.
    let ranges = match segments.peek() {
        Some(_) => ranges::ranges(segments, &changes),
        None => ranges::ranges_from_nothing(&changes),
    };
    let mut gathered = Gathered::new(options, history, ranges, &changes);
    gathered.device = device;
    gathered.notes = notes;
    let Gathered { history, stacks, life_stacks, noted, failed_stacks, .. } = &mut gathered;
    for life in &history.lives {
        life_stacks.push(stacks.take(snapshot, life.stack));
        noted.push(life.noted.map(|noted| stacks.text(snapshot.texts.get(noted))));
    }
    for failed in &history.failed {
        failed_stacks.push(stacks.take(snapshot, failed.stack));
    }
    gathered.annotations = annotations(snapshot, device, &gathered.history);
    (gathered.owners, gathered.owner_names) = owners(snapshot, device, &gathered.history, options);
    Ok(gathered)
}

/// Gathers a report's content from a stream trace, whose places are stacks of one frame.
pub(crate) fn gather_recording(recording: &Recording, options: &Options<'_>) -> Gathered {
    let recorded = recorded::recorded(recording);
    let ranges = ranges::ranges_from_nothing(&recorded.changes);
    let mut gathered = Gathered::new(options, recorded.history, ranges, &recorded.changes);
    if !recording.is_complete() {
        gathered.notes.push("The trace was cut off: what came before that is shown.".to_owned());
    }
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let placed = recorded.places.iter().zip(&gathered.history.lives);
    for (place, life) in placed {
        let place = place.and_then(|place| recording.place(place));
        gathered.life_stacks.push(place.map(|place| gathered.stacks.take_place(place)));
        let owner = match place {
            Some(place) => place.to_string(),
            None => format!("size {}", size_class(life.requested_bytes)),
        };
        let next = gathered.owner_names.len();
        let number = *numbers.entry(owner).or_insert_with_key(|name| {
            gathered.owner_names.push(name.clone());
            next
        });
        gathered.owners.push(number);
        gathered.noted.push(None);
    }
    for place in &recorded.failed_places {
        let place = place.and_then(|place| recording.place(place));
        gathered.failed_stacks.push(place.map(|place| gathered.stacks.take_place(place)));
    }
    gathered.awaited = Some(recorded.awaited);
    gathered
}

fn of_trace(
    snapshot: &Snapshot,
    trace: &DeviceTrace<'_>,
    notes: &mut Vec<String>,
) -> (usize, History, Vec<Change>) {
    let history = History::of(trace);
    if 0 < history.initial_count {
        let why = match snapshot.device_overflows.get(trace.device()) {
            Some(Some(true)) => "The trace lost its beginning, because its ring was full",
            Some(Some(false)) => "The trace was started late",
            Some(None) | None => "The trace lost its beginning or was started late",
        };
        notes.push(format!(
            "{why}: {} blocks were in use before its first entry, rebuilt from the segments at \
             its end.",
            history.initial_count
        ));
    }
    if 0 < history.unmatched_count {
        notes.push(format!(
            "{} entries free blocks that the trace does not know; they are left out.",
            history.unmatched_count
        ));
    }
    let changes = changes(trace, &history);
    (trace.device(), history, changes)
}

/// What the snapshot holds and no picture shows.
fn other_notes(snapshot: &Snapshot, notes: &mut Vec<String>) {
    for (name, count) in snapshot.unknown_actions.iter().take(UNKNOWN_ACTIONS_NOTED_MAX) {
        notes.push(format!(
            "Entries with the unknown action “{name}”, {count} of them, are left out."
        ));
    }
    let host = &snapshot.host_segments;
    if !host.is_empty() {
        let bytes = host.iter().fold(0_u64, |sum, segment| sum.saturating_add(segment.bytes));
        notes.push(format!(
            "{} of pinned host memory in {} segments are listed too; they are not shown.",
            bytes_text(bytes),
            host.len()
        ));
    }
}

/// Devices that something is known of, besides this one.
fn other_device_count(snapshot: &Snapshot, device: usize) -> usize {
    let traced = snapshot.device_traces.iter().enumerate().filter(|(_, trace)| !trace.is_empty());
    let mut others: HashSet<usize> = traced.map(|(number, _)| number).collect();
    others.extend(snapshot.segments.iter().map(|segment| segment.device));
    others.remove(&device);
    others.len()
}

/// A device without a trace has one moment: that of the snapshot.
fn of_segments(
    snapshot: &Snapshot,
    device: Option<usize>,
    error: ReadError,
    notes: &mut Vec<String>,
) -> Result<(usize, History, Vec<Change>), ReadError> {
    let has = |device: usize| snapshot.segments.iter().any(|segment| segment.device == device);
    let first = snapshot.segments.first().map(|segment: &Segment| segment.device);
    let Some(device) = device.or(first).filter(|device| has(*device)) else {
        return Err(error);
    };
    notes.push(
        "No trace was recorded, so there is one moment only: that of the snapshot. Call \
         torch.cuda.memory._record_memory_history() before the part that matters."
            .to_owned(),
    );
    let segments = snapshot.segments.iter().filter(|segment| segment.device == device);
    Ok((device, History::of_segments(segments), Vec::new()))
}

/// The changes of what is held, each with the moment after it.
fn changes(trace: &DeviceTrace<'_>, history: &History) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut index = 0;
    for (event, at) in history.events.iter().zip(1_usize..) {
        let Some(entry) = trace.entries().get(index) else { break };
        index += event.kind.entry_count();
        let Some(change) = entry.segment_change() else { continue };
        let Entry { address, bytes, stream, .. } = *entry;
        changes.push(Change {
            moment: moment(at),
            address,
            bytes,
            stream,
            pool: trace.pool_id(entry).unwrap_or((0, 0)),
            is_gain: change.is_gain,
            is_expandable: change.is_expandable,
        });
    }
    changes
}

/// The owner of each life, and the name of each owner.
fn owners(
    snapshot: &Snapshot,
    device: usize,
    history: &History,
    options: &Options<'_>,
) -> (Vec<usize>, Vec<String>) {
    let mut owners = Owners::new(snapshot, options.owner);
    let mut open = OpenAnnotations::new(snapshot, device);
    let found = history.lives.iter().map(|life| {
        // What was there before the trace belongs to no annotation that is known.
        let event = usize::try_from(life.from).ok().and_then(|from| from.checked_sub(1));
        let event = event.and_then(|event| history.events.get(event));
        let annotation = event.and_then(|event| open.at(event.time_us));
        owners.of(life.stack, life.requested_bytes, annotation).index()
    });
    let found = found.collect();
    (found, owners.names().to_vec())
}

/// Annotations as parts of the time, outermost first where they begin together.
fn annotations(snapshot: &Snapshot, device: usize, history: &History) -> Vec<Annotation> {
    let mut latest = i64::MIN;
    let times: Vec<i64> = history
        .events
        .iter()
        .map(|event| {
            latest = latest.max(event.time_us);
            latest
        })
        .collect();
    let at = |time_us: i64| moment(times.partition_point(|time| *time <= time_us));
    let mut sorted: Vec<_> = snapshot
        .annotations
        .iter()
        .filter(|it| it.device.is_none_or(|its| its == device))
        .collect();
    sorted.sort_by_key(|it| it.time_us);
    let mut list: Vec<Annotation> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for annotation in sorted {
        let name = snapshot.texts.get(annotation.name);
        match annotation.stage {
            Stage::Start => {
                let (from, depth) = (at(annotation.time_us), open.len());
                if OPEN_ANNOTATIONS_MAX <= depth {
                    continue;
                }
                open.push(list.len());
                list.push(Annotation { name: name.to_owned(), from, to: NEVER, depth });
            }
            Stage::End => {
                let named = |number: &usize| list.get(*number).is_some_and(|it| it.name == name);
                if let Some(place) = open.iter().rposition(named)
                    && let Some(ended) = list.get_mut(open.remove(place))
                {
                    ended.to = at(annotation.time_us);
                }
            }
            Stage::Other => {}
        }
    }
    list.retain(|it| it.from < it.to);
    list
}
