//! The C side: all unsafe code of the crate is here.
//!
//! Each file defines entry points with [`shims!`]: a safe function over cooked arguments, and a
//! C function, generic over the slot's number, that cooks them and calls it.

pub(crate) mod raw;

mod context;
mod event;
mod graph;
mod host;
mod ipc;
mod memory;
mod peer;
mod pool;
#[cfg(test)]
mod signatures;
mod start;
mod stream;
mod transfer;
mod vmm;

use std::ffi::c_void;

/// Defines entry points and a `find` that gives their C functions for one slot.
macro_rules! shims {
    ($($(#[$note:meta])* $entry:literal $name:ident
        ($call:ident $(, $argument:ident: $type:ty)* $(,)?) $body:block)*) => {
        $(
            $(#[$note])*
            #[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
            fn $name(
                $call: &mut $crate::call::Call,
                $($argument: <$type as $crate::shims::raw::Raw>::Cooked),*
            ) -> $crate::state::Answer $body
        )*

        /// Compiles only if each C function has the signature that the header declares.
        #[cfg(test)]
        pub(super) fn have_declared_signatures(table: &cuda_sys::Table) {
            $($crate::shims::signatures::has_signature::<
                unsafe extern "C" fn($($type),*) -> cuda_sys::CUresult,
            >(&table.$name());)*
        }

        /// The C function of an entry point, for one slot.
        pub(super) fn find<const SLOT: usize>(name: &str) -> Option<*const std::ffi::c_void> {
            match name {
                $($entry => {
                    /// # Safety
                    /// - Each argument is what the driver's documentation asks for.
                    unsafe extern "C" fn shim<const SLOT: usize>(
                        $($argument: $type),*
                    ) -> cuda_sys::CUresult {
                        #[allow(
                            clippy::too_many_arguments,
                            reason = "the driver's own signature"
                        )]
                        fn inner(
                            slot: usize,
                            $($argument: <$type as $crate::shims::raw::Raw>::Cooked),*
                        ) -> cuda_sys::CUresult {
                            const ENTRY: usize = $crate::call::entry_index($entry);
                            $crate::call::run(slot, ENTRY, |call| $name(call, $($argument),*))
                        }
                        $(
                            // SAFETY: the caller hands over what the entry point asks for.
                            let $argument = unsafe {
                                $crate::shims::raw::Raw::cook($argument)
                            };
                        )*
                        inner(SLOT, $($argument),*)
                    }
                    let function: unsafe extern "C" fn($($type),*) -> cuda_sys::CUresult =
                        shim::<SLOT>;
                    Some(function as *const std::ffi::c_void)
                })*
                _ => None,
            }
        }
    };
}
use shims;

/// The C function of an entry point, for one slot; `None` for what is not simulated.
pub(crate) fn find<const SLOT: usize>(name: &str) -> Option<*const c_void> {
    start::find::<SLOT>(name)
        .or_else(|| context::find::<SLOT>(name))
        .or_else(|| memory::find::<SLOT>(name))
        .or_else(|| transfer::find::<SLOT>(name))
        .or_else(|| vmm::find::<SLOT>(name))
        .or_else(|| pool::find::<SLOT>(name))
        .or_else(|| stream::find::<SLOT>(name))
        .or_else(|| event::find::<SLOT>(name))
        .or_else(|| host::find::<SLOT>(name))
        .or_else(|| graph::find::<SLOT>(name))
        .or_else(|| peer::find::<SLOT>(name))
        .or_else(|| ipc::find::<SLOT>(name))
}

/// Fills a table from what [`find`] gives.
pub(crate) fn fill(
    version: u32,
    find: impl FnMut(&cuda_sys::EntryPoint, u64) -> *const c_void,
) -> cuda_sys::Table {
    // SAFETY: each function was made by `shims!` with the parameters that the header declares
    // for its entry point, which a test has the compiler compare, and is never unloaded.
    let filled = unsafe { cuda_sys::Table::fill(Some(version), find) };
    filled.expect("every required entry point is simulated and cannot be removed")
}
