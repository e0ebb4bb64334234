//! Puts the page together: frame, style, program and what was recorded, in one file.

use crate::gather::Gathered;
use crate::pack::pack;

const FRAME: &str = include_str!("../assets/page.html");
const STYLE: &str = include_str!("../assets/style.css");
/// The program's files, in the order in which they name each other.
const PROGRAM: &[&str] = &[
    include_str!("../assets/format.js"),
    include_str!("../assets/decode.js"),
    include_str!("../assets/model.js"),
    include_str!("../assets/series.js"),
    include_str!("../assets/timeline.js"),
    include_str!("../assets/fragmentation.js"),
    include_str!("../assets/flame.js"),
    include_str!("../assets/segments.js"),
    include_str!("../assets/tables.js"),
    include_str!("../assets/block.js"),
    include_str!("../assets/main.js"),
];

/// The whole page.
pub(crate) fn page(gathered: &Gathered) -> String {
    let program = format!("\"use strict\";\n(() => {{\n{}\n}})();", PROGRAM.join("\n"));
    let title = escaped(&gathered.title);
    let recorded = pack(gathered);
    let mut page = String::with_capacity(FRAME.len() + program.len() + recorded.len());
    let mut rest = FRAME;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("the frame closes its braces");
        page += before;
        page += match name {
            "TITLE" => &title,
            "STYLE" => STYLE,
            "SCRIPT" => &program,
            "RECORDED" => &recorded,
            _ => "",
        };
        rest = after;
    }
    page + rest
}

/// Text that markup cannot be read from.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            // Nothing that XML does not allow, and nothing that is not seen.
            _ if character.is_control() || character == '\u{fffe}' || character == '\u{ffff}' => {
                safe.push('\u{fffd}');
            }
            _ => safe.push(character),
        }
    }
    safe
}
