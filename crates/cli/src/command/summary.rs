//! `summary`: what is in a file, on one screen.

use std::fmt::Write as _;

use serde::Serialize;
use trace::convert::snapshot_of;
use trace::pytorch::Snapshot;
use trace::stream_trace::{Item, Recording};
use trace::{
    ActionCounts, AnyTrace, Digest, FileKind, Holder, Moment, Pattern, SegmentSum, Summary,
};

use crate::arguments::SummaryArguments;
use crate::ending::{Ending, Failure};
use crate::output::{self, printable};
use crate::progress::Bars;
use crate::trace_file::{
    bytes_text, count_text, device_of, owner_pattern, read_kind, shown, time_text,
};

/// Raised when a field changes its meaning.
const SCHEMA: u32 = 1;
/// The call that turns recording on.
const RECORDING_CALL: &str = "torch.cuda.memory._record_memory_history()";

/// Sums up a file as told.
pub(crate) fn run(arguments: &SummaryArguments) -> crate::Outcome {
    let owner = owner_pattern(arguments.holders.owner.as_deref())?;
    let bars = Bars::new(arguments.holders.quiet);
    let (kind, read) = read_kind(&arguments.file, bars)?;
    let _bar = bars.phase("counting");
    let matches = |frame: &str| owner.as_ref().is_some_and(|owner| owner.is_match(frame));
    let pattern: Option<Pattern<'_>> = owner.is_some().then_some(&matches);
    let told = match &read {
        AnyTrace::Snapshot(snapshot) => {
            check_device(snapshot, arguments)?;
            let told = Told::of_snapshot(snapshot, arguments, pattern);
            if kind == FileKind::RmmLog { Told { kind: "log of RMM", ..told } } else { told }
        }
        AnyTrace::Recording(recording) => Told::of_recording(recording, arguments, pattern),
    };
    let text = if arguments.holders.json {
        serde_json::to_string(&told).map_err(Failure::faulty)? + "\n"
    } else {
        told.to_text(arguments.holders.top)
    };
    output::result(&text)?;
    Ok(Ending::Done)
}

/// A device that is asked for must be in the file, with a trace or with segments.
fn check_device(snapshot: &Snapshot, arguments: &SummaryArguments) -> Result<(), Failure> {
    let Some(device) = arguments.holders.trace_device else { return Ok(()) };
    let held = snapshot.segments.iter().any(|segment| segment.device == device);
    if held || snapshot.trace(Some(device)).is_ok() {
        return Ok(());
    }
    let file = shown(&arguments.file);
    Err(Failure::bad_input(format_args!(
        "{file} has neither a trace nor segments of device {device}"
    )))
}

/// Everything that is told.
#[derive(Debug, Serialize)]
struct Told {
    schema: u32,
    trace: String,
    kind: &'static str,
    device: usize,
    /// Devices that have a trace or segments.
    devices: Vec<usize>,
    /// Nothing where there is no trace.
    recorded: Option<Recorded>,
    /// Nothing where the file does not show its end.
    segments: Option<Segments>,
    pools: Vec<Pool>,
    streams: Vec<String>,
    settings: Option<String>,
    annotations: Vec<Annotation>,
    unknown_actions: Vec<(String, usize)>,
    host: Option<Host>,
    /// `peak`, or `end` where there is no trace.
    holders_at: &'static str,
    holders_time_us: Option<i64>,
    by_owner: Vec<Held>,
    by_stream: Vec<Held>,
    by_size: Vec<Held>,
    /// Of a stream trace: how many entries there are of each kind.
    stream_entries: Vec<(&'static str, usize)>,
    /// Whether a stream trace has its end.
    complete: Option<bool>,
}

#[derive(Debug, Serialize)]
struct Recorded {
    entries: usize,
    duration_us: u64,
    actions: Vec<(&'static str, usize)>,
    peak_allocated_bytes: u64,
    peak_requested_bytes: u64,
    peak_active_bytes: u64,
    peak_pending_bytes: u64,
    /// Nothing where the file does not tell of segments.
    peak_reserved_bytes: Option<u64>,
    final_reserved_bytes: Option<u64>,
    page_floor_bytes: u64,
    deferred_frees: usize,
    lost_beginning: bool,
    /// What became of the beginning, in words.
    beginning: String,
    initial_blocks: usize,
}

#[derive(Debug, Serialize)]
struct Segments {
    count: usize,
    total_bytes: u64,
    allocated_bytes: u64,
    pending_bytes: u64,
    free_bytes: u64,
    largest_free_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Pool {
    pool: (u64, u64),
    segments: Segments,
}

#[derive(Debug, Serialize)]
struct Annotation {
    name: String,
    count: usize,
}

#[derive(Debug, Serialize)]
struct Host {
    segments: usize,
    total_bytes: u64,
    allocated_bytes: u64,
    entries: usize,
}

#[derive(Debug, Serialize)]
struct Held {
    name: String,
    blocks: usize,
    allocated_bytes: u64,
    pending_bytes: u64,
}

impl From<&Holder> for Held {
    fn from(holder: &Holder) -> Self {
        Self {
            name: holder.name.clone(),
            blocks: holder.block_count,
            allocated_bytes: holder.allocated_bytes,
            pending_bytes: holder.pending_bytes,
        }
    }
}

impl From<&SegmentSum> for Segments {
    fn from(sum: &SegmentSum) -> Self {
        Self {
            count: sum.count,
            total_bytes: sum.total_bytes,
            allocated_bytes: sum.allocated_bytes,
            pending_bytes: sum.pending_bytes,
            free_bytes: sum.free_bytes,
            largest_free_bytes: sum.largest_free_bytes,
        }
    }
}

impl From<&Summary> for Recorded {
    fn from(summary: &Summary) -> Self {
        Self {
            entries: summary.entry_count,
            duration_us: summary.duration_us,
            actions: actions(&summary.counts),
            peak_allocated_bytes: summary.peaks.allocated_bytes,
            peak_requested_bytes: summary.peaks.allocated_requested_bytes,
            peak_active_bytes: summary.peaks.active_bytes,
            peak_pending_bytes: summary.peaks.pending_bytes,
            peak_reserved_bytes: summary.reserved_peak_bytes(),
            final_reserved_bytes: summary
                .is_reserved_recorded
                .then_some(summary.final_reserved_bytes),
            page_floor_bytes: summary.peaks.page_floor_bytes,
            deferred_frees: summary.deferred_free_count,
            lost_beginning: summary.lost_beginning,
            beginning: summary.beginning.to_string(),
            initial_blocks: summary.initial_block_count,
        }
    }
}

/// The kinds of entries that there are.
fn actions(counts: &ActionCounts) -> Vec<(&'static str, usize)> {
    let all = [
        ("alloc", counts.alloc),
        ("free", counts.free),
        ("free_requested", counts.free_requested),
        ("free_completed", counts.free_completed),
        ("segment_alloc", counts.segment_alloc),
        ("segment_free", counts.segment_free),
        ("segment_map", counts.segment_map),
        ("segment_unmap", counts.segment_unmap),
        ("snapshot", counts.snapshot),
        ("oom", counts.out_of_memory),
        ("annotate", counts.annotate),
        ("unknown", counts.other),
    ];
    all.into_iter().filter(|(_, count)| 0 < *count).collect()
}

impl Told {
    fn of_snapshot(
        snapshot: &Snapshot,
        arguments: &SummaryArguments,
        pattern: Option<Pattern<'_>>,
    ) -> Self {
        let device = device_of(snapshot, arguments.holders.trace_device);
        let digest = Digest::new(snapshot, device, pattern);
        let (holders_at, holders_time_us) = match digest.holders.moment {
            Moment::Peak { time_us } => ("peak", Some(time_us)),
            Moment::End => ("end", None),
        };
        let held = |holders: &[Holder]| holders.iter().map(Held::from).collect();
        let streams = digest.summary.as_ref().map(|summary| summary.streams.clone());
        let settings = snapshot.allocator_settings.as_ref();
        Self {
            schema: SCHEMA,
            trace: shown(&arguments.file),
            kind: "snapshot",
            device,
            devices: devices(snapshot),
            recorded: digest.summary.as_ref().map(Recorded::from),
            segments: digest.knows_end().then(|| Segments::from(&digest.segments)),
            pools: digest
                .pools
                .iter()
                .map(|it| Pool { pool: it.pool, segments: Segments::from(&it.segments) })
                .collect(),
            streams: streams.unwrap_or_default().iter().map(ToString::to_string).collect(),
            settings: settings.and_then(|settings| settings.configuration.clone()),
            annotations: annotations(snapshot, device),
            unknown_actions: snapshot.unknown_actions.clone(),
            host: host(snapshot),
            holders_at,
            holders_time_us,
            by_owner: held(&digest.holders.by_owner),
            by_stream: held(&digest.holders.by_stream),
            by_size: held(&digest.holders.by_size),
            stream_entries: Vec::new(),
            complete: None,
        }
    }

    fn of_recording(
        recording: &Recording,
        arguments: &SummaryArguments,
        pattern: Option<Pattern<'_>>,
    ) -> Self {
        let (snapshot, _) = snapshot_of(recording);
        Self {
            kind: "stream trace",
            settings: recording.setting("policy").map(|policy| format!("policy {policy}")),
            stream_entries: stream_entries(recording),
            complete: Some(recording.is_complete()),
            ..Self::of_snapshot(&snapshot, arguments, pattern)
        }
    }

    fn to_text(&self, top: usize) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_head(&mut text);
        let _ = self.write_memory(&mut text);
        let _ = self.write_rest(&mut text);
        for (what, held) in
            [("owner", &self.by_owner), ("stream", &self.by_stream), ("size", &self.by_size)]
        {
            let _ = self.write_holders(&mut text, what, held, top);
        }
        text
    }

    fn write_head(&self, out: &mut String) -> std::fmt::Result {
        let kind = if self.kind == "snapshot" { "PyTorch memory snapshot" } else { self.kind };
        writeln!(out, "{}: {kind}, device {}", self.trace, self.device)?;
        if 1 < self.devices.len() {
            let devices: Vec<String> = self.devices.iter().map(ToString::to_string).collect();
            writeln!(out, "devices: {} (--trace-device chooses)", devices.join(", "))?;
        }
        if self.complete == Some(false) {
            writeln!(out, "the trace was cut: its program ended without ending it")?;
        }
        let Some(recorded) = &self.recorded else {
            if self.kind != "snapshot" {
                return writeln!(out, "no entries: its program asked for no device memory");
            }
            writeln!(out, "no trace recorded: only what was held at the end is known")?;
            return writeln!(out, "call {RECORDING_CALL} before the work to record");
        };
        let counts: Vec<String> = recorded
            .actions
            .iter()
            .map(|(it, count)| format!("{it} {}", count_text(*count)))
            .collect();
        let time = time_text(recorded.duration_us);
        let entries = count_text(recorded.entries);
        writeln!(out, "{entries} entries in {time}: {}", counts.join(", "))?;
        if !self.stream_entries.is_empty() {
            let counted: Vec<String> = self
                .stream_entries
                .iter()
                .map(|(it, count)| format!("{it} {}", count_text(*count)))
                .collect();
            writeln!(out, "of streams: {}", counted.join(", "))?;
        }
        if recorded.lost_beginning {
            let blocks = count_text(recorded.initial_blocks);
            let how = &recorded.beginning;
            writeln!(out, "the trace lost its beginning: {blocks} blocks were there before it")?;
            writeln!(out, "  ({how})")?;
        }
        for (name, count) in &self.unknown_actions {
            writeln!(out, "unknown action {}: {}", printable(name), count_text(*count))?;
        }
        Ok(())
    }

    fn write_memory(&self, out: &mut String) -> std::fmt::Result {
        if let Some(recorded) = &self.recorded {
            writeln!(out)?;
            for (name, bytes) in [
                ("peak reserved", recorded.peak_reserved_bytes),
                ("peak active", Some(recorded.peak_active_bytes)),
                ("peak allocated", Some(recorded.peak_allocated_bytes)),
                ("  as requested", Some(recorded.peak_requested_bytes)),
                ("peak pending", Some(recorded.peak_pending_bytes)),
                ("page floor", Some(recorded.page_floor_bytes)),
            ] {
                let told = bytes.map_or_else(|| "not recorded".to_owned(), bytes_text);
                writeln!(out, "{name:<16}{told:>14}")?;
            }
        }
        writeln!(out)?;
        let sum = |sum: &Segments| {
            format!(
                "{} segments, {}: allocated {}, pending {}, free {} (largest {})",
                count_text(sum.count),
                bytes_text(sum.total_bytes),
                bytes_text(sum.allocated_bytes),
                bytes_text(sum.pending_bytes),
                bytes_text(sum.free_bytes),
                bytes_text(sum.largest_free_bytes),
            )
        };
        match &self.segments {
            Some(segments) => writeln!(out, "at the end: {}", sum(segments))?,
            None => writeln!(out, "at the end: not in the file, which has no segments")?,
        }
        if 1 < self.pools.len() {
            for Pool { pool: (first, second), segments } in &self.pools {
                writeln!(out, "  pool ({first}, {second}): {}", sum(segments))?;
            }
        }
        Ok(())
    }

    fn write_rest(&self, out: &mut String) -> std::fmt::Result {
        if !self.streams.is_empty() {
            let plural = if self.streams.len() == 1 { "" } else { "s" };
            let (count, listed) = (self.streams.len(), self.streams.join(", "));
            writeln!(out, "{count} stream{plural}: {listed}")?;
        }
        if let Some(recorded) = &self.recorded
            && 0 < recorded.deferred_frees
        {
            let count = count_text(recorded.deferred_frees);
            writeln!(out, "{count} frees waited for other streams")?;
        }
        if let Some(settings) = &self.settings
            && !settings.is_empty()
        {
            writeln!(out, "settings: {}", printable(settings))?;
        }
        if !self.annotations.is_empty() {
            let named: Vec<String> = self
                .annotations
                .iter()
                .map(|it| format!("{} ({})", printable(&it.name), count_text(it.count)))
                .collect();
            writeln!(out, "annotations: {}", named.join(", "))?;
        }
        if let Some(host) = &self.host {
            writeln!(
                out,
                "pinned host memory: {} segments, {}, allocated {}; {} entries",
                count_text(host.segments),
                bytes_text(host.total_bytes),
                bytes_text(host.allocated_bytes),
                count_text(host.entries),
            )?;
        }
        Ok(())
    }

    fn write_holders(
        &self,
        out: &mut String,
        what: &str,
        held: &[Held],
        top: usize,
    ) -> std::fmt::Result {
        if held.is_empty() || top == 0 {
            return Ok(());
        }
        let when = if self.holders_at == "peak" { "at the peak" } else { "at the end" };
        writeln!(out, "\nheld {when}, by {what}:")?;
        for holder in held.iter().take(top) {
            let bytes = bytes_text(holder.allocated_bytes + holder.pending_bytes);
            let pending = match holder.pending_bytes {
                0 => String::new(),
                pending => format!(" ({} of it pending)", bytes_text(pending)),
            };
            let (blocks, name) = (count_text(holder.blocks), printable(&holder.name));
            let word = if holder.blocks == 1 { "block " } else { "blocks" };
            writeln!(out, "{bytes:>14}  {blocks:>9} {word}  {name}{pending}")?;
        }
        let rest = held.get(top..).unwrap_or_default();
        if !rest.is_empty() {
            let bytes: u64 = rest.iter().map(|it| it.allocated_bytes + it.pending_bytes).sum();
            let count = count_text(rest.len());
            writeln!(out, "{:>14}  {count} others", bytes_text(bytes))?;
        }
        Ok(())
    }
}

fn devices(snapshot: &Snapshot) -> Vec<usize> {
    let traced = snapshot.device_traces.iter().enumerate();
    let traced = traced.filter(|(_, entries)| !entries.is_empty()).map(|(device, _)| device);
    let held = snapshot.segments.iter().map(|segment| segment.device);
    let devices: std::collections::BTreeSet<usize> = traced.chain(held).collect();
    devices.into_iter().collect()
}

/// Names of annotations, and how often each began, the most frequent first.
fn annotations(snapshot: &Snapshot, device: usize) -> Vec<Annotation> {
    let mut counts = std::collections::BTreeMap::new();
    for annotation in &snapshot.annotations {
        let is_here = annotation.device.is_none_or(|its| its == device);
        if is_here && annotation.stage != trace::pytorch::Stage::End {
            *counts.entry(snapshot.texts.get(annotation.name)).or_insert(0) += 1;
        }
    }
    let mut annotations: Vec<Annotation> = counts
        .into_iter()
        .map(|(name, count)| Annotation { name: name.to_owned(), count })
        .collect();
    annotations.sort_by_key(|annotation| std::cmp::Reverse(annotation.count));
    annotations
}

fn host(snapshot: &Snapshot) -> Option<Host> {
    let entries: usize = snapshot.host_traces.iter().map(Vec::len).sum();
    if snapshot.host_segments.is_empty() && entries == 0 {
        return None;
    }
    let sum = |bytes: &dyn Fn(&trace::pytorch::HostSegment) -> u64| {
        snapshot.host_segments.iter().map(bytes).fold(0, u64::saturating_add)
    };
    Some(Host {
        segments: snapshot.host_segments.len(),
        total_bytes: sum(&|segment| segment.bytes),
        allocated_bytes: sum(&|segment| segment.allocated_bytes.unwrap_or(0)),
        entries,
    })
}

/// How many entries a stream trace has of each kind that a snapshot lacks.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are counted as actions")]
fn stream_entries(recording: &Recording) -> Vec<(&'static str, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for entry in &recording.entries {
        let kind = match entry.item {
            Item::Operation(_) => "operations",
            Item::Record { .. } => "records",
            Item::Wait { .. } => "waits",
            Item::Synchronize { .. } => "synchronizations",
            Item::Use { .. } => "uses",
            Item::Hold { .. } => "holds",
            Item::Capture { .. } => "capture marks",
            _ => continue,
        };
        *counts.entry(kind).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}
