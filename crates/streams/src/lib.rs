//! CUDA streams and events with an order that is known.
#![deny(unsafe_code)]

mod error;
pub mod order;
mod sync;

pub use error::{Code, DriverError, Error};
