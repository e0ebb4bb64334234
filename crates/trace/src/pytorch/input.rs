//! From a file's bytes to a pickle's bytes: finds the compression by content and undoes it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::Progress;
use super::error::ReadError;
use crate::chrome::BEGIN as JSON_BEGIN;
use crate::csv::BEGIN as CSV_BEGIN;
use crate::rmm::HEADER;
use crate::stream_trace::MAGIC;

const BUFFER_BYTES: usize = 128 << 10;
/// zstd's own default for what a decoder must accept, and what `--ultra -22` asks for.
const ZSTD_WINDOW_BYTES_MAX: u64 = 128 << 20;
/// xz's largest preset needs 65 MiB; dictionaries may be declared up to 4 GiB.
const XZ_MEMORY_KIB_MAX: u32 = 512 << 10;

const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const HEAD_BYTES: u64 = 8;
/// What editors and spreadsheets put before a text in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// First bytes of things that are often taken for snapshots, and what to call them.
const FOREIGN: &[(&[u8], &str)] = &[
    (&MAGIC, "is a stream trace"),
    (b"Thread,T", "is an RMM log"),
    (b"index,ti", "is CSV of a trace"),
    (b"PK\x03\x04", "is a zip archive, which is read by the name of its own file alone"),
    (b"PK\x05\x06", "is an empty zip archive"),
    (b"BZh", "is compressed with bzip2"),
    (&[0x04, 0x22, 0x4d, 0x18], "is compressed with lz4"),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive"),
    (&[0x5d, 0, 0], "is compressed with the old lzma format"),
    (&[0x1f, 0x9d], "is compressed with compress"),
    (b"\x7fELF", "is a program"),
    (b"\x89HDF", "is an HDF5 file"),
    (b"{", "starts like JSON"),
    (b"[", "starts like JSON"),
    (b"<", "starts like HTML or XML"),
];

/// A file's bytes, decompressed as they are asked for.
pub(crate) struct Input<'a> {
    reader: Box<dyn Read + 'a>,
    compression: Option<&'static str>,
    file_ended: Rc<Cell<bool>>,
    /// What [`Input::peek`] read and nobody was given yet.
    peeked: VecDeque<u8>,
    /// What kept it from reading more, for who reads that far.
    failed: Option<ReadError>,
}

impl<'a> Input<'a> {
    /// Looks at the first bytes and picks the decompressor.
    pub(crate) fn open(
        reader: impl Read + 'a,
        total_bytes: u64,
        progress: Option<Progress<'a>>,
    ) -> Result<Self, ReadError> {
        let file_ended = Rc::new(Cell::new(false));
        let metered =
            Metered { reader, done: 0, total: total_bytes, progress, ended: file_ended.clone() };
        let mut buffered = BufReader::with_capacity(BUFFER_BYTES, metered);
        let mut head = Vec::new();
        buffered
            .by_ref()
            .take(HEAD_BYTES)
            .read_to_end(&mut head)
            .map_err(|source| ReadError::Io { source })?;
        let compression = recognize(&head)?;
        let whole = io::Cursor::new(head).chain(buffered);
        let reader: Box<dyn Read + 'a> = match compression {
            Some(Compression::Gzip) => Box::new(MultiGzDecoder::new(whole)),
            Some(Compression::Xz) => {
                Box::new(XzReader::new_mem_limit(whole, true, XZ_MEMORY_KIB_MAX))
            }
            Some(Compression::Zstd) => Box::new(ZstdFrames::new(whole)),
            None => Box::new(whole),
        };
        Ok(Self {
            reader,
            compression: compression.map(Compression::name),
            file_ended,
            peeked: VecDeque::new(),
            failed: None,
        })
    }

    /// The first `bytes_max` decompressed bytes, or fewer where there are no more, which are read
    /// again after. Only for who has read nothing yet.
    ///
    /// So a file is opened once, and may be a pipe.
    pub(crate) fn peek(&mut self, bytes_max: usize) -> &[u8] {
        let mut room = vec![0; bytes_max];
        while self.peeked.len() < bytes_max && self.failed.is_none() {
            let wanted = bytes_max - self.peeked.len();
            let into = room.get_mut(..wanted).unwrap_or_default();
            match self.read_on(into, 0) {
                Ok(0) => break,
                Ok(count) => self.peeked.extend(room.get(..count).unwrap_or_default()),
                Err(error) => self.failed = Some(error),
            }
        }
        self.peeked.make_contiguous()
    }

    /// Leaves out so many of the bytes that were looked at. Only for who has read nothing yet.
    pub(crate) fn pass(&mut self, count: usize) {
        self.peeked.drain(..count.min(self.peeked.len()));
    }

    /// Reads up to `into.len()` decompressed bytes, of which `offset` were read before.
    pub(crate) fn read(&mut self, into: &mut [u8], offset: u64) -> Result<usize, ReadError> {
        if !self.peeked.is_empty() {
            return self.peeked.read(into).map_err(|source| ReadError::Io { source });
        }
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.read_on(into, offset),
        }
    }

    fn read_on(&mut self, into: &mut [u8], offset: u64) -> Result<usize, ReadError> {
        loop {
            match self.reader.read(into) {
                Ok(read_count) => return Ok(read_count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(self.failure(source, offset)),
            }
        }
    }

    fn failure(&self, source: io::Error, offset: u64) -> ReadError {
        match self.compression {
            None => ReadError::Io { source },
            // A decompressor that stumbles over the end of the file wanted more of it.
            Some(_) if self.file_ended.get() && !is_verdict(&source) => {
                ReadError::Truncated { offset }
            }
            Some(compression) => ReadError::Damaged { compression, offset, source },
        }
    }
}

/// Whether a decompressor's error judges bytes it has rather than asks for more.
fn is_verdict(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
}

#[derive(Clone, Copy)]
enum Compression {
    Gzip,
    Xz,
    Zstd,
}

impl Compression {
    const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        }
    }
}

/// Says how a file with these first bytes is compressed, if it can be a trace at all.
fn recognize(head: &[u8]) -> Result<Option<Compression>, ReadError> {
    for (magic, compression) in
        [(GZIP, Compression::Gzip), (XZ, Compression::Xz), (ZSTD, Compression::Zstd)]
    {
        if head.starts_with(magic) {
            return Ok(Some(compression));
        }
        if !head.is_empty() && magic.starts_with(head) {
            return Err(ReadError::Truncated { offset: 0 });
        }
    }
    // Skippable frames, which some zstd writers put first: 0x184d2a50 to 0x184d2a5f.
    if let [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] = head {
        return Ok(Some(Compression::Zstd));
    }
    // Traces of other kinds may be plain too; who wants a pickle finds out when it asks for one.
    let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let is_other = MAGIC.starts_with(head)
        || [HEADER.as_bytes(), CSV_BEGIN].iter().any(|it| it.starts_with(text));
    if text.is_empty() || !(is_other || text.starts_with(JSON_BEGIN)) {
        check_pickle_start(head)?;
    }
    Ok(None)
}

/// Refuses what does not begin as a pickle of protocol 2 or later.
pub(super) fn check_pickle_start(head: &[u8]) -> Result<(), ReadError> {
    match head {
        [] => Err(ReadError::Empty),
        [0x80] | [0x80, 2..=5, ..] => Ok(()),
        [0x80, ..] => Err(ReadError::Foreign { found: "is a pickle of an unknown protocol" }),
        _ => {
            let known = FOREIGN.iter().find(|(magic, _)| head.starts_with(magic));
            let again = [GZIP, XZ, ZSTD].iter().any(|magic| head.starts_with(magic));
            let found = match known {
                Some((_, found)) => found,
                None if again => "is compressed twice",
                None => "does not begin with a pickle protocol",
            };
            Err(ReadError::Foreign { found })
        }
    }
}

/// Counts what is read from the file and tells the caller.
struct Metered<'a, R> {
    reader: R,
    done: u64,
    total: u64,
    progress: Option<Progress<'a>>,
    ended: Rc<Cell<bool>>,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read_count = self.reader.read(into)?;
        if read_count == 0 && !into.is_empty() {
            self.ended.set(true);
        }
        self.done = self.done.saturating_add(u64::try_from(read_count).unwrap_or(u64::MAX));
        if let Some(progress) = &mut self.progress {
            progress(self.done, self.total);
        }
        Ok(read_count)
    }
}

/// All zstd frames of a file, one after the other, with their checksums checked.
struct ZstdFrames<R> {
    source: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(ZSTD_WINDOW_BYTES_MAX);
        Self { source, decoder, in_frame: false }
    }

    /// Starts the next frame; false at the end of the file.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = self.source.by_ref().take(u64::from(length));
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }

    fn check_sum(&self) -> io::Result<()> {
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(stored), Some(calculated)) if stored != calculated => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum does not match"))
            }
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.in_frame {
                if !self.next_frame()? {
                    return Ok(0);
                }
                self.in_frame = true;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            }
            let read_count = self.decoder.read(into)?;
            if 0 < read_count {
                return Ok(read_count);
            }
            self.check_sum()?;
            self.in_frame = false;
        }
    }
}
