//! The raw CUDA driver API: types, signatures, and a function table that is filled at run time.
//!
//! What it does: declares the driver's types and entry points as the header has them, and fills a
//! [`Table`] of function pointers from any source that turns a name into a pointer: the installed
//! driver ([`load`]), a library at a path ([`load_from`]), or a closure ([`Table::fill`]).
//!
//! What it must not know: ownership, policy, order. Every call through the table is `unsafe`, and
//! its rules are the driver's own.
//!
//! Start with [`load`], or with [`Table`].
//!
//! Invariants: building and testing need no CUDA; a missing driver or entry point is an error
//! value; an enumeration value this version does not know stays a number; the driver's library
//! is never unloaded while a table of it lives.

#[expect(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    missing_debug_implementations,
    clippy::allow_attributes_without_reason,
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::undocumented_unsafe_blocks,
    reason = "generated from the header, whose names and shapes are the driver's"
)]
mod driver {
    include!(env!("CUDA_SYS_BINDINGS"));
}

mod error;
mod load;
mod table;

pub use driver::*;
pub use error::{LoadError, MissingEntryPoint};
pub use load::{load, load_from};
pub use table::{EntryPoint, Table};
