//! The device kernels that Wellspring's tests, benches and replay run, as PTX text.
//!
//! What it does: carries `kernels/wellspring.ptx`, which `cargo xtask kernels` compiles from
//! `kernels/wellspring.cu`, and names its entries.
//!
//! With the feature `launch` it also declares them, in `launch`, which only the author of a kernel
//! can do; with `sim` it gives a simulated machine their bodies, in `simulated`.
//!
//! What it must not know: what the kernels are launched for.
//!
//! Start with [`PTX`] and [`entry`]. The parameters of each kernel are listed at its name, in
//! order; pointers are device addresses, and `u64` counts count elements.
//!
//! Invariants: the text is what the compiler wrote; every entry in it is named here; any launch
//! shape gives the same result.
#![deny(unsafe_code)]

#[cfg(feature = "launch")]
pub mod launch;
#[cfg(feature = "sim")]
pub mod simulated;

/// The module, for any device from compute capability 7.5 up and any driver from CUDA 13.0 up.
///
/// It ends without a zero byte; add one before it is given to the driver.
pub const PTX: &str = include_str!("../../../kernels/wellspring.ptx");

/// The names of the entries, each with its parameters.
pub mod entry {
    /// `nop()` does nothing.
    pub const NOP: &str = "nop";
    /// `spin(nanoseconds: u64)` keeps its stream busy that long.
    pub const SPIN: &str = "spin";
    /// `fill_u32(out: *u32, count: u64, value: u32)` writes `value` to `count` words.
    pub const FILL_U32: &str = "fill_u32";
    /// `check_u32(in: *u32, count: u64, expected: u32, mismatches: *u64)` adds to `*mismatches`
    /// how many of `count` words are not `expected`.
    pub const CHECK_U32: &str = "check_u32";
    /// `stamp(out: *u32, words: u64, stride_words: u64, value: u32)` writes word 0, every
    /// `stride_words`-th word and the last word.
    pub const STAMP: &str = "stamp";
    /// `check_stamp(in: *u32, words: u64, stride_words: u64, expected: u32, mismatches: *u64)`
    /// adds to `*mismatches` how many of the words that [`STAMP`] writes are not `expected`.
    pub const CHECK_STAMP: &str = "check_stamp";
    /// `gate(flag: *u32)` holds its stream until the host makes `*flag` other than zero; it gives
    /// up after 20 seconds.
    pub const GATE: &str = "gate";
    /// `put(p: *u32, value: u32)` writes one word.
    pub const PUT: &str = "put";
    /// `get(p: *u32, out: *u32)` copies one word.
    pub const GET: &str = "get";
    /// `write_bad(p: *u32)` writes to an address that is meant to be wrong.
    pub const WRITE_BAD: &str = "write_bad";
    /// `scale_add(out: *f32, in: *f32, factor: f32, count: u64)` adds `factor` times the input to
    /// the output; product and sum are rounded one after the other.
    pub const SCALE_ADD: &str = "scale_add";
    /// `copy_u32(out: *u32, in: *u32, count: u64)` copies `count` words.
    pub const COPY_U32: &str = "copy_u32";
    /// `produce(out: *u32, words: u64, stride_words: u64, value: u32, nanoseconds: u64)` does what
    /// [`STAMP`] does, and keeps its stream busy that long.
    pub const PRODUCE: &str = "produce";
    /// `consume(out: *u32, out_words: u64, in: *u32, words: u64, stride_words: u64, expected: u32,
    /// mismatches: *u64, nanoseconds: u64)` keeps its stream busy that long, then does what
    /// [`CHECK_STAMP`] does to the input, and stamps the output with `expected`.
    pub const CONSUME: &str = "consume";

    /// All of them, in the order of the source.
    pub const ALL: [&str; 14] = [
        NOP,
        SPIN,
        FILL_U32,
        CHECK_U32,
        STAMP,
        CHECK_STAMP,
        GATE,
        PUT,
        GET,
        WRITE_BAD,
        SCALE_ADD,
        COPY_U32,
        PRODUCE,
        CONSUME,
    ];
}

#[cfg(test)]
mod tests;
