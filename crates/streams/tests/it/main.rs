//! The crate's public face on the simulated driver: every rule of order, and the litmus cases of
//! order, each with its dual.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a test that panics has failed"
)]

mod apart;
mod capture;
mod context;
mod controls;
mod events;
mod fences;
mod gates;
mod host_memory;
mod litmus;
mod memory;
mod observe;
mod operations;
mod random_programs;
mod rig;
mod settled;
mod slots;
mod streams_of_others;
mod threads;
mod types;
