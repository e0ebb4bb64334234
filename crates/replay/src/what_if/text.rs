//! The answer as text for people.

use std::fmt::Write as _;

use super::answer::WhatIf;
use super::row::{Allocator, Row};

/// The whole text. Writing to a string cannot fail.
pub(super) fn table(answer: &WhatIf) -> String {
    let mut text = String::new();
    let _ = write_all(&mut text, answer);
    text
}

fn write_all(out: &mut String, answer: &WhatIf) -> std::fmt::Result {
    writeln!(out, "{}", answer.verdict)?;
    match &answer.paste {
        Some(line) => writeln!(out, "{line}")?,
        None if answer.best().is_some_and(|row| row.fits) => {
            writeln!(out, "leave PYTORCH_CUDA_ALLOC_CONF unset: the default is best here")?;
        }
        None => {}
    }
    writeln!(out)?;
    let capacity = answer
        .capacity_bytes
        .map_or_else(String::new, |bytes| format!(", capacity {}", size(bytes)));
    writeln!(
        out,
        "{}: {} entries, recorded under {} with {} reserved{capacity}",
        answer.trace,
        grouped(answer.events),
        answer.recorded_setting,
        size(answer.recorded_peak_reserved_bytes),
    )?;
    writeln!(out)?;
    write_rows(out, answer)?;
    write_holders(out, answer)?;
    if let Some((tried, most)) = answer.searched {
        writeln!(out, "\nthe search tried {tried} lines of at most {most}")?;
    }
    for (index, note) in answer.notes.iter().enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        writeln!(out, "{gap}note: {note}")?;
    }
    Ok(())
}

fn write_rows(out: &mut String, answer: &WhatIf) -> std::fmt::Result {
    let widest = answer.rows.iter().map(|row| shown(row).chars().count()).max().unwrap_or(0);
    let width = widest.max("whole pages of 2 MiB".len());
    let mut line = |cells: [&str; 8]| {
        let [model, setting, reserved, used, segments, retries, fits, time] = cells;
        let line = format!(
            "{model:<10}  {setting:<width$}  {reserved:>13}  {used:>11}  {segments:>8}  \
             {retries:>7}  {fits:<12}  {time:>9}"
        );
        writeln!(out, "{}", line.trim_end())
    };
    let head = ["model", "setting", "reserved peak", "utilization", "segments", "retries", "fits"];
    let [a, b, c, d, e, f, g] = head;
    line([a, b, c, d, e, f, g, "time"])?;
    for row in &answer.rows {
        let model = match row.model {
            Allocator::Pytorch => "pytorch",
            Allocator::Wellspring => "wellspring",
        };
        let fits = row.out_of_memory_event.map_or_else(
            || if row.fits { "yes".to_owned() } else { "no".to_owned() },
            |event| format!("no, at {event}"),
        );
        line([
            model,
            &shown(row),
            &size(row.peak_reserved_bytes),
            &percent(row.utilization),
            &grouped(row.segments),
            &grouped(row.retries),
            &fits,
            &format!("{} ms", grouped(row.milliseconds)),
        ])?;
    }
    let floor = size(answer.page_floor_bytes);
    line(["floor", "whole pages of 2 MiB", &floor, "", "", "", "", ""])?;
    let live = size(answer.live_peak_bytes);
    line(["bound", "live bytes", &live, "", "", "", "", ""])
}

fn shown(row: &Row) -> String {
    let mark = if row.is_recorded { " (recorded)" } else { "" };
    format!("{}{mark}", row.setting)
}

fn write_holders(out: &mut String, answer: &WhatIf) -> std::fmt::Result {
    if answer.holders.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nheld at the live peak")?;
    for holder in &answer.holders {
        let blocks = counted(usize::try_from(holder.blocks).unwrap_or(usize::MAX), "block");
        writeln!(out, "{:>12}  {blocks:>14}  {}", size(holder.bytes), holder.owner)?;
    }
    Ok(())
}

/// A count with the name of what is counted.
pub(super) fn counted(count: usize, name: &str) -> String {
    let number = grouped(u64::try_from(count).unwrap_or(u64::MAX));
    let ending = if count == 1 { "" } else { "s" };
    format!("{number} {name}{ending}")
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if 0 < index && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in a unit that fits them.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in UNITS {
        if unit <= bytes {
            let hundredths = u128::from(bytes) * 100 / u128::from(unit);
            return format!("{}.{:02} {name}", hundredths / 100, hundredths % 100);
        }
    }
    format!("{bytes} B")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::{counted, grouped, size};

    #[test]
    fn numbers_are_told_in_units_that_fit_them() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(counted(1, "free"), "1 free");
        assert_eq!(size(512), "512 B");
        assert_eq!(size(1536), "1.50 KiB");
        assert_eq!(size(3 << 29), "1.50 GiB");
        assert_eq!(size((1 << 40) - 1), "1023.99 GiB");
    }
}
