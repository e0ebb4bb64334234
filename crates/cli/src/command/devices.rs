//! `devices`: which devices there are, and what they can do.

use std::fmt::Write as _;

use cuda_sys::CUdevice_attribute;
use serde::Serialize;
use wellspring::streams::Error;
use wellspring::{Device, DeviceChoice, Driver};

use crate::arguments::DevicesArguments;
use crate::ending::{Ending, Failure};
use crate::output;

/// The version of the JSON line's fields.
const SCHEMA: u32 = 1;
const GIB: u64 = 1 << 30;

/// Everything that is told.
#[derive(Debug, Serialize)]
struct Listing {
    schema: u32,
    devices: Vec<Entry>,
    /// Why there is no GPU, if there is none.
    no_gpu: Option<String>,
}

/// One device.
#[derive(Debug, Serialize)]
struct Entry {
    /// How `--device` names it.
    device: String,
    name: String,
    total_bytes: u64,
    /// The CUDA version of its driver.
    driver: Option<String>,
    vmm: bool,
    pools: bool,
    simulated: bool,
}

/// Lists the devices.
pub(crate) fn run(arguments: &DevicesArguments) -> crate::Outcome {
    let (mut devices, no_gpu) = match gpus() {
        Ok(gpus) if gpus.is_empty() => (gpus, Some("the driver sees no device".to_owned())),
        Ok(gpus) => (gpus, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    devices.push(simulated()?);
    let listing = Listing { schema: SCHEMA, devices, no_gpu };
    let text = if arguments.json {
        serde_json::to_string(&listing).map_err(Failure::faulty)? + "\n"
    } else {
        table(&listing)
    };
    output::result(&text)?;
    Ok(Ending::Done)
}

fn gpus() -> Result<Vec<Entry>, Error> {
    let driver = Driver::load()?;
    let count = driver.device_count()?;
    (0..count)
        .map(|ordinal| {
            let device = driver.device(ordinal)?;
            entry(&device, format!("cuda:{ordinal}"), false)
        })
        .collect()
}

fn simulated() -> Result<Entry, Failure> {
    let choice = DeviceChoice::Simulated;
    let runtime = wellspring::Builder::new().open_choice(choice).map_err(Failure::no_device)?;
    entry(runtime.device(), choice.to_string(), true).map_err(Failure::no_device)
}

fn entry(device: &Device, named: String, simulated: bool) -> Result<Entry, Error> {
    let pools = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    let version = device.driver().version();
    Ok(Entry {
        device: named,
        name: device.name()?,
        total_bytes: device.total_bytes()?,
        driver: version.map(|version| format!("{}.{}", version / 1000, version % 1000 / 10)),
        vmm: device.has_virtual_memory(),
        // A driver that does not know the attribute has no pools.
        pools: device.attribute(pools).is_ok_and(|value| value != 0),
        simulated,
    })
}

fn table(listing: &Listing) -> String {
    let mut text = String::new();
    let mut row = |cells: [&str; 6]| {
        let [device, name, memory, driver, vmm, pools] = cells;
        let line = format!("{device:<8}  {name:<24}  {memory:>10}  {driver:<7}  {vmm:<4}  {pools}");
        let _ = writeln!(text, "{}", line.trim_end());
    };
    row(["device", "name", "memory", "driver", "vmm", "pools"]);
    for device in &listing.devices {
        let tenths = device.total_bytes / (GIB / 10);
        let memory = format!("{}.{} GiB", tenths / 10, tenths % 10);
        let driver = device.driver.as_deref().unwrap_or("-");
        let word = |is: bool| if is { "yes" } else { "no" };
        let (vmm, pools) = (word(device.vmm), word(device.pools));
        row([&device.device, &device.name, &memory, driver, vmm, pools]);
    }
    if let Some(reason) = &listing.no_gpu {
        let _ = writeln!(text, "no GPU: {reason}");
    }
    text
}
