//! Writes a stream trace once more: plain, and without what its reader did not know.

use std::collections::HashMap;
use std::io::{self, Write};

use super::{LeftOut, beside_items};
use crate::stream_trace::{Item, Recording, TextNumber, Writer};

/// Writes `recording` with its texts and places first, and says what is not there. One that was
/// cut gets no end.
///
/// # Errors
/// What `sink` says.
pub fn rewrite_recording<W: Write>(
    recording: &Recording,
    sink: W,
) -> io::Result<(W, Vec<LeftOut>)> {
    let mut writer = Writer::new(sink, recording.unix_ns)?;
    let mut numbers: HashMap<&str, TextNumber> = HashMap::new();
    for (number, text) in (0_u32..).zip(&recording.texts) {
        numbers.entry(text).or_insert(TextNumber(number));
        writer.put(0, &Item::Text { text: text.clone() })?;
    }
    for place in &recording.places {
        // The text of a place was declared before it, or nothing could have named it.
        let file = numbers.get(place.file.as_str()).copied();
        let file = file.ok_or(io::ErrorKind::InvalidData)?;
        writer.put(0, &Item::Place { file, line: place.line, column: place.column })?;
    }
    for entry in &recording.entries {
        writer.put(entry.host_ns, &entry.item)?;
    }
    let sink = if recording.is_complete() { writer.finish()? } else { writer.leave()? };
    Ok((sink, beside_items(recording)))
}
