//! The whole road on the simulated driver: every scenario under many schedules, threads against
//! a model, and for each check the proof that its absence is caught.
#![deny(unsafe_code)]
#![expect(clippy::indexing_slicing, reason = "a test that indexes wrongly is to fail")]
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]
#![allow(clippy::wildcard_enum_match_arm, reason = "what is not expected is to be told from it")]
#![expect(dead_code, unreachable_pub, reason = "two test binaries share scenarios and rig")]

#[macro_use]
#[path = "../scenarios/mod.rs"]
mod scenarios;
#[path = "../litmus/mod.rs"]
mod litmus;

mod checked;
mod controls;
mod each_call_fails;
#[path = "../reports/mod.rs"]
mod reports;

mod failing_calls;
mod observed;
mod pace;
mod peaks;
mod planted;
#[path = "../checker/mod.rs"]
mod planted_faults;
mod pool_threads;
mod recorded;
mod scheduled;
mod short_lived;
mod simulated_rig;
mod stage;
mod threads;
mod turns;
mod two_devices;
mod users;
