//! Serves traces.
#![forbid(unsafe_code)]
