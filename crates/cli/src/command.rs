//! The subcommands, one file each.

pub(crate) mod advise;
pub(crate) mod convert;
pub(crate) mod devices;
pub(crate) mod diff;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod shell;
pub(crate) mod summary;
pub(crate) mod what_if;
