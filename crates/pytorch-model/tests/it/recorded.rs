//! The model served the calls of a recording, with the recording's own addresses for segments:
//! every segment in the same order and size, every block at the recorded address.

use std::collections::{HashMap, VecDeque};

use pytorch_model::{
    BlockNumber, Driver, Event, Figures, Limits, Model, PoolId, Request, Settings, Ties,
};
use trace::pytorch::{Action, Entry};

use crate::{DEVICE_BYTES, snapshot};

/// Gives the addresses that the recording has for the request that is served.
struct Recording(VecDeque<u64>);

impl Driver for Recording {
    fn allocate(&mut self, _bytes: u64) -> u64 {
        self.0.pop_front().unwrap_or(0)
    }

    fn free(&mut self, _address: u64, _bytes: u64) {}

    fn reserve(&mut self, _bytes: u64) -> u64 {
        self.0.pop_front().unwrap_or(0)
    }

    fn release(&mut self, _address: u64, _bytes: u64) {}
}

/// How a recording and the model differ.
#[derive(Debug, Default, PartialEq)]
struct Differences {
    allocations: usize,
    other_addresses: usize,
    other_events: usize,
}

fn event(entry: &Entry) -> Option<Event> {
    let (address, bytes, stream) = (entry.address, entry.bytes, entry.stream.0);
    match entry.action {
        Action::SegmentAlloc => Some(Event::SegmentAlloc { address, bytes, stream }),
        Action::SegmentFree => Some(Event::SegmentFree { address, bytes, stream }),
        Action::SegmentMap => Some(Event::SegmentMap { address, bytes, stream }),
        Action::SegmentUnmap => Some(Event::SegmentUnmap { address, bytes, stream }),
        _ => None,
    }
}

const fn is_given_back(event: &Event) -> bool {
    matches!(event, Event::SegmentFree { .. } | Event::SegmentUnmap { .. })
}

fn serve(name: &str, setting: Option<&str>) -> (Differences, Figures) {
    let snapshot = snapshot(name);
    let trace = snapshot.trace(None).unwrap();
    let recorded = snapshot.allocator_settings.as_ref().and_then(|all| all.configuration.clone());
    let settings = Settings::parse(setting.unwrap_or(&recorded.unwrap_or_default())).unwrap();
    let limits = Limits { device_bytes: DEVICE_BYTES, fraction_bytes: None };
    let mut model = Model::new(settings, limits, Ties::Address, Recording(VecDeque::new()));
    model.keep_events();
    let mut live: HashMap<u64, BlockNumber> = HashMap::new();
    let (mut events, mut found) = (Vec::new(), Differences::default());
    for entry in trace.entries() {
        events.extend(event(entry));
        match entry.action {
            Action::Alloc => {
                if events.iter().any(is_given_back) {
                    model.empty_cache();
                }
                let taken = events.iter().filter(|event| !is_given_back(event));
                model.driver_mut().0 = taken
                    .filter_map(|event| match event {
                        Event::SegmentAlloc { address, .. } | Event::SegmentMap { address, .. } => {
                            Some(*address)
                        }
                        _ => None,
                    })
                    .collect();
                let block = crate::number(found.allocations);
                let stream = entry.stream.0;
                let request = Request { bytes: entry.bytes, stream, pool: PoolId::DEFAULT };
                let placed = model.allocate(block, request).unwrap();
                found.allocations += 1;
                found.other_addresses += usize::from(placed.address != entry.address);
                found.other_events += usize::from(model.take_events() != events);
                events.clear();
                live.insert(entry.address, block);
            }
            Action::FreeRequested => model.free(live[&entry.address], true),
            Action::FreeCompleted => model.complete(live[&entry.address]),
            _ => {}
        }
    }
    (found, *model.figures())
}

fn check(name: &str, allocations: usize, reserved_peak_mebibytes: u64) {
    let (found, figures) = serve(name, None);
    assert_eq!(found, Differences { allocations, ..Differences::default() }, "{name}");
    assert_eq!(figures.reserved_peak_bytes, reserved_peak_mebibytes << 20, "{name}");
}

#[test]
fn training_under_default_settings_takes_the_recorded_segments() {
    check("gpt_train", 34_603, 20_618);
    check("gnn_train", 12_570, 10_684);
}

#[test]
fn expandable_segments_map_and_unmap_the_recorded_pages() {
    check("expandable", 21_007, 3_482);
}

#[test]
fn another_setting_than_the_recorded_one_takes_other_segments() {
    let (found, _) = serve("gnn_train", Some("roundup_power2_divisions:4"));
    assert!(0 < found.other_addresses && 0 < found.other_events, "{found:?}");
}
