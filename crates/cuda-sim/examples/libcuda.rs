//! The simulated driver as a shared library with the driver's own symbols.
//!
//! `cargo build -p cuda-sim --example cuda` makes `examples/libcuda.so`: one machine with one
//! H200 for the whole process, in virtual time. A program that loads it in place of the driver,
//! through `cuda_sys::load_from` or the dynamic linker, runs without a GPU. The kernels of the
//! workspace have bodies there; a launch of any other is refused by name.

use std::ffi;
use std::sync::{Arc, LazyLock};

use cuda_sim::{Machine, Schedule};
use cuda_sys::*;

static MACHINE: LazyLock<Machine> = LazyLock::new(|| {
    let machine = Machine::builder().schedule(Schedule::Timed).build();
    kernels::simulated::register(&machine);
    machine
});
static TABLE: LazyLock<Arc<Table>> = LazyLock::new(|| MACHINE.table());

/// Exports every entry point of the table, by its symbol.
macro_rules! entry_points {
    ($($need:ident $field:ident $since:literal $name:literal $symbol:literal
        fn($($type:ty),* $(,)?) -> CUresult;)*) => {
        $(export! { $need $field $symbol [a b c d e f g h i j k l] [] $($type,)* })*
    };
}

/// Gives each parameter a name, and then defines the function.
macro_rules! export {
    ($need:ident $field:ident $symbol:literal [$name:ident $($names:ident)*] [$($done:tt)*]
        $type:ty, $($types:ty,)*) => {
        export! { $need $field $symbol [$($names)*] [$($done)* ($name: $type)] $($types,)* }
    };
    (required $field:ident $symbol:literal [$($names:ident)*] [$(($name:ident: $type:ty))*]) => {
        #[doc = concat!("`", $symbol, "` of the simulated driver.")]
        ///
        /// # Safety
        /// - Each argument is what the driver's documentation asks for.
        #[unsafe(export_name = $symbol)]
        #[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
        pub unsafe extern "C" fn $field($($name: $type),*) -> CUresult {
            // SAFETY: the caller's promise is the table's.
            unsafe { TABLE.$field()($($name),*) }
        }
    };
    (optional $field:ident $symbol:literal [$($names:ident)*] [$(($name:ident: $type:ty))*]) => {
        #[doc = concat!("`", $symbol, "` of the simulated driver.")]
        ///
        /// # Safety
        /// - Each argument is what the driver's documentation asks for.
        #[unsafe(export_name = $symbol)]
        #[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
        pub unsafe extern "C" fn $field($($name: $type),*) -> CUresult {
            match TABLE.$field() {
                // SAFETY: the caller's promise is the table's.
                Ok(call) => unsafe { call($($name),*) },
                Err(missing) => missing.into(),
            }
        }
    };
}

include!("../../cuda-sys/bindings/table.rs");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_symbols_are_those_of_the_header() {
        let mut count = 0;
        // SAFETY: the call takes a number; the symbol is the one exported above.
        assert_eq!(unsafe { cuInit(0) }, CUresult::CUDA_SUCCESS);
        // SAFETY: the result is the test's.
        let code = unsafe { cuDeviceGetCount(&raw mut count) };
        assert_eq!((code, count), (CUresult::CUDA_SUCCESS, 1));
        let (mut version, mut context, mut address) = (0, std::ptr::null_mut(), 0);
        // SAFETY: the result is the test's.
        let code = unsafe { cuDriverGetVersion(&raw mut version) };
        assert_eq!((code, version), (CUresult::CUDA_SUCCESS, 13_000));
        // SAFETY: as above.
        let code = unsafe { cuDevicePrimaryCtxRetain(&raw mut context, 0) };
        assert_eq!(code, CUresult::CUDA_SUCCESS);
        // SAFETY: the context was just given.
        assert_eq!(unsafe { cuCtxSetCurrent(context) }, CUresult::CUDA_SUCCESS);
        // SAFETY: the result is the test's.
        let code = unsafe { cuMemAlloc_v2(&raw mut address, 512) };
        assert_eq!(code, CUresult::CUDA_SUCCESS);
        assert_eq!(MACHINE.used_bytes(), 512);
    }
}
