//! Which settings are tried: the usual ones, those that were named, and a search.

use pytorch_model::{SettingError, Settings};

use super::row::Setting;

/// What is tried when nothing is named, beside the setting that a trace was recorded under.
pub const USUAL: [&str; 9] = [
    "default",
    "expandable_segments:True",
    "max_split_size_mb:128",
    "max_split_size_mb:256",
    "max_split_size_mb:512",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:8",
    "garbage_collection_threshold:0.8,max_split_size_mb:256",
    "large_segment_size_mb:64",
];

/// The values that a search tries for each key, `None` for a line without it. It goes through the
/// keys in this order.
pub(super) const SEARCHED: [(&str, &[Option<&str>]); 5] = [
    ("expandable_segments", &[None, Some("True")]),
    ("max_split_size_mb", &[None, Some("64"), Some("128"), Some("256"), Some("512"), Some("1024")]),
    (
        "roundup_power2_divisions",
        &[None, Some("2"), Some("4"), Some("8"), Some("16"), Some("[64:8,256:4,>:2]")],
    ),
    ("garbage_collection_threshold", &[None, Some("0.6"), Some("0.8"), Some("0.9")]),
    ("large_segment_size_mb", &[None, Some("32"), Some("64"), Some("128")]),
];
/// The most lines that a search tries.
pub const SEARCH_TRIES_MAX: usize = 60;

/// The lines to try, the recorded one first, or the default where none was recorded: those that
/// are named, or else the usual ones.
pub(super) fn to_try(
    recorded: Option<&str>,
    named: &[String],
) -> Result<Vec<Setting>, SettingError> {
    let mut found = with_first(recorded.unwrap_or("default"), named)?;
    found.iter_mut().for_each(|setting| setting.is_recorded &= recorded.is_some());
    Ok(found)
}

fn with_first(recorded: &str, named: &[String]) -> Result<Vec<Setting>, SettingError> {
    let usual = || USUAL.map(str::to_owned).to_vec();
    let lines = if named.is_empty() { usual() } else { named.to_vec() };
    let mut found: Vec<Setting> = Vec::new();
    // One that is not modeled is told of elsewhere, and has no row.
    if let Ok(settings) = Settings::parse(recorded) {
        found.push(Setting { line: recorded.to_owned(), settings, is_recorded: true });
    }
    for line in lines {
        let settings = Settings::parse(&line)?;
        // An empty variable says what none says.
        let line = if line.trim().is_empty() { "default".to_owned() } else { line };
        match found.iter_mut().find(|other| other.settings == settings) {
            // As it was given, which is how it will be looked for.
            Some(other) if other.is_recorded => other.line = line,
            Some(_) => {}
            None => found.push(Setting { line, settings, is_recorded: false }),
        }
    }
    Ok(found)
}

/// A line with another value for one key, or without it.
pub(super) fn with(line: &str, key: &str, value: Option<&str>) -> Option<Setting> {
    let parts = pytorch_model::pairs(line);
    let kept =
        parts.iter().filter(|part| part.split(':').next() != Some(key) && **part != "default");
    let mut parts: Vec<String> = kept.map(|part| (*part).to_owned()).collect();
    parts.extend(value.map(|value| format!("{key}:{value}")));
    parts.sort_unstable();
    let line = if parts.is_empty() { "default".to_owned() } else { parts.join(",") };
    let settings = Settings::parse(&line).ok()?;
    Some(Setting { line, settings, is_recorded: false })
}

#[cfg(test)]
mod tests {
    use super::{SEARCHED, USUAL, to_try, with};

    #[test]
    fn the_usual_lines_and_the_searched_values_are_taken() {
        assert_eq!(to_try(Some("default"), &[]).unwrap().len(), USUAL.len());
        let empty = to_try(Some("default"), &[String::new()]).unwrap();
        assert_eq!((empty.len(), empty[0].line.as_str()), (1, "default"), "a line has a name");
        assert_eq!(to_try(Some("max_split_size_mb:300"), &[]).unwrap().len(), USUAL.len() + 1);
        for (key, values) in SEARCHED {
            for value in values {
                assert!(with("default", key, *value).is_some(), "{key}:{value:?}");
            }
        }
    }

    #[test]
    fn one_key_of_a_line_is_replaced() {
        let line = "max_split_size_mb:256,roundup_power2_divisions:[64:8,>:2]";
        let found = with(line, "max_split_size_mb", Some("64")).unwrap();
        assert_eq!(found.line, "max_split_size_mb:64,roundup_power2_divisions:[64:8,>:2]");
        let found = with(line, "roundup_power2_divisions", None).unwrap();
        assert_eq!(found.line, "max_split_size_mb:256");
        assert_eq!(with("default", "max_split_size_mb", None).unwrap().line, "default");
    }

    #[test]
    fn the_recorded_line_is_tried_whatever_is_named_and_once() {
        let named = ["default".to_owned(), "expandable_segments:True".to_owned()];
        let found = to_try(Some("expandable_segments: True"), &named).unwrap();
        let lines: Vec<&str> = found.iter().map(|setting| setting.line.as_str()).collect();
        assert_eq!(lines, ["expandable_segments:True", "default"]);
        assert!(found[0].is_recorded && !found[1].is_recorded);
        let found = to_try(None, &named).unwrap();
        assert!(found[0].line == "default" && found.iter().all(|it| !it.is_recorded));
        assert!(to_try(Some("backend:cudaMallocAsync"), &[]).is_ok());
        assert!(to_try(Some("default"), &["expandable:True".to_owned()]).is_err());
    }
}
