//! What each driver call does, once its arguments are values.

mod capture;
mod context;
mod event;
mod host;
pub(crate) mod memory;
mod pool;
mod stream;
mod transfer;
mod vmm;
