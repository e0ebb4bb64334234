//! Advice as tables for people.

use std::fmt::Write as _;

use trace::amount::{bytes_text, counted};

use super::advice::{Advice, AtLag, GroupAdvice, LagUnit, Prediction, UseAdvice, Verdict};

/// All tables. Writing to a string cannot fail.
pub(super) fn tables(advice: &Advice) -> String {
    let mut text = String::new();
    let _ = write_all(&mut text, advice);
    text
}

fn write_all(out: &mut String, advice: &Advice) -> std::fmt::Result {
    writeln!(out, "{}", advice.trace)?;
    for note in &advice.notes {
        writeln!(out, "note: {note}")?;
    }
    write_runs(out, advice)?;
    for group in &advice.groups {
        writeln!(out)?;
        write_group(out, group)?;
    }
    if advice.kind == "stream_trace" && advice.groups.is_empty() {
        writeln!(out, "\nno block was freed after another stream had used it: nothing to advise")?;
    }
    write_gaps(out, advice)
}

fn write_runs(out: &mut String, advice: &Advice) -> std::fmt::Result {
    let Some(as_recorded) = &advice.as_recorded else { return Ok(()) };
    writeln!(out, "\n{:<28}{:>12}{:>14}", "", "time", "peak")?;
    if let Some(measured) = &advice.recorded {
        let time = measured.time_ns.map_or_else(|| "-".to_owned(), time);
        let peak = measured.peak_active_bytes.map_or_else(|| "-".to_owned(), bytes_text);
        writeln!(out, "{:<28}{time:>12}{peak:>14}", "as recorded, measured")?;
    }
    let mut row = |name: &str, predicted: &Prediction| {
        let (time, peak) = (time(predicted.time_ns), bytes_text(predicted.peak_bytes));
        writeln!(out, "{name:<28}{time:>12}{peak:>14}")
    };
    row("as recorded, on paper", as_recorded)?;
    advice.advised.as_ref().map_or(Ok(()), |advised| row("with all of the advice", advised))
}

fn write_group(out: &mut String, group: &GroupAdvice) -> std::fmt::Result {
    let at = |place: &Option<String>, none: &str| {
        place.as_ref().map_or_else(|| none.to_owned(), |place| format!("at {place}"))
    };
    writeln!(
        out,
        "{} of up to {} on stream {}, allocated {}, freed {}",
        counted(group.blocks, "block"),
        bytes_text(group.bytes_max),
        group.stream,
        at(&group.allocated_at, "somewhere"),
        at(&group.freed_at, "by a drop"),
    )?;
    writeln!(
        out,
        "  freed and in use: {}; idle behind the last use: {}; {} % of the peak",
        byte_ms(group.pending_byte_ms),
        byte_ms(group.held_byte_ms),
        group.peak_share_permille / 10,
    )?;
    group.uses.iter().try_for_each(|used| write_use(out, used))?;
    write_lags(out, group)?;
    match group.verdict {
        Verdict::Wait => write_calls(out, group),
        Verdict::Leave => {
            writeln!(out, "  leave it: no wait lowers the peak without making the run longer")
        }
        Verdict::NotTried => writeln!(out, "  not tried: others hold more"),
        Verdict::NoTimes => writeln!(out, "  not tried: no device times were recorded"),
    }
}

fn write_use(out: &mut String, used: &UseAdvice) -> std::fmt::Result {
    let announced_by = match used.announced_by.as_str() {
        "operation" => "the operation itself",
        call => call,
    };
    write!(out, "  used on stream {}, said by {announced_by}", used.stream)?;
    if let Some(at) = &used.announced_at {
        write!(out, " at {at}")?;
    }
    let name = used.last_operation.as_deref().unwrap_or("work");
    write!(out, "; last by {name}")?;
    if let Some(at) = &used.last_operation_at {
        write!(out, " at {at}")?;
    }
    writeln!(
        out,
        ", {} after the free; idle for {} after that",
        time(used.after_free_ns),
        time(used.held_ns)
    )
}

fn write_lags(out: &mut String, group: &GroupAdvice) -> std::fmt::Result {
    let Some(never) = &group.never else { return Ok(()) };
    writeln!(out, "    {:<24}{:>12}{:>14}{:>14}", "", "time", "peak", "stands still")?;
    let mut row = |mark: &str, name: &str, predicted: &Prediction| {
        writeln!(
            out,
            "  {mark} {name:<24}{:>12}{:>14}{:>14}",
            time(predicted.time_ns),
            bytes_text(predicted.peak_bytes),
            time(predicted.stalled_ns)
        )
    };
    row(" ", "no wait", never)?;
    for AtLag { lag, predicted } in &group.around {
        let mark = if group.lag == Some(*lag) { ">" } else { " " };
        row(mark, &lag_words(*lag, group.unit), predicted)?;
    }
    Ok(())
}

fn lag_words(lag: usize, unit: LagUnit) -> String {
    let unit = match unit {
        LagUnit::Allocations => "block",
        LagUnit::Operations => "operation",
    };
    match lag {
        0 => "wait at the free".to_owned(),
        _ => format!("wait {} later", counted(lag, unit)),
    }
}

fn write_calls(out: &mut String, group: &GroupAdvice) -> std::fmt::Result {
    let somewhere = "that operation";
    for used in &group.uses {
        let at = used.last_operation_at.as_deref().unwrap_or(somewhere);
        writeln!(out, "  after  {at}: {}", used.record_call)?;
    }
    let before = group.wait_before.as_deref().unwrap_or(somewhere);
    let later = match (group.lag.unwrap_or(0), group.unit) {
        (0, _) => String::new(),
        (lag, LagUnit::Allocations) => format!(", {} later", counted(lag, "block")),
        (lag, LagUnit::Operations) => format!(", {} later", counted(lag, "operation")),
    };
    for used in &group.uses {
        writeln!(out, "  before {before}{later}: {}", used.wait_call)?;
    }
    writeln!(out, "  and free the block there instead of at its place now")?;
    let users = group.uses.iter().map(|used| (used.stream, &used.stream_made_at));
    for (stream, made_at) in std::iter::once((group.stream, &group.stream_made_at)).chain(users) {
        if let Some(place) = made_at {
            writeln!(out, "  stream_{stream} is the stream made at {place}")?;
        }
    }
    Ok(())
}

fn write_gaps(out: &mut String, advice: &Advice) -> std::fmt::Result {
    if advice.gaps.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:<20}{:>8}{:>8}{:>12}{:>12}{:>14}{:>16}",
        "stream", "waited", "never", "mean gap", "longest", "at once", "bytes x time"
    )?;
    for gaps in &advice.gaps {
        writeln!(
            out,
            "{:<20}{:>8}{:>8}{:>12}{:>12}{:>14}{:>16}",
            gaps.stream,
            gaps.waited,
            gaps.never_completed,
            time(gaps.mean_us.saturating_mul(1000)),
            time(gaps.max_us.saturating_mul(1000)),
            bytes_text(gaps.peak_bytes),
            byte_ms(gaps.byte_ms)
        )?;
    }
    writeln!(out, "\n{:<20}{:>14}{:>12}  freed by entry", "held most", "bytes", "gap")?;
    for holder in &advice.holders {
        let gap = time(holder.gap_us.saturating_mul(1000));
        let never = if holder.completed { "" } else { ", never completed" };
        let (stream, event) = (&holder.stream, holder.event);
        writeln!(out, "{stream:<20}{:>14}{gap:>12}  {event}{never}", bytes_text(holder.bytes))?;
    }
    Ok(())
}

/// A time with three or more digits.
fn time(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => tenths(ns, 1_000, "us"),
        10_000_000..10_000_000_000 => tenths(ns, 1_000_000, "ms"),
        _ => tenths(ns, 1_000_000_000, "s"),
    }
}

/// Bytes times milliseconds, as GiB times milliseconds.
fn byte_ms(byte_ms: u64) -> String {
    hundredths(byte_ms, 1 << 30, "GiB ms")
}

fn tenths(value: u64, unit: u64, name: &str) -> String {
    let tenths = u128::from(value) * 10 / u128::from(unit);
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

fn hundredths(value: u64, unit: u64, name: &str) -> String {
    let hundredths = u128::from(value) * 100 / u128::from(unit);
    format!("{}.{:02} {name}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::{byte_ms, time};

    #[test]
    fn numbers_are_told_in_units_that_fit_them() {
        assert_eq!(time(9_999), "9999 ns");
        assert_eq!(time(635_432_100), "635.4 ms");
        assert_eq!(time(63_543_210_000), "63.5 s");
        assert_eq!(byte_ms(1 << 29), "0.50 GiB ms");
    }
}
