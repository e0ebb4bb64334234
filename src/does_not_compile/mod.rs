//! What must not compile, each beside what differs from it by the mistake alone and does.
//!
//! Documentation tests: an example under `compile_fail` passes only if it does not compile, and
//! where the compiler's unstable features are on, only if it fails with the code that it names.

mod memory;
mod work;
