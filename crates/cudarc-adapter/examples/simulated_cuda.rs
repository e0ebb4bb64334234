//! The simulated driver as a shared library, for `neighbor` and `lost_reader` to run where there is
//! no GPU: link it under the names `libcuda.so.1` and `libcuda.so`, in a folder that the dynamic
//! linker searches. The crate's documentation has the commands.

#[path = "../../cuda-sim/examples/libcuda.rs"]
pub mod libcuda;
