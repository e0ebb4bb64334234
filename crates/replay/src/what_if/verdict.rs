//! What the rows come to, in one sentence, and the line to set.

use trace::amount::{bytes_text, counted};

use super::answer::WhatIf;
use super::row::{Allocator, Row};

/// How many holders a sentence names.
const NAMED_MAX: usize = 3;

/// The sentence.
pub(super) fn verdict(answer: &WhatIf) -> String {
    match answer.capacity_bytes {
        None => without_capacity(answer),
        Some(capacity) if capacity < answer.live_peak_bytes => format!(
            "nothing fits: live bytes alone need {}, more than {}, so no setting helps; {}",
            bytes_text(answer.live_peak_bytes),
            bytes_text(capacity),
            held_by(answer)
        ),
        Some(capacity) => within(answer, capacity),
    }
}

fn without_capacity(answer: &WhatIf) -> String {
    let Some(best) = answer.best() else { return "fits: no setting was tried".to_owned() };
    let baseline = answer.baseline().filter(|row| row.setting != best.setting);
    let recorded = match baseline {
        Some(row) => {
            let reserved = bytes_text(row.peak_reserved_bytes);
            format!(", where {} reserves {reserved}", called(row))
        }
        None if best.is_recorded => ", as recorded".to_owned(),
        None => String::new(),
    };
    format!(
        "fits: without --capacity nothing runs out{}; {} reserves least, {}{recorded}",
        ran_out(answer),
        best.setting,
        bytes_text(best.peak_reserved_bytes)
    )
}

/// What became of the run itself, if it ran out: no row shows that where there is no limit.
fn ran_out(answer: &WhatIf) -> String {
    let count = answer.recorded_out_of_memory;
    match (count, answer.recorded_limit_bytes, answer.recorded_peak_reserved_bytes) {
        (0, _, _) => String::new(),
        (_, Some(limit), Some(reserved)) => format!(
            ", but the recorded run did, with {} reserved: ask with --capacity {}MiB what \
             would have fitted; the rows below go on beyond that",
            bytes_text(reserved),
            limit >> 20
        ),
        _ => format!(", but {} failed in the recorded run", counted(count, "request")),
    }
}

fn within(answer: &WhatIf, capacity: u64) -> String {
    let capacity = bytes_text(capacity);
    let best = answer.best();
    let baseline = answer.baseline();
    if let Some(row) = baseline.filter(|row| row.fits) {
        let better = best.filter(|best| best.setting != row.setting);
        let better = better.map_or_else(String::new, |best| {
            format!(
                "; {} reserves {}{}",
                best.setting,
                bytes_text(best.peak_reserved_bytes),
                retries(best)
            )
        });
        return format!(
            "fits: {} gets through {capacity} and reserves {}{}{better}",
            if row.is_recorded {
                format!("the recorded setting, {},", row.setting)
            } else {
                row.setting.clone()
            },
            bytes_text(row.peak_reserved_bytes),
            retries(row)
        );
    }
    if let Some(best) = best.filter(|row| row.fits) {
        let recorded = baseline.map_or_else(String::new, |row| {
            let entry = row.out_of_memory_event.unwrap_or(0);
            format!(", where {} runs out at entry {entry}", called(row))
        });
        return format!(
            "a setting fits: {} gets through {capacity} and reserves {}{}{recorded}",
            best.setting,
            bytes_text(best.peak_reserved_bytes),
            retries(best)
        );
    }
    let tried = answer.rows.iter().filter(|row| row.model == Allocator::Pytorch).count();
    let ours = answer.rows.iter().find(|row| row.model == Allocator::Wellspring && row.fits);
    let ours = ours.map_or_else(String::new, |row| format!("; Wellspring ({}) does", row.setting));
    let more = if answer.searched.is_none() { "; --search tries combinations" } else { "" };
    format!(
        "nothing fits: none of {} gets through {capacity}, though live bytes need \
         {}{ours}{more}; {}",
        counted(tried, "setting"),
        bytes_text(answer.live_peak_bytes),
        held_by(answer)
    )
}

fn called(row: &Row) -> String {
    let recorded = if row.is_recorded { "the recorded " } else { "" };
    format!("{recorded}{}", row.setting)
}

fn retries(row: &Row) -> String {
    match usize::try_from(row.retries) {
        Ok(0) => String::new(),
        Ok(1) => ", after giving everything back once".to_owned(),
        Ok(_) | Err(_) => format!(", after giving everything back {} times", row.retries),
    }
}

fn held_by(answer: &WhatIf) -> String {
    let named = answer.holders.iter().take(NAMED_MAX);
    let named: Vec<String> =
        named.map(|holder| format!("{} ({})", holder.owner, bytes_text(holder.bytes))).collect();
    if named.is_empty() {
        "nobody holds any".to_owned()
    } else {
        format!("held by {}", named.join(", "))
    }
}

/// The line to set: that of the best setting that fits, unless it is to set nothing.
pub(super) fn paste(answer: &WhatIf) -> Option<String> {
    let best = answer.best().filter(|row| row.fits && row.setting != "default")?;
    let line: String = best.setting.chars().filter(|letter| !letter.is_whitespace()).collect();
    (!line.is_empty()).then(|| format!("PYTORCH_CUDA_ALLOC_CONF={line}"))
}
