//! The configuration line that PyTorch reads from `PYTORCH_CUDA_ALLOC_CONF`.

use std::fmt;

use crate::release::part_of;
use crate::sizes::LARGE_SEGMENT_BYTES;

/// The intervals of `roundup_power2_divisions`: one for each power of two from 1 MiB to 32 GiB.
const DIVISION_INTERVALS: usize = 16;
const MIB: u64 = 1 << 20;

/// What PyTorch's allocator was told, as far as it changes which memory is used.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// Segments grow and shrink by mapping pages.
    pub expandable_segments: bool,
    /// Blocks of at least so many bytes are never split; `u64::MAX` is no limit.
    pub max_split_bytes: u64,
    /// How many bytes larger than an unsplittable request its block may be.
    pub max_non_split_rounding_bytes: u64,
    /// The fill of the limit from which unused segments are given back; 0 is off.
    pub garbage_collection_threshold: f64,
    /// A segment for requests between 1 and 10 MiB, and a page of large expandable segments.
    pub large_segment_bytes: u64,
    /// The part of the device that may be reserved, if it was set.
    pub memory_fraction: Option<f64>,
    /// A request is refused before the driver is asked, if it would pass the fraction.
    pub rejects_before_driver: bool,
    /// Steps in each doubling, by interval; below two is off.
    divisions: [u64; DIVISION_INTERVALS],
    /// What of the line changes nothing here, as it was given.
    pub without_effect: Vec<String>,
}

/// Why a configuration line cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// PyTorch refuses it as well.
    #[error("`{key}` is no key of the allocator's configuration")]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// The key has no value.
    #[error("`{key}` needs a value, as in `{key}:VALUE`")]
    NoValue {
        /// The key.
        key: String,
    },
    /// The value is not one that the key takes.
    #[error("`{key}` takes {expected}, not `{value}`")]
    BadValue {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// The line asks for an allocator of the driver, which has no segments.
    #[error("`backend:{backend}` is not modeled: the driver decides what it reserves")]
    OtherBackend {
        /// The backend.
        backend: String,
    },
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            expandable_segments: false,
            max_split_bytes: u64::MAX,
            max_non_split_rounding_bytes: LARGE_SEGMENT_BYTES,
            garbage_collection_threshold: 0.0,
            large_segment_bytes: LARGE_SEGMENT_BYTES,
            memory_fraction: None,
            rejects_before_driver: false,
            divisions: [0; DIVISION_INTERVALS],
            without_effect: Vec::new(),
        }
    }
}

/// Keys of PyTorch 2.0 to 2.15 that change no device memory.
const WITHOUT_EFFECT: [&str; 13] = [
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "graph_capture_record_stream_reuse",
    "pinned_use_cuda_host_register",
    "pinned_num_register_threads",
    "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_max_round_threshold_mb",
    "pinned_max_cached_size_mb",
    "pinned_free_catch_all",
    "expandable_segments_reserve",
    "expandable_segments_reserve_by_class",
    "roundup_bypass_threshold_mb",
];

impl Settings {
    /// Reads a line such as `expandable_segments:True,max_split_size_mb:128`. An empty line, or
    /// `default`, is what PyTorch does without one.
    ///
    /// # Errors
    /// What PyTorch refuses, and a backend other than its own.
    pub fn parse(line: &str) -> Result<Self, SettingError> {
        let line: String = line.chars().filter(|letter| !letter.is_whitespace()).collect();
        let mut settings = Self::default();
        if line == "default" {
            return Ok(settings);
        }
        let pairs: Vec<&str> = split_outside_brackets(&line);
        // The others are checked against it.
        let is_segment = |pair: &&&str| pair.starts_with("large_segment_size_mb:");
        let (first, rest): (Vec<&str>, Vec<&str>) =
            pairs.iter().copied().partition(|pair| is_segment(&pair));
        let mut has_rounding = false;
        for pair in first.into_iter().chain(rest) {
            if pair.is_empty() {
                continue;
            }
            let (key, value) = pair
                .split_once(':')
                .filter(|(_, value)| !value.is_empty())
                .ok_or_else(|| SettingError::NoValue { key: pair.trim_end_matches(':').into() })?;
            has_rounding |= key == "max_non_split_rounding_mb";
            settings.set(key, value)?;
        }
        if !has_rounding {
            settings.max_non_split_rounding_bytes = settings.large_segment_bytes;
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let bad =
            |expected| SettingError::BadValue { key: key.into(), value: value.into(), expected };
        match key {
            "expandable_segments" => self.expandable_segments = boolean(value).map_err(bad)?,
            "throw_on_cudamalloc_oom" => {
                self.rejects_before_driver = boolean(value).map_err(bad)?
            }
            "large_segment_size_mb" => {
                self.large_segment_bytes = mebibytes(value, 11).map_err(bad)?;
            }
            "max_split_size_mb" => {
                let least = self.large_segment_bytes / MIB;
                self.max_split_bytes = mebibytes(value, least).map_err(bad)?;
            }
            "max_non_split_rounding_mb" => {
                let least = self.large_segment_bytes / MIB;
                self.max_non_split_rounding_bytes = mebibytes(value, least).map_err(bad)?;
            }
            "garbage_collection_threshold" => {
                let expected = "a number above 0 and below 1";
                let threshold = number(value).filter(|found| 0.0 < *found && *found < 1.0);
                self.garbage_collection_threshold = threshold.ok_or(bad(expected))?;
            }
            "per_process_memory_fraction" => {
                let expected = "a number from 0 to 1";
                let fraction = number(value).filter(|found| 0.0 <= *found && *found <= 1.0);
                self.memory_fraction = Some(fraction.ok_or(bad(expected))?);
            }
            "roundup_power2_divisions" => {
                let expected = "a power of two, or a list as in [64:8,256:4,>:2]";
                self.divisions = divisions(value).ok_or(bad(expected))?;
            }
            "backend" if value == "native" => {}
            "backend" => return Err(SettingError::OtherBackend { backend: value.into() }),
            _ if WITHOUT_EFFECT.contains(&key) => {
                self.without_effect.push(format!("{key}:{value}"));
            }
            _ => return Err(SettingError::UnknownKey { key: key.into() }),
        }
        Ok(())
    }

    /// What may be reserved where `bytes` may be, which the line can make less.
    #[must_use]
    pub fn fraction_of(&self, bytes: u64) -> u64 {
        self.memory_fraction.and_then(|part| part_of(bytes, part)).unwrap_or(bytes)
    }

    /// The size of the block that a request of `bytes` is given room for.
    #[must_use]
    pub fn rounded_bytes(&self, bytes: u64) -> u64 {
        crate::sizes::rounded(bytes, self)
    }

    /// What the driver is asked for where a request of `bytes` finds no room.
    #[must_use]
    pub fn segment_bytes(&self, bytes: u64) -> u64 {
        crate::sizes::segment_bytes(self.rounded_bytes(bytes), self)
    }

    /// Steps of the doubling that `bytes` lies in; below two is off.
    pub(crate) fn divisions(&self, bytes: u64) -> u64 {
        let interval = (bytes / MIB).checked_ilog2().unwrap_or(0);
        let interval = usize::try_from(interval).unwrap_or(usize::MAX);
        self.divisions.get(interval).or(self.divisions.last()).copied().unwrap_or(0)
    }
}

impl fmt::Display for Settings {
    /// The line that PyTorch would be given, in a fixed order; `default` for none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let none = Self::default();
        let mut parts = Vec::new();
        if self.expandable_segments {
            parts.push("expandable_segments:True".to_owned());
        }
        if self.garbage_collection_threshold != none.garbage_collection_threshold {
            parts.push(format!(
                "garbage_collection_threshold:{}",
                self.garbage_collection_threshold
            ));
        }
        if self.large_segment_bytes != none.large_segment_bytes {
            parts.push(format!("large_segment_size_mb:{}", self.large_segment_bytes / MIB));
        }
        if self.max_split_bytes != none.max_split_bytes {
            parts.push(format!("max_split_size_mb:{}", self.max_split_bytes / MIB));
        }
        if self.max_non_split_rounding_bytes != self.large_segment_bytes {
            let mebibytes = self.max_non_split_rounding_bytes / MIB;
            parts.push(format!("max_non_split_rounding_mb:{mebibytes}"));
        }
        if let Some(fraction) = self.memory_fraction {
            parts.push(format!("per_process_memory_fraction:{fraction}"));
        }
        if self.divisions != none.divisions {
            parts.push(format!("roundup_power2_divisions:{}", divisions_text(&self.divisions)));
        }
        if self.rejects_before_driver {
            parts.push("throw_on_cudamalloc_oom:True".to_owned());
        }
        parts.extend(self.without_effect.iter().cloned());
        if parts.is_empty() { f.write_str("default") } else { f.write_str(&parts.join(",")) }
    }
}

/// The `key:value` pairs of a line, which is cut at commas that stand in no list.
#[must_use]
pub fn pairs(line: &str) -> Vec<&str> {
    split_outside_brackets(line).into_iter().map(str::trim).filter(|it| !it.is_empty()).collect()
}

fn split_outside_brackets(line: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    line.split(|letter| {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .collect()
}

fn boolean(value: &str) -> Result<bool, &'static str> {
    match value {
        "True" => Ok(true),
        "False" => Ok(false),
        _ => Err("True or False"),
    }
}

fn number(value: &str) -> Option<f64> {
    value.parse().ok()
}

fn mebibytes(value: &str, least: u64) -> Result<u64, &'static str> {
    let expected = if least == 11 {
        "a number of MiB above 10"
    } else {
        "a number of MiB not below large_segment_size_mb"
    };
    let count: u64 = value.parse().map_err(|_| expected)?;
    if count < least { Err(expected) } else { count.checked_mul(MIB).ok_or(expected) }
}

/// Steps by interval, from one number for all or from a list.
fn divisions(value: &str) -> Option<[u64; DIVISION_INTERVALS]> {
    let Some(list) = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        let all: u64 = value.parse().ok().filter(|all: &u64| all.is_power_of_two())?;
        return Some([all; DIVISION_INTERVALS]);
    };
    let mut found = [0; DIVISION_INTERVALS];
    // The interval up to which a value was given; none is before the first.
    let mut known = None;
    for item in list.split(',') {
        let (key, count) = item.split_once(':')?;
        let count: u64 = count.parse().ok()?;
        if count != 0 && !count.is_power_of_two() {
            return None;
        }
        let start = match (key, known) {
            (">", known) => known.map_or(0, |last: usize| last + 1),
            (key, _) => {
                let size: u64 = key.parse().ok().filter(|size: &u64| size.is_power_of_two())?;
                usize::try_from(size.ilog2()).ok().filter(|at| *at < DIVISION_INTERVALS)?
            }
        };
        // The first entry counts below it as well, and `>` above all others.
        let range = match (key, known) {
            (">", _) => start..DIVISION_INTERVALS,
            (_, None) => 0..start + 1,
            (_, Some(_)) => start..start + 1,
        };
        found.get_mut(range)?.fill(count);
        known = Some(start);
    }
    Some(found)
}

fn divisions_text(divisions: &[u64; DIVISION_INTERVALS]) -> String {
    let [first, rest @ ..] = divisions;
    if rest.iter().all(|other| other == first) {
        return first.to_string();
    }
    let items: Vec<String> = (0_u32..)
        .zip(divisions)
        .map(|(power, count)| format!("{}:{count}", 1_u64 << power))
        .collect();
    let last = divisions.last().copied().unwrap_or(0);
    format!("[{},>:{last}]", items.join(","))
}

#[cfg(test)]
mod tests {
    use super::{SettingError, Settings};

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_line_reads_and_prints_as_itself() {
        for line in [
            "default",
            "expandable_segments:True",
            "garbage_collection_threshold:0.8,max_split_size_mb:256",
            "max_split_size_mb:512,roundup_power2_divisions:16",
            "large_segment_size_mb:64",
        ] {
            assert_eq!(Settings::parse(line).unwrap().to_string(), line);
        }
        let spaced = Settings::parse(" max_split_size_mb : 128 , expandable_segments:False ,");
        assert_eq!(spaced.unwrap().max_split_bytes, 128 * MIB);
        let list = Settings::parse("roundup_power2_divisions:[64:8,256:4,>:2]").unwrap();
        assert_eq!(Settings::parse(&list.to_string()).unwrap(), list);
    }

    #[test]
    fn a_list_counts_below_its_first_entry_and_above_its_last() {
        let list = Settings::parse("roundup_power2_divisions:[64:8,256:4,>:2]").unwrap();
        let found = [1, 63, 64, 127, 256, 512, 40_000].map(|mib| list.divisions(mib * MIB));
        assert_eq!(found, [8, 8, 8, 8, 4, 2, 2]);
        assert_eq!(list.divisions(128 * MIB), 0, "an interval that is left out is off");
        assert_eq!(list.divisions(1000), 8, "below 1 MiB the first one counts");
    }

    #[test]
    fn what_pytorch_refuses_is_refused_with_the_key() {
        let error = |line: &str| Settings::parse(line).unwrap_err();
        let unknown = SettingError::UnknownKey { key: "expandable".into() };
        assert_eq!(error("expandable:True"), unknown);
        assert_eq!(
            error("expandable_segments"),
            SettingError::NoValue { key: "expandable_segments".into() }
        );
        for line in [
            "expandable_segments:true",
            "max_split_size_mb:19",
            "large_segment_size_mb:10",
            "garbage_collection_threshold:1",
            "roundup_power2_divisions:3",
            "roundup_power2_divisions:[63:8]",
            "roundup_power2_divisions:[64:8",
        ] {
            assert!(matches!(error(line), SettingError::BadValue { .. }), "{line}");
        }
        let message = error("max_split_size_mb:19").to_string();
        assert!(message.contains("not below large_segment_size_mb, not `19`"), "{message}");
        assert!(matches!(error("backend:cudaMallocAsync"), SettingError::OtherBackend { .. }));
    }
}
