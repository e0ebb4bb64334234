//! Writes Python values as a pickle of protocol 4, with the few opcodes that every reader of
//! memory snapshots knows.
//!
//! Nothing is kept but where texts and call stacks stand in the reader's memo. A dictionary or a
//! list is opened, filled and closed; what is put in between is counted by the caller alone.

use std::collections::HashMap;
use std::io::{self, Write};

/// How many items are put into a list at once, as Python does: what a reader must hold beside it.
const BATCH_ITEMS: usize = 1000;

/// A pickle under way.
#[derive(Debug)]
pub(super) struct Pickler<'a, W> {
    sink: W,
    memo_count: u32,
    texts: HashMap<&'a str, u32>,
}

/// A list that is being filled.
#[derive(Debug)]
pub(super) struct List {
    in_batch: usize,
}

impl<'a, W: Write> Pickler<'a, W> {
    pub(super) fn new(mut sink: W) -> io::Result<Self> {
        sink.write_all(&[0x80, 4])?;
        Ok(Self { sink, memo_count: 0, texts: HashMap::new() })
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.sink.write_all(b".")?;
        self.sink.flush()?;
        Ok(self.sink)
    }

    /// Opens a dictionary: keys and values follow, then [`Pickler::close_dict`].
    pub(super) fn open_dict(&mut self) -> io::Result<()> {
        self.sink.write_all(b"}(")
    }

    pub(super) fn close_dict(&mut self) -> io::Result<()> {
        self.sink.write_all(b"u")
    }

    /// Opens a list: before each item [`Pickler::item`], at the end [`Pickler::close_list`].
    pub(super) fn open_list(&mut self) -> io::Result<List> {
        self.sink.write_all(b"](")?;
        Ok(List { in_batch: 0 })
    }

    /// The next item of `list` follows.
    pub(super) fn item(&mut self, list: &mut List) -> io::Result<()> {
        if list.in_batch == BATCH_ITEMS {
            self.sink.write_all(b"e(")?;
            list.in_batch = 0;
        }
        list.in_batch += 1;
        Ok(())
    }

    pub(super) fn close_list(&mut self, _list: List) -> io::Result<()> {
        self.sink.write_all(b"e")
    }

    pub(super) fn empty_list(&mut self) -> io::Result<()> {
        self.sink.write_all(b"]")
    }

    /// A text, the second time and later as a reference to the first.
    pub(super) fn text(&mut self, text: &'a str) -> io::Result<()> {
        if let Some(place) = self.texts.get(text) {
            return self.recall(*place);
        }
        self.text_once(text)?;
        if let Some(place) = self.memorize()? {
            self.texts.insert(text, place);
        }
        Ok(())
    }

    /// A text that is not expected again.
    pub(super) fn text_once(&mut self, text: &str) -> io::Result<()> {
        let bytes = text.as_bytes();
        match (u8::try_from(bytes.len()), u32::try_from(bytes.len())) {
            (Ok(length), _) => self.sink.write_all(&[0x8c, length])?,
            (Err(_), Ok(length)) => {
                self.sink.write_all(b"X")?;
                self.sink.write_all(&length.to_le_bytes())?;
            }
            (Err(_), Err(_)) => {
                let kind = io::ErrorKind::InvalidInput;
                return Err(io::Error::new(kind, "a text is longer than 4 GiB"));
            }
        }
        self.sink.write_all(bytes)
    }

    pub(super) fn integer(&mut self, value: i64) -> io::Result<()> {
        if let Ok(byte) = u8::try_from(value) {
            return self.sink.write_all(&[b'K', byte]);
        }
        if let Ok(short) = u16::try_from(value) {
            self.sink.write_all(b"M")?;
            return self.sink.write_all(&short.to_le_bytes());
        }
        if let Ok(word) = i32::try_from(value) {
            self.sink.write_all(b"J")?;
            return self.sink.write_all(&word.to_le_bytes());
        }
        self.sink.write_all(&[0x8a, 8])?;
        self.sink.write_all(&value.to_le_bytes())
    }

    /// A number of bytes or an address, which the reader believes below 2^63; a handle of 64 bits
    /// becomes the signed number of the same bits, as in PyTorch's own files.
    pub(super) fn unsigned(&mut self, value: u64) -> io::Result<()> {
        self.integer(value.cast_signed())
    }

    pub(super) fn float(&mut self, value: f64) -> io::Result<()> {
        self.sink.write_all(b"G")?;
        self.sink.write_all(&value.to_be_bytes())
    }

    pub(super) fn boolean(&mut self, value: bool) -> io::Result<()> {
        self.sink.write_all(if value { &[0x88] } else { &[0x89] })
    }

    pub(super) fn none(&mut self) -> io::Result<()> {
        self.sink.write_all(b"N")
    }

    pub(super) fn pair(&mut self, (first, second): (u64, u64)) -> io::Result<()> {
        self.unsigned(first)?;
        self.unsigned(second)?;
        self.sink.write_all(&[0x86])
    }

    /// Keeps the value just written for [`Pickler::recall`]. Nothing comes of the one that would
    /// be too many for 32 bits.
    pub(super) fn memorize(&mut self) -> io::Result<Option<u32>> {
        let place = self.memo_count;
        let Some(count) = place.checked_add(1) else { return Ok(None) };
        self.memo_count = count;
        self.name_place(place, [b'q', b'r'])?;
        Ok(Some(place))
    }

    /// The value at `place` of the memo, once more.
    pub(super) fn recall(&mut self, place: u32) -> io::Result<()> {
        self.name_place(place, [b'h', b'j'])
    }

    fn name_place(&mut self, place: u32, [short, long]: [u8; 2]) -> io::Result<()> {
        if let Ok(byte) = u8::try_from(place) {
            return self.sink.write_all(&[short, byte]);
        }
        self.sink.write_all(&[long])?;
        self.sink.write_all(&place.to_le_bytes())
    }
}
