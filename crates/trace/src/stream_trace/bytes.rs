//! Numbers and texts as bytes: little-endian groups of seven bits, the last without the top bit.

use super::problem::Problem;

/// Appends a number in one to ten bytes.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = u8::try_from(number & 0x7f).expect("seven bits fit");
        number >>= 7;
        if number == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

/// Appends a signed number, small ones of either sign in few bytes.
pub(super) fn put_signed(out: &mut Vec<u8>, number: i32) {
    let number = i64::from(number);
    put_number(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

/// Appends a text behind its length.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, u64::try_from(text.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(text.as_bytes());
}

/// A number that is spelled out by bytes given one at a time.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Spelled {
    value: u64,
    shift: u32,
}

impl Spelled {
    /// Takes one byte; gives the number with its last one.
    pub(super) fn take(&mut self, byte: u8) -> Result<Option<u64>, Problem> {
        let low = u64::from(byte & 0x7f);
        if 63 < self.shift || (self.shift == 63 && 1 < low) {
            return Err(Problem::Above64Bits);
        }
        self.value |= low << self.shift;
        self.shift += 7;
        Ok((byte & 0x80 == 0).then_some(self.value))
    }
}

/// The bytes of one entry, taken from the front.
#[derive(Debug, Clone, Copy)]
pub(super) struct Body<'a> {
    rest: &'a [u8],
    bytes: usize,
}

impl<'a> Body<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, bytes: bytes.len() }
    }

    pub(super) fn byte(&mut self) -> Result<u8, Problem> {
        let split = self.rest.split_first();
        let (&first, rest) = split.ok_or(Problem::EndsWithin { bytes: self.bytes })?;
        self.rest = rest;
        Ok(first)
    }

    pub(super) fn number(&mut self) -> Result<u64, Problem> {
        let mut spelled = Spelled::default();
        loop {
            if let Some(number) = spelled.take(self.byte()?)? {
                return Ok(number);
            }
        }
    }

    pub(super) fn small(&mut self) -> Result<u32, Problem> {
        let found = self.number()?;
        u32::try_from(found).map_err(|_| Problem::Above32Bits { found })
    }

    pub(super) fn signed(&mut self) -> Result<i32, Problem> {
        let zigzag = self.number()?;
        let value = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
        i32::try_from(value).map_err(|_| Problem::SignedBeyond32Bits { found: value })
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Problem> {
        let bytes = self.number()?;
        let split = usize::try_from(bytes).ok().and_then(|bytes| self.rest.split_at_checked(bytes));
        let (text, rest) = split.ok_or(Problem::LongText { bytes, left: self.rest.len() })?;
        self.rest = rest;
        std::str::from_utf8(text)
            .map_err(|error| Problem::NotUtf8 { valid_bytes: error.valid_up_to() })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{Body, put_number, put_signed};

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::MAX >> 1, u64::MAX] {
            let mut out = Vec::new();
            put_number(&mut out, number);
            assert!(out.len() <= 10);
            assert_eq!(Body::new(&out).number(), Ok(number));
        }
        for number in [0, -1, 1, 63, -64, i32::MAX, i32::MIN] {
            let mut out = Vec::new();
            put_signed(&mut out, number);
            assert_eq!(Body::new(&out).signed(), Ok(number));
        }
    }

    #[test]
    fn a_number_beyond_64_bits_is_refused() {
        assert!(Body::new(&[0xff; 11]).number().is_err());
        let mut two_to_the_64 = [0x80; 10];
        two_to_the_64[9] = 2;
        assert!(Body::new(&two_to_the_64).number().is_err());
    }
}
