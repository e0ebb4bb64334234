//! The simulated driver, called as the real one is: one topic a file.
#![allow(
    clippy::macro_metavars_in_unsafe,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests call the driver and unwrap what must be there"
)]

mod capture;
mod contexts;
mod deadlocks;
mod explore;
mod faults;
mod hazards;
mod host_functions;
mod lifetimes;
mod memory;
mod profiles;
mod random_programs;
mod real_time;
mod rig;
mod schedules;
mod streams;
mod tenancy;
mod threads;
