//! GPU memory for Rust programs that use more than one CUDA stream.
#![forbid(unsafe_code)]
