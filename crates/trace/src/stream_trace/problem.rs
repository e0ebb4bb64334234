//! What may be wrong with an entry of a stream trace, with the numbers that were wrong.

use super::ENTRY_BYTES_MAX;

/// What is wrong with an entry, whatever kind of file has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// It names a thing that no entry before it declared.
    #[error("{what} {number} was not declared: there are {count} before it")]
    NotDeclared {
        /// A text, place, stream, block, operation or record.
        what: &'static str,
        /// Its number.
        number: u32,
        /// How many were declared.
        count: u32,
    },
    /// The same, where things are counted back from the next one.
    #[error("the {what} {back} before the next was not declared: there are {count} before it")]
    NotBack {
        /// A block, operation or record.
        what: &'static str,
        /// How far back.
        back: u64,
        /// How many were declared.
        count: u32,
    },
    /// A field with a few values has another one.
    #[error("{what} is {found}, where at most {most} is known")]
    NotKnown {
        /// The field.
        what: &'static str,
        /// What it says.
        found: u64,
        /// The largest value that is known.
        most: u64,
    },
    /// Its fields need more bytes than it has.
    #[error("an entry of {bytes} bytes ends within a field")]
    EndsWithin {
        /// Its bytes.
        bytes: usize,
    },
    /// A text is longer than what is left of the entry.
    #[error("a text of {bytes} bytes where {left} are left of its entry")]
    LongText {
        /// What the text is said to have.
        bytes: u64,
        /// What is there.
        left: usize,
    },
    /// A text is not UTF-8.
    #[error("a text is not UTF-8 behind its byte {valid_bytes}")]
    NotUtf8 {
        /// How many bytes of it are.
        valid_bytes: usize,
    },
    /// A number is spelled with more bits than any has.
    #[error("a number is not below 2^64")]
    Above64Bits,
    /// A number of things, a line or a column has more than 32 bits.
    #[error("{found} is not below 2^32")]
    Above32Bits {
        /// The number.
        found: u64,
    },
    /// A signed number is beyond 32 bits.
    #[error("{found} is beyond 32 bits with a sign")]
    SignedBeyond32Bits {
        /// The number.
        found: i64,
    },
    /// The device's time of an operation is before its zero.
    #[error("an operation that ended at {end_ns} ns lasted {lasted_ns} ns")]
    BeganBeforeZero {
        /// Its end.
        end_ns: u64,
        /// How long it is said to have lasted.
        lasted_ns: u64,
    },
    /// An operation ends before it begins.
    #[error("an operation ended at {end_ns} ns, before it began at {start_ns} ns")]
    EndedBeforeBegan {
        /// Its beginning.
        start_ns: u64,
        /// Its end.
        end_ns: u64,
    },
    /// No number is left for the thing that it declares.
    #[error("more than 2^32 things of one kind")]
    TooMany,
    /// The host's times go back.
    #[error(
        "an entry {found_ns} ns after the beginning is earlier than the one before it, at \
         {before_ns} ns"
    )]
    Earlier {
        /// Its time.
        found_ns: u64,
        /// The time of the one before.
        before_ns: u64,
    },
    /// The host's time has more than 64 bits.
    #[error("an entry {passed_ns} ns after {before_ns} ns is beyond 2^64")]
    TooLate {
        /// The time of the one before.
        before_ns: u64,
        /// What is said to have passed since.
        passed_ns: u64,
    },
    /// It is longer than any may be.
    #[error("an entry of {bytes} bytes is longer than {ENTRY_BYTES_MAX}")]
    LongEntry {
        /// Its bytes.
        bytes: u64,
    },
    /// The end says how many entries there were, and there were others.
    #[error("the end counts {found} entries, where {count} are before it")]
    OtherCount {
        /// What the end says.
        found: u64,
        /// How many there are.
        count: u64,
    },
    /// The end has fields that it never had.
    #[error("the end has further fields")]
    EndHasFields,
    /// The file goes on behind the end.
    #[error("there is something behind the end")]
    BehindEnd,
}
