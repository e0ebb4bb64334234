//! The report as a table for people.

use std::fmt::Write as _;

use trace::amount::{count_text, counted};

use super::Report;
use crate::percent::percent;

const MIB: u64 = 1 << 20;
/// Stands for a figure that the file does not tell.
const NOT_RECORDED: &str = "not recorded";

/// The whole table. Writing to a string cannot fail.
pub(super) fn table(report: &Report) -> String {
    let mut text = String::new();
    let _ = write_table(&mut text, report);
    text
}

fn write_table(out: &mut String, report: &Report) -> std::fmt::Result {
    let details = &report.details;
    let recorded = &details.recorded;
    writeln!(
        out,
        "{}: {} entries, {} operations, {}, {} deferred",
        report.trace,
        count_text(report.events),
        count_text(report.operations),
        counted(report.streams, "stream"),
        counted(report.deferred_frees, "free"),
    )?;
    writeln!(out, "on {}, source {}, policy {}", report.device, report.source, report.policy)?;
    if 0 < recorded.initial_block_count {
        writeln!(
            out,
            "the trace lost its beginning: {} blocks were rebuilt from its final segments",
            count_text(super::wide(recorded.initial_block_count))
        )?;
    }
    if 0 < recorded.out_of_memory_count {
        writeln!(
            out,
            "{} failed for lack of memory when it was recorded, and did not become blocks",
            counted(super::wide(recorded.out_of_memory_count), "request")
        )?;
    }
    writeln!(out)?;
    write_memory(out, report)?;
    writeln!(out)?;
    write_work(out, report)
}

fn write_memory(out: &mut String, report: &Report) -> std::fmt::Result {
    let recorded = &report.details.recorded;
    let mut row = |name: &str, theirs: String, ours: String, note: String| {
        let line = format!("{name:<18}{theirs:>14}{ours:>14}   {note}");
        writeln!(out, "{}", line.trim_end())
    };
    let theirs = if recorded.recorder.is_pytorch() { "PyTorch" } else { "recorded" };
    row("", theirs.into(), "Wellspring".into(), String::new())?;
    // A trace that was not served as a whole shows nothing of what it needs.
    let comparison = match report.out_of_memory {
        0 => recorded
            .peak_reserved_bytes
            .map_or_else(String::new, |bytes| saving(bytes, report.peak_reserved_bytes)),
        refused => format!("{} not served", counted(refused, "request")),
    };
    row(
        "reserved peak",
        recorded.peak_reserved_bytes.map_or_else(|| NOT_RECORDED.into(), mib),
        mib(report.peak_reserved_bytes),
        comparison,
    )?;
    row("page floor", mib(recorded.page_floor_bytes), String::new(), String::new())?;
    let levels = [
        ("allocated peak", recorded.peak_allocated_bytes, report.peak_allocated_bytes),
        ("active peak", recorded.peak_active_bytes, report.peak_active_bytes),
        ("pending peak", recorded.peak_pending_bytes, report.peak_pending_bytes),
    ];
    for (name, theirs, ours) in levels {
        row(name, mib(theirs), mib(ours), String::new())?;
    }
    row(
        "utilization",
        recorded.peak_reserved_bytes.map_or_else(
            || NOT_RECORDED.into(),
            |bytes| percent(super::ratio(recorded.peak_allocated_bytes, bytes)),
        ),
        percent(report.utilization),
        String::new(),
    )?;
    if 0 < report.details.tried_capacities {
        let (ours, note) = match report.smallest_capacity_bytes {
            Some(bytes) => (mib(bytes), format!("{} tried", report.details.tried_capacities)),
            None => ("none".into(), "the largest did not serve it either".into()),
        };
        row("smallest capacity", String::new(), ours, note)?;
    }
    Ok(())
}

fn write_work(out: &mut String, report: &Report) -> std::fmt::Result {
    let details = &report.details;
    writeln!(out, "segments          {:>14}", count_text(report.segments))?;
    writeln!(out, "driver calls      {:>14}", count_text(report.driver_calls))?;
    writeln!(out, "ns per operation  {:>14.0}", report.ns_per_operation)?;
    writeln!(out, "requests served by")?;
    for served in &details.served {
        writeln!(out, "  {:<16}{:>14}", served.by, count_text(served.count))?;
    }
    if 0 < report.out_of_memory {
        writeln!(out, "out of memory     {:>14}", count_text(report.out_of_memory))?;
    }
    if 0 < details.prolonged_count {
        writeln!(
            out,
            "{} of other streams lasted longer than recorded",
            counted(super::wide(details.prolonged_count), "use")
        )?;
    }
    if details.is_verified {
        writeln!(
            out,
            "verified: {} checked, {} wrong, {} of live blocks",
            counted(report.stamps_checked, "stamp"),
            count_text(report.stamp_errors - details.overlap_count),
            counted(details.overlap_count, "overlap"),
        )?;
    }
    Ok(())
}

/// Mebibytes, to the nearest.
fn mib(bytes: u64) -> String {
    format!("{} MiB", count_text(bytes.saturating_add(MIB / 2) / MIB))
}

fn saving(recorded: u64, needed: u64) -> String {
    if recorded == 0 {
        return String::new();
    }
    if needed <= recorded {
        format!("{} less", percent(super::ratio(recorded - needed, recorded)))
    } else {
        format!("{} more", percent(super::ratio(needed - recorded, recorded)))
    }
}

#[cfg(test)]
mod tests {
    use super::{mib, saving};

    #[test]
    fn mebibytes_are_rounded_to_the_nearest() {
        for (bytes, text) in [(0, "0 MiB"), (524_288, "1 MiB"), (524_287, "0 MiB")] {
            assert_eq!(mib(bytes), text);
        }
        assert_eq!(mib(20_618 << 20), "20,618 MiB");
    }

    #[test]
    fn a_saving_is_told_both_ways() {
        assert_eq!(saving(200, 100), "50.0 % less");
        assert_eq!(saving(100, 150), "50.0 % more");
        assert_eq!(saving(0, 100), "");
    }
}
