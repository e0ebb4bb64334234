//! The simulated driver as a shared library, for `lost_reader` to run where there is no GPU: link
//! it under the name `libcuda.so.1`, in a folder that the dynamic linker searches.

#[path = "../../cuda-sim/examples/libcuda.rs"]
pub mod libcuda;
