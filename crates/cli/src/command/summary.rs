//! `summary`: what is in a file, on one screen.

mod text;

use serde::Serialize;
use trace::convert::snapshot_of;
use trace::pytorch::Snapshot;
use trace::stream_trace::{Item, Recording};
use trace::{
    ActionCounts, AnyTrace, Digest, FailedRequest, FileKind, Holder, Moment, Origin, Pattern,
    SegmentSum, Summary,
};

use crate::arguments::SummaryArguments;
use crate::ending::{Ending, Failure};
use crate::output;
use crate::progress::Bars;
use crate::trace_file::{device_of, input_name, owner_pattern, read_kind};

/// Raised when a field changes its meaning.
const SCHEMA: u32 = 1;

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
            Told { kind: kind_of(kind, snapshot.origin), ..told }
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

/// What a file is that is no stream trace.
const fn kind_of(kind: FileKind, origin: Origin) -> &'static str {
    match (origin, kind) {
        (Origin::Pytorch | Origin::PytorchEntries, _) => "snapshot",
        (Origin::RmmLog, FileKind::RmmLog) => "log of RMM",
        (Origin::RmmLog, FileKind::Pickle) => "snapshot made of a log of RMM",
        (Origin::RmmLog, _) => "entries of a log of RMM",
        (Origin::StreamTrace, FileKind::Pickle) => "snapshot made of a stream trace",
        (Origin::StreamTrace, _) => "entries of a snapshot made of a stream trace",
    }
}

/// A device that is asked for must be in the file, with a trace or with segments.
fn check_device(snapshot: &Snapshot, arguments: &SummaryArguments) -> Result<(), Failure> {
    let Some(device) = arguments.holders.trace_device else { return Ok(()) };
    let held = snapshot.segments.iter().any(|segment| segment.device == device);
    if held || snapshot.trace(Some(device)).is_ok() {
        return Ok(());
    }
    let file = input_name(&arguments.file);
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
    /// The latest requests that failed for lack of memory.
    out_of_memory: Vec<Failed>,
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
struct Failed {
    entry: usize,
    bytes: u64,
    stream: String,
    owner: Option<String>,
    allocated_bytes: u64,
    pending_bytes: u64,
    reserved_bytes: Option<u64>,
    device_free_bytes: Option<u64>,
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

impl From<&FailedRequest> for Failed {
    fn from(request: &FailedRequest) -> Self {
        Self {
            entry: request.entry,
            bytes: request.bytes,
            stream: request.stream.to_string(),
            owner: request.owner.clone(),
            allocated_bytes: request.allocated_bytes,
            pending_bytes: request.pending_bytes,
            reserved_bytes: request.reserved_bytes,
            device_free_bytes: request.device_free_bytes,
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
            trace: input_name(&arguments.file),
            kind: "snapshot",
            device,
            devices: devices(snapshot),
            recorded: digest.summary.as_ref().map(Recorded::from),
            out_of_memory: digest.failed.iter().map(Failed::from).collect(),
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
