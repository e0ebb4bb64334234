//! The answer as text for people.

use std::fmt::Write as _;

use trace::amount::{bytes_text, count_text, counted};

use super::answer::WhatIf;
use super::case::Recorder;
use super::row::{Allocator, Row};
use crate::percent::percent;

/// The whole text. Writing to a string cannot fail.
pub(super) fn table(answer: &WhatIf) -> String {
    let mut text = String::new();
    let _ = write_all(&mut text, answer);
    text
}

fn write_all(out: &mut String, answer: &WhatIf) -> std::fmt::Result {
    writeln!(out, "{}", one_line(&answer.verdict))?;
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
        .map_or_else(String::new, |bytes| format!(", capacity {}", bytes_text(bytes)));
    writeln!(
        out,
        "{}: {} entries{}{}{capacity}",
        answer.trace,
        count_text(answer.events),
        one_line(&how_recorded(answer)),
        failed(answer),
    )?;
    writeln!(out)?;
    write_rows(out, answer)?;
    write_holders(out, answer)?;
    if let Some((tried, most)) = answer.searched {
        writeln!(out, "\nthe search tried {tried} lines of at most {most}")?;
    }
    for (index, note) in answer.notes.iter().enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        writeln!(out, "{gap}note: {}", one_line(note))?;
    }
    Ok(())
}

fn how_recorded(answer: &WhatIf) -> String {
    let reserved = answer.recorded_peak_reserved_bytes.map(bytes_text);
    match (answer.recorder, &answer.recorded_setting, reserved) {
        (Recorder::RmmLog, _, _) => " of a log of RMM".to_owned(),
        (_, Some(setting), Some(reserved)) => {
            format!(", recorded under {setting} with {reserved} reserved")
        }
        (_, Some(setting), None) => {
            format!(", recorded under {setting}; what was reserved is not recorded")
        }
        (_, None, Some(reserved)) => {
            format!(" of a stream trace, with {reserved} reserved when recorded")
        }
        (_, None, None) => " of a stream trace".to_owned(),
    }
}

fn failed(answer: &WhatIf) -> String {
    match answer.recorded_out_of_memory {
        0 => String::new(),
        count => format!(", {} failed for lack of memory", counted(count, "request")),
    }
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
            &bytes_text(row.peak_reserved_bytes),
            &percent(row.utilization),
            &count_text(row.segments),
            &count_text(row.retries),
            &fits,
            &format!("{} ms", count_text(row.milliseconds)),
        ])?;
    }
    let floor = bytes_text(answer.page_floor_bytes);
    line(["floor", "whole pages of 2 MiB", &floor, "", "", "", "", ""])?;
    let live = bytes_text(answer.live_peak_bytes);
    line(["bound", "live bytes", &live, "", "", "", "", ""])
}

fn shown(row: &Row) -> String {
    let mark = if row.is_recorded { " (recorded)" } else { "" };
    format!("{}{mark}", one_line(&row.setting))
}

fn write_holders(out: &mut String, answer: &WhatIf) -> std::fmt::Result {
    if answer.holders.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nheld at the live peak")?;
    for holder in &answer.holders {
        let blocks = counted(holder.blocks, "block");
        writeln!(
            out,
            "{:>12}  {blocks:>14}  {}",
            bytes_text(holder.bytes),
            one_line(&holder.owner)
        )?;
    }
    Ok(())
}

/// The text without line breaks. Names in a trace are anybody's: none may begin a line of its own,
/// least of all one that looks like the verdict or the line to paste.
fn one_line(text: &str) -> String {
    let breaks = |letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        if breaks(letter) {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    line
}
