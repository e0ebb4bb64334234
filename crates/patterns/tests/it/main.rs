//! The patterns on the simulated device, in virtual time.
#![forbid(unsafe_code)]

mod places;
mod table;
