//! The summary as it is printed, for people.

use std::fmt::Write as _;

use super::{Failed, Held, Pool, Segments, Told};
use crate::output::printable;
use crate::trace_file::{bytes_text, count_text, time_text};

/// The call that turns recording on.
const RECORDING_CALL: &str = "torch.cuda.memory._record_memory_history()";
/// How many failed requests are printed, the latest ones.
const FAILED_SHOWN_MAX: usize = 3;

impl Told {
    pub(super) fn to_text(&self, top: usize) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_head(&mut text);
        let _ = self.write_failed(&mut text);
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

    fn write_failed(&self, out: &mut String) -> std::fmt::Result {
        let shown = self.out_of_memory.len().saturating_sub(FAILED_SHOWN_MAX);
        for failed in self.out_of_memory.get(shown..).unwrap_or_default() {
            let Failed { entry, bytes, stream, .. } = failed;
            let who = failed.owner.as_ref().map(|it| format!(" by {}", printable(it)));
            let who = who.unwrap_or_default();
            let asked = bytes_text(*bytes);
            writeln!(
                out,
                "out of memory at entry {entry}: {asked} were asked for on stream {stream}{who}"
            )?;
            writeln!(out, "  with {}", held_then(failed))?;
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

/// What was held when a request failed, and whether a limit refused it rather than the device.
fn held_then(failed: &Failed) -> String {
    let used_bytes = failed.allocated_bytes.saturating_add(failed.pending_bytes);
    let (allocated, pending) = (bytes_text(failed.allocated_bytes), failed.pending_bytes);
    let mut text = match failed.reserved_bytes {
        Some(reserved) => {
            let free = bytes_text(reserved.saturating_sub(used_bytes));
            format!(
                "{} reserved: {allocated} allocated, {free} free in pieces",
                bytes_text(reserved)
            )
        }
        None => format!("{allocated} allocated"),
    };
    if 0 < pending {
        let _ = write!(text, ", {} pending", bytes_text(pending));
    }
    if let Some(free) = failed.device_free_bytes {
        let _ = write!(text, "; the device had {} free", bytes_text(free));
        if failed.bytes.saturating_mul(2) < free {
            text.push_str(", so a limit set for the process was likely reached");
        }
    }
    text
}
