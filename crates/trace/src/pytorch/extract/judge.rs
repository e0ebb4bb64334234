//! Which numbers and states are believed.

use crate::pytorch::error::{Place, ReadError};
use crate::pytorch::heap::Value;
use crate::pytorch::snapshot::BlockState;
use crate::pytorch::word::Word;

/// The largest size that is believed: 256 TiB, more than any device's address space maps.
pub(super) const SIZE_BYTES_MAX: u64 = 1 << 48;
/// The largest address that is believed; a segment behind it still ends within 64 bits.
pub(super) const ADDRESS_MAX: u64 = (1 << 63) - 1;
/// The largest request that may have failed: PyTorch rejects above 2^60 without a trace entry.
pub(super) const FAILED_BYTES_MAX: u64 = 1 << 62;
/// More devices than any host has.
pub(super) const DEVICE_MAX: u64 = u16::MAX as u64;

/// A size or an address of a segment or block.
pub(super) fn size(
    value: Value,
    place: Place,
    key: &'static str,
    limit: u64,
) -> Result<u64, ReadError> {
    match value {
        Value::Int(value) => judge(value, place, key, limit),
        _ => Err(not_an_integer(place, key)),
    }
}

pub(super) fn judge(
    value: i64,
    place: Place,
    key: &'static str,
    limit: u64,
) -> Result<u64, ReadError> {
    let size = u64::try_from(value).map_err(|_| ReadError::Negative { place, key, value })?;
    if limit < size {
        return Err(ReadError::Absurd { place, key, value: size, limit });
    }
    Ok(size)
}

/// PyTorch writes handles as signed numbers; the bits are what counts.
pub(super) fn handle(value: Value, place: Place) -> Result<u64, ReadError> {
    match value {
        Value::Int(value) => Ok(value.cast_unsigned()),
        _ => Err(not_an_integer(place, "stream")),
    }
}

pub(super) fn block_state(value: Value, place: Place) -> Result<BlockState, ReadError> {
    match value {
        Value::Word(Word::ActiveAllocated) => Ok(BlockState::Allocated),
        Value::Word(Word::ActivePendingFree | Word::ActiveAwaitingFree) => {
            Ok(BlockState::PendingFree)
        }
        Value::Word(Word::Inactive) => Ok(BlockState::Inactive),
        _ => Err(ReadError::WrongType {
            place,
            key: "state",
            expected: "active_allocated, active_pending_free or inactive",
        }),
    }
}

pub(super) const fn not_an_integer(place: Place, key: &'static str) -> ReadError {
    ReadError::WrongType { place, key, expected: "an integer of 64 bits" }
}

pub(super) const fn describe(value: Value) -> &'static str {
    match value {
        Value::None => "None",
        Value::Bool(_) => "a bool",
        Value::Int(_) | Value::HugeInt => "an integer",
        Value::Float(_) => "a float",
        Value::Word(_) | Value::Text(_) => "a text",
        Value::Passed => "a long text or bytes",
        Value::List(_) => "a list",
        Value::Tuple(_) => "a tuple",
        Value::Dict(_) => "a dict",
    }
}
