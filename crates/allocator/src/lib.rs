//! Caching GPU memory allocator.
#![forbid(unsafe_code)]
