//! Has the compiler compare each C function's signature with the table's.

use cuda_sys::{MissingEntryPoint, Table};

/// What a table gives for an entry point of signature `F`: the function, or perhaps not.
pub(crate) trait Gives<F> {}

impl<F> Gives<F> for F {}

impl<F> Gives<F> for Result<F, MissingEntryPoint> {}

pub(crate) fn has_signature<F>(_: &impl Gives<F>) {}

#[test]
fn shims_have_the_signatures_of_the_table() {
    let machine = crate::Machine::builder().build();
    let table: &Table = &machine.table();
    super::start::have_declared_signatures(table);
    super::context::have_declared_signatures(table);
    super::memory::have_declared_signatures(table);
    super::transfer::have_declared_signatures(table);
    super::vmm::have_declared_signatures(table);
    super::pool::have_declared_signatures(table);
    super::stream::have_declared_signatures(table);
    super::event::have_declared_signatures(table);
    super::host::have_declared_signatures(table);
    super::graph::have_declared_signatures(table);
    super::peer::have_declared_signatures(table);
    super::ipc::have_declared_signatures(table);
}
