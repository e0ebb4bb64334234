//! The `wellspring` command.
#![forbid(unsafe_code)]

fn main() {}
