//! What a reader of the answer should know of the trace, and of what was assumed.

use trace::amount::{bytes_text, counted};

use super::answer::WhatIf;
use super::case::{Case, Recorder};
use super::row::{Allocator, Row};
use crate::percent::percent_from;

pub(super) fn notes(case: &Case, answer: &WhatIf) -> Vec<String> {
    let found = [
        recorder(case),
        uses(case),
        beginning(case),
        pools(case),
        emptied(case),
        limit(case, answer),
        unknown_setting(case),
        garbage_collection(answer),
        spread(answer),
        wellspring(case, answer),
    ];
    found.into_iter().flatten().collect()
}

fn recorder(case: &Case) -> Option<String> {
    let told = match case.recorder {
        Recorder::Pytorch => return None,
        Recorder::PytorchEntries => {
            "CSV and Chrome traces have neither the setting that a run was recorded under, taken \
             to be the default, nor what was held before it and never given back"
        }
        Recorder::RmmLog => {
            "a log of RMM does not tell which streams used a block: every block is free as soon as \
             it is freed, where a run with several streams may have to keep it longer"
        }
        Recorder::StreamTrace => {
            "in a stream trace uses are known: a block that other streams used counts as pending \
             until the host learned that they are done, under every setting, where PyTorch would \
             ask at its own times; segments were another allocator's, and are not looked at"
        }
    };
    Some(told.to_owned())
}

fn uses(case: &Case) -> Option<String> {
    let count = case.operations.deferred_free_count;
    (0 < count && case.recorder.is_pytorch()).then(|| {
        format!(
            "{} waited for other streams; a PyTorch trace does not tell which, so the recorded \
             completion times are used under every setting",
            counted(count, "free")
        )
    })
}

fn beginning(case: &Case) -> Option<String> {
    let count = case.operations.initial_block_count;
    let is_rebuilt = case.timeline.held.as_ref().is_some_and(|held| held.all().next().is_some());
    let own = if is_rebuilt {
        "under the recorded setting the segments held then were rebuilt, and under others"
    } else {
        "what was held then cannot be rebuilt, and"
    };
    (0 < count).then(|| {
        format!(
            "the trace lost its beginning: {own} its {} are allocated afresh, by address, which \
             may reserve less than a real run had by then",
            counted(count, "block")
        )
    })
}

fn pools(case: &Case) -> Option<String> {
    let count = case.timeline.pools.len();
    (0 < count).then(|| {
        format!(
            "{} from private pools, as the segments of the end tell; pools that ended before are \
             not told apart from the default one",
            if count == 1 {
                "1 allocation is".to_owned()
            } else {
                format!("{count} allocations are")
            }
        )
    })
}

fn emptied(case: &Case) -> Option<String> {
    let count = case.emptied.len();
    (0 < count).then(|| {
        format!(
            "{} to empty the cache, told by the segments given back; one that found nothing to \
             give back left no trace",
            counted(count, "call")
        )
    })
}

fn limit(case: &Case, answer: &WhatIf) -> Option<String> {
    let limit = case.timeline.limit_bytes?;
    let tried = answer
        .capacity_bytes
        .is_none()
        .then(|| format!("; ask with --capacity {}MiB", limit >> 20));
    Some(format!(
        "when recorded, a request was refused with {} reserved at most, so its limit was between \
         that and {}{}",
        bytes_text(answer.recorded_peak_reserved_bytes?),
        bytes_text(limit),
        tried.unwrap_or_default()
    ))
}

fn unknown_setting(case: &Case) -> Option<String> {
    let error = case.recorded_setting_error()?;
    Some(format!("the recorded setting, {}, has no row: {error}", case.setting))
}

fn garbage_collection(answer: &WhatIf) -> Option<String> {
    let has_threshold = |row: &Row| row.setting.contains("garbage_collection_threshold");
    answer.rows.iter().any(has_threshold).then(|| {
        let limit = match answer.capacity_bytes {
            Some(bytes) => {
                format!(
                    ": here {}, to be set as its part of the device's memory",
                    bytes_text(bytes)
                )
            }
            None => ", and so does nothing here without --capacity".to_owned(),
        };
        format!(
            "garbage_collection_threshold acts only under a memory fraction \
             (torch.cuda.set_per_process_memory_fraction){limit}"
        )
    })
}

fn spread(answer: &WhatIf) -> Option<String> {
    let told: Vec<String> = answer
        .rows
        .iter()
        .filter_map(|row| {
            let spread = row.spread?;
            let varies = spread.low_bytes != spread.high_bytes
                || spread.low_bytes != row.peak_reserved_bytes
                || (spread.fits < spread.tries && row.fits);
            varies.then(|| {
                let fits = if answer.capacity_bytes.is_some() {
                    format!(", fits under {} of {}", spread.fits, spread.tries)
                } else {
                    String::new()
                };
                format!(
                    "{} {} to {}{fits}",
                    row.setting,
                    percent_from(row.peak_reserved_bytes, spread.low_bytes),
                    percent_from(row.peak_reserved_bytes, spread.high_bytes)
                )
            })
        })
        .collect();
    (!told.is_empty()).then(|| {
        format!(
            "under other address orders of the driver, and with ties broken by age as after \
             PyTorch 2.11: {}",
            told.join("; ")
        )
    })
}

fn wellspring(case: &Case, answer: &WhatIf) -> Option<String> {
    let is_ours = |row: &Row| row.model == Allocator::Wellspring;
    answer.rows.iter().any(is_ours).then(|| {
        let left_out = if case.emptied.is_empty() && case.timeline.pools.is_empty() {
            ""
        } else {
            ", without private pools and emptied caches"
        };
        format!("Wellspring's rows are its real allocator on the simulated device{left_out}")
    })
}
