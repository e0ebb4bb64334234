//! The subcommands, one file each.

pub(crate) mod advise;
pub(crate) mod devices;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod what_if;
