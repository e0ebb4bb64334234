//! The probes, by what they are about. Each function belongs to one case.

pub(crate) mod capture;
pub(crate) mod capture_calls;
pub(crate) mod contexts;
pub(crate) mod ends;
pub(crate) mod kernels;
pub(crate) mod memory;
pub(crate) mod queues;
pub(crate) mod start;
pub(crate) mod streams;
pub(crate) mod vmm;
