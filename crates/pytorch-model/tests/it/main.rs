//! The model against what PyTorch itself recorded and measured.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests may fail a test as tests themselves do"
)]

mod limits;
mod peaks;
mod recorded;

use std::path::PathBuf;

use pytorch_model::{
    AddressOrder, AssumedDriver, BlockNumber, Figures, Limits, Model, OutOfMemory, PoolId, Request,
    Settings, Ties,
};
use trace::Operation;
use trace::pytorch::{ReadOptions, Snapshot, read_file};

/// The memory of the device that the traces were recorded on.
const DEVICE_BYTES: u64 = 143_771 << 20;

fn snapshot(name: &str) -> Snapshot {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces"));
    let file = folder.join(format!("{name}.pickle.zst"));
    read_file(&file, &ReadOptions::default(), None).unwrap()
}

fn number(index: usize) -> BlockNumber {
    BlockNumber(u32::try_from(index).unwrap())
}

/// Serves a trace's operations under another setting, with the assumed driver; what was reached,
/// and the operation at which memory ran out.
fn serve(
    name: &str,
    setting: &str,
    fraction_bytes: Option<u64>,
) -> (Figures, Option<(usize, OutOfMemory)>) {
    let snapshot = snapshot(name);
    let operations = snapshot.trace(None).unwrap().operations();
    let limits = Limits { device_bytes: DEVICE_BYTES, fraction_bytes };
    let driver = AssumedDriver::new(AddressOrder::FromAbove);
    let settings = Settings::parse(setting).unwrap();
    let mut model = Model::new(settings, limits, Ties::Address, driver);
    for (index, operation) in operations.list.iter().enumerate() {
        match *operation {
            Operation::Allocate { block, bytes, stream } => {
                let stream = operations.streams[stream.index()].0;
                let request = Request { bytes, stream, pool: PoolId::DEFAULT };
                if let Err(error) = model.allocate(number(block.index()), request) {
                    return (*model.figures(), Some((index, error)));
                }
            }
            Operation::Free { block, deferred } => model.free(number(block.index()), deferred),
            Operation::Complete { block } => model.complete(number(block.index())),
            Operation::OutOfMemory { .. } => {}
        }
    }
    (*model.figures(), None)
}
