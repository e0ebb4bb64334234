//! `diff`: how two files differ: peaks, segments, settings, and who holds more.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use trace::compare::{HolderChange, holders};
use trace::convert::snapshot_of;
use trace::pytorch::Snapshot;
use trace::stream_trace::{Item, Recording};
use trace::{AnyTrace, Digest, Moment, Pattern, Summary};

use crate::arguments::DiffArguments;
use crate::ending::{Ending, Failure};
use crate::output::{self, printable};
use crate::progress::Bars;
use crate::trace_file::{
    bytes_text, count_text, device_of, input_name, owner_pattern, read, refuse_twice,
};

/// Raised when a field changes its meaning.
const SCHEMA: u32 = 1;

/// Compares two files as told.
pub(crate) fn run(arguments: &DiffArguments) -> crate::Outcome {
    refuse_twice([&arguments.before, &arguments.after].into_iter())?;
    let owner = owner_pattern(arguments.holders.owner.as_deref())?;
    let bars = Bars::new(arguments.holders.quiet);
    let matches = |frame: &str| owner.as_ref().is_some_and(|owner| owner.is_match(frame));
    let pattern: Option<Pattern<'_>> = owner.is_some().then_some(&matches);
    let before = Side::read(&arguments.before, arguments, pattern, bars)?;
    let after = Side::read(&arguments.after, arguments, pattern, bars)?;
    let told = Told::new(&before, &after);
    let text = if arguments.holders.json {
        serde_json::to_string(&told).map_err(Failure::faulty)? + "\n"
    } else {
        told.to_text(arguments.holders.top)
    };
    output::result(&text)?;
    Ok(Ending::Done)
}

/// One of the two files.
struct Side {
    name: String,
    digest: Digest,
    settings: BTreeMap<String, String>,
}

impl Side {
    fn read(
        file: &Path,
        arguments: &DiffArguments,
        pattern: Option<Pattern<'_>>,
        bars: Bars,
    ) -> Result<Self, Failure> {
        let read = read(file, bars)?;
        let _bar = bars.phase("counting");
        let name = input_name(file);
        let (snapshot, settings) = match read {
            AnyTrace::Snapshot(snapshot) => {
                let settings = settings_of(&snapshot);
                (snapshot, settings)
            }
            AnyTrace::Recording(recording) => {
                (snapshot_of(&recording).0, settings_of_recording(&recording))
            }
        };
        let device = device_of(&snapshot, arguments.holders.trace_device);
        let digest = Digest::new(&snapshot, device, pattern);
        if digest.summary.is_none() && digest.segments.count == 0 {
            return Err(Failure::bad_input(format_args!(
                "{name} has neither a trace nor segments of device {device}"
            )));
        }
        Ok(Self { name, digest, settings })
    }

    /// What is compared, by name; none where the file does not say.
    fn figures(&self) -> [(&'static str, Option<u64>); 12] {
        let summary = self.digest.summary.as_ref();
        let wide = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let segments = self.digest.knows_end().then_some(&self.digest.segments);
        [
            ("peak_reserved_bytes", summary.and_then(Summary::reserved_peak_bytes)),
            ("peak_active_bytes", summary.map(|it| it.peaks.active_bytes)),
            ("peak_allocated_bytes", summary.map(|it| it.peaks.allocated_bytes)),
            ("peak_pending_bytes", summary.map(|it| it.peaks.pending_bytes)),
            ("page_floor_bytes", summary.map(|it| it.peaks.page_floor_bytes)),
            ("reserved_bytes", segments.map(|it| it.total_bytes)),
            ("allocated_bytes", segments.map(|it| it.allocated_bytes)),
            ("free_bytes", segments.map(|it| it.free_bytes)),
            ("segments", segments.map(|it| wide(it.count))),
            ("allocations", summary.map(|it| wide(it.counts.alloc))),
            ("deferred_frees", summary.map(|it| wide(it.deferred_free_count))),
            ("out_of_memory", summary.map(|it| wide(it.counts.out_of_memory))),
        ]
    }

    fn holders_at(&self) -> &'static str {
        match self.digest.holders.moment {
            Moment::Peak { .. } => "peak",
            Moment::End => "end",
        }
    }
}

fn settings_of(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let Some(its) = &snapshot.allocator_settings else { return settings };
    let mut set = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            settings.insert(name.to_owned(), value);
        }
    };
    set("PYTORCH_CUDA_ALLOC_CONF", its.configuration.clone());
    set("max_split_size", its.max_split_bytes.map(|bytes| bytes.to_string()));
    let threshold = its.garbage_collection_threshold;
    set("garbage_collection_threshold", threshold.map(|it| it.to_string()));
    set("expandable_segments", its.expandable_segments.map(|it| it.to_string()));
    let divisions: Vec<String> =
        its.roundup_power2_divisions.iter().map(|(mib, steps)| format!("{mib}:{steps}")).collect();
    set("roundup_power2_divisions", (!divisions.is_empty()).then(|| divisions.join(",")));
    settings
}

fn settings_of_recording(recording: &Recording) -> BTreeMap<String, String> {
    let setting = |item: &Item| {
        let Item::Setting { name, value } = item else { return None };
        Some((name.clone(), value.clone()))
    };
    recording.entries.iter().filter_map(|entry| setting(&entry.item)).collect()
}

#[derive(Debug, Serialize)]
struct Told {
    schema: u32,
    before: String,
    after: String,
    figures: Vec<Figure>,
    settings: Vec<Setting>,
    /// When holders were looked at, before and after.
    holders_at: [&'static str; 2],
    by_owner: Vec<Change>,
    by_stream: Vec<Change>,
    by_size: Vec<Change>,
}

#[derive(Debug, Serialize)]
struct Figure {
    name: &'static str,
    before: Option<u64>,
    after: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Setting {
    name: String,
    before: Option<String>,
    after: Option<String>,
}

#[derive(Debug, Serialize)]
struct Change {
    name: String,
    before_bytes: u64,
    after_bytes: u64,
    before_blocks: usize,
    after_blocks: usize,
}

impl From<HolderChange> for Change {
    fn from(change: HolderChange) -> Self {
        Self {
            name: change.name,
            before_bytes: change.before_bytes,
            after_bytes: change.after_bytes,
            before_blocks: change.before_blocks,
            after_blocks: change.after_blocks,
        }
    }
}

impl Told {
    fn new(before: &Side, after: &Side) -> Self {
        let figures = before.figures().into_iter().zip(after.figures());
        let names: std::collections::BTreeSet<&String> =
            before.settings.keys().chain(after.settings.keys()).collect();
        let settings = names.into_iter().filter_map(|name| {
            let (one, other) = (before.settings.get(name), after.settings.get(name));
            (one != other).then(|| Setting {
                name: name.clone(),
                before: one.cloned(),
                after: other.cloned(),
            })
        });
        let (held, now_held) = (&before.digest.holders, &after.digest.holders);
        let changes = |changes: Vec<HolderChange>| changes.into_iter().map(Change::from).collect();
        Self {
            schema: SCHEMA,
            before: before.name.clone(),
            after: after.name.clone(),
            figures: figures
                .map(|((name, before), (_, after))| Figure { name, before, after })
                .collect(),
            settings: settings.collect(),
            holders_at: [before.holders_at(), after.holders_at()],
            by_owner: changes(holders(&held.by_owner, &now_held.by_owner)),
            by_stream: changes(holders(&held.by_stream, &now_held.by_stream)),
            by_size: changes(holders(&held.by_size, &now_held.by_size)),
        }
    }

    fn to_text(&self, top: usize) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_figures(&mut text);
        for (what, changes) in
            [("owner", &self.by_owner), ("stream", &self.by_stream), ("size", &self.by_size)]
        {
            let _ = self.write_changes(&mut text, what, changes, top);
        }
        text
    }

    fn write_figures(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "before: {}\nafter:  {}\n", self.before, self.after)?;
        for Figure { name, before, after } in &self.figures {
            let (label, is_bytes) = match name.strip_suffix("_bytes") {
                Some(label) => (label, true),
                None => (*name, false),
            };
            let cell = |value: Option<u64>| match value {
                Some(bytes) if is_bytes => bytes_text(bytes),
                Some(count) => count_text(count),
                None => "?".to_owned(),
            };
            let change = match (before, after) {
                (Some(before), Some(after)) => change_text(*before, *after, is_bytes),
                _ => String::new(),
            };
            let label = label.replace('_', " ");
            let line = format!("{label:<16}{:>14}{:>14}  {change}", cell(*before), cell(*after));
            writeln!(out, "{}", line.trim_end())?;
        }
        for Setting { name, before, after } in &self.settings {
            let told = |value: &Option<String>| {
                value.as_ref().map_or_else(|| "not set".to_owned(), |it| format!("`{it}`"))
            };
            let line = format!("setting {name}: {} -> {}", told(before), told(after));
            writeln!(out, "{}", printable(&line))?;
        }
        Ok(())
    }

    fn write_changes(
        &self,
        out: &mut String,
        what: &str,
        changes: &[Change],
        top: usize,
    ) -> std::fmt::Result {
        if changes.is_empty() || top == 0 {
            return Ok(());
        }
        let [before, after] = self.holders_at;
        let when =
            if before == after { before.to_owned() } else { format!("{before} and {after}") };
        writeln!(out, "\nheld at the {when}, by {what}:")?;
        // Those that changed most, in the order of growth.
        let mut most: Vec<&Change> = changes.iter().collect();
        most.sort_by_key(|it| std::cmp::Reverse(it.before_bytes.abs_diff(it.after_bytes)));
        most.truncate(top);
        let grown = |it: &Change| i128::from(it.after_bytes) - i128::from(it.before_bytes);
        most.sort_by_key(|it| std::cmp::Reverse(grown(it)));
        for change in &most {
            let text = change_text(change.before_bytes, change.after_bytes, true);
            let (before, after) = (bytes_text(change.before_bytes), bytes_text(change.after_bytes));
            let name = printable(&change.name);
            writeln!(out, "{text:>15}  {before:>14} -> {after:>14}  {name}")?;
        }
        let left = changes.len() - most.len();
        if 0 < left {
            writeln!(out, "{:>15}  {} others changed less", "", count_text(left))?;
        }
        Ok(())
    }
}

fn change_text(before: u64, after: u64, is_bytes: bool) -> String {
    let sign = match after.cmp(&before) {
        std::cmp::Ordering::Less => "-",
        std::cmp::Ordering::Equal => return "=".to_owned(),
        std::cmp::Ordering::Greater => "+",
    };
    let by = before.abs_diff(after);
    let by = if is_bytes { bytes_text(by) } else { count_text(by) };
    format!("{sign}{by}")
}
