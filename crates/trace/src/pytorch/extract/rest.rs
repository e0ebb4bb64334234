//! What a snapshot has besides segments and traces: host memory, annotations, settings, flags.
//! None of it is needed, so whatever makes no sense is passed over.

use super::Extractor;
use super::judge::{ADDRESS_MAX, DEVICE_MAX, SIZE_BYTES_MAX};
use crate::pytorch::error::ReadError;
use crate::pytorch::heap::Value;
use crate::pytorch::packed::Packed;
use crate::pytorch::snapshot::{AllocatorSettings, Annotation, HostSegment, SettingValue, Stage};
use crate::pytorch::word::Word;

/// Settings beyond this number that are not looked at are not kept either.
const OTHER_SETTINGS_MAX: usize = 256;

/// The keys of a snapshot's own dictionary that are read.
const TOP_KEYS: [Word; 9] = [
    Word::Segments,
    Word::DeviceTraces,
    Word::Overflowed,
    Word::HostSegments,
    Word::HostTraces,
    Word::ExternalAnnotations,
    Word::AllocatorSettings,
    Word::MadeOf,
    Word::MadeUpSegments,
];

impl Extractor {
    /// How many keys of the snapshot's own dictionary are not read.
    pub(super) fn passed_over_count(&self, top: u32) -> usize {
        let is_read = |key| matches!(key, Value::Word(word) if TOP_KEYS.contains(&word));
        self.pairs(top).iter().filter(|(key, _)| !is_read(*key)).count()
    }

    pub(super) fn host_segments(&mut self, value: Value) -> Result<Vec<HostSegment>, ReadError> {
        let mut segments = Vec::new();
        for position in 0..self.items_if_any(value)? {
            if let Value::Dict(dict) = self.item(value, position) {
                let segment = self.host_segment(dict)?;
                self.heap.budget.push(&mut segments, segment)?;
            }
        }
        Ok(segments)
    }

    fn host_segment(&mut self, dict: u32) -> Result<HostSegment, ReadError> {
        self.visit(self.pairs(dict).len())?;
        let mut segment = HostSegment {
            address: 0,
            bytes: 0,
            allocated_bytes: None,
            active_bytes: None,
            pool: None,
            stack: None,
        };
        let mut frames = None;
        for &(key, value) in self.pairs(dict) {
            let Value::Word(key) = key else { continue };
            let bytes = plausible(value, SIZE_BYTES_MAX);
            match key {
                Word::Address | Word::Addr => {
                    segment.address = plausible(value, ADDRESS_MAX).unwrap_or(0);
                }
                Word::TotalSize | Word::Size => segment.bytes = bytes.unwrap_or(0),
                Word::AllocatedSize => segment.allocated_bytes = bytes,
                Word::ActiveSize => segment.active_bytes = bytes,
                Word::SegmentPoolId | Word::PoolId => {
                    let Value::Tuple(tuple) = value else { continue };
                    segment.pool = self.pool(tuple);
                }
                Word::Frames => frames = Some(value),
                _ => {}
            }
        }
        segment.stack = frames.and_then(|frames| self.stack(frames));
        Ok(segment)
    }

    pub(super) fn annotations(&mut self, value: Value) -> Result<Vec<Annotation>, ReadError> {
        let mut annotations = Vec::new();
        for position in 0..self.items_if_any(value)? {
            let Value::Dict(dict) = self.item(value, position) else { continue };
            self.visit(self.pairs(dict).len())?;
            if let Some(annotation) = self.annotation(dict) {
                self.heap.budget.push(&mut annotations, annotation)?;
            }
        }
        Ok(annotations)
    }

    fn annotation(&mut self, dict: u32) -> Option<Annotation> {
        let stage = match self.last(dict, Word::Stage) {
            Some(Value::Word(Word::Start)) => Stage::Start,
            Some(Value::Word(Word::End)) => Stage::End,
            _ => Stage::Other,
        };
        let name = self.last(dict, Word::Name).map_or(Packed::NOTHING, Packed::of_text);
        let device = self.last(dict, Word::Device).and_then(|value| plausible(value, DEVICE_MAX));
        let time_us = match self.last(dict, Word::TimeUs) {
            Some(Value::Int(time_us)) => time_us,
            _ => 0,
        };
        let name = self.words.name(name, &self.heap)?;
        let device = device.and_then(|device| usize::try_from(device).ok());
        Some(Annotation { stage, name, device, time_us })
    }

    /// A truth value for each device.
    pub(super) fn flags(&mut self, value: Value) -> Result<Vec<Option<bool>>, ReadError> {
        let mut flags = Vec::new();
        for position in 0..self.items_if_any(value)? {
            let flag = match self.item(value, position) {
                Value::Bool(flag) => Some(flag),
                _ => None,
            };
            self.heap.budget.push(&mut flags, flag)?;
        }
        Ok(flags)
    }

    /// The settings, and how many are not kept. What takes time is done for the last of equal keys
    /// only: a file may have a million of them that share one value.
    pub(super) fn settings(&self, dict: u32) -> (AllocatorSettings, usize) {
        let mut settings = AllocatorSettings::default();
        let mut passed_over_count = 0;
        let (mut configuration, mut divisions) = (None, None);
        for &(key, value) in self.pairs(dict) {
            match (key, value) {
                (Value::Word(Word::Configuration), Value::Word(_) | Value::Text(_)) => {
                    configuration = Some(value);
                }
                (Value::Word(Word::MaxSplitSize), Value::Int(bytes)) => {
                    settings.max_split_bytes = u64::try_from(bytes).ok();
                }
                (Value::Word(Word::GarbageCollectionThreshold), Value::Float(threshold))
                    if threshold.is_finite() =>
                {
                    settings.garbage_collection_threshold = Some(threshold);
                }
                (Value::Word(Word::ExpandableSegments), Value::Bool(expandable)) => {
                    settings.expandable_segments = Some(expandable);
                }
                (Value::Word(Word::RoundupPower2Divisions), Value::Dict(dict)) => {
                    divisions = Some(dict);
                }
                _ if OTHER_SETTINGS_MAX <= settings.others.len() => passed_over_count += 1,
                _ => match self.text(key).zip(self.setting_value(value)) {
                    Some(other) => settings.others.push(other),
                    None => passed_over_count += 1,
                },
            }
        }
        settings.configuration = configuration.and_then(|text| self.text(text));
        settings.roundup_power2_divisions =
            divisions.map(|dict| self.divisions(dict)).unwrap_or_default();
        (settings, passed_over_count)
    }

    fn setting_value(&self, value: Value) -> Option<SettingValue> {
        Some(match value {
            Value::None => SettingValue::Nothing,
            Value::Bool(value) => SettingValue::Bool(value),
            Value::Int(value) => SettingValue::Integer(value),
            Value::Float(value) if value.is_finite() => SettingValue::Float(value),
            Value::Float(_) => return None,
            value => SettingValue::Text(self.text(value)?),
        })
    }

    fn divisions(&self, dict: u32) -> Vec<(u64, u64)> {
        let division = |&(key, value): &(Value, Value)| {
            let Value::Int(divisions) = value else { return None };
            Some((self.text(key)?.parse().ok()?, u64::try_from(divisions).ok()?))
        };
        self.pairs(dict).iter().filter_map(division).collect()
    }
}

/// A number that is not negative and not beyond belief.
fn plausible(value: Value, limit: u64) -> Option<u64> {
    let Value::Int(value) = value else { return None };
    u64::try_from(value).ok().filter(|value| *value <= limit)
}
