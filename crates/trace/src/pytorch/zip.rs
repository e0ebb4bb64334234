//! The one file in a zip archive, decompressed as it is asked for.
//!
//! The archive's directory says where the file lies and how it is compressed; from there on it is
//! read like any other, within the same limits, and its checksum is compared at the end.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use zip::CompressionMethod;

use super::error::ReadError;

/// How every archive begins that holds something.
pub(super) const MAGIC: &[u8] = b"PK\x03\x04";

/// Files that archivers add for themselves.
const ADDED: &str = "__MACOSX/";

struct Member {
    start: u64,
    compressed_bytes: u64,
    bytes: u64,
    checksum: u32,
    method: CompressionMethod,
}

/// Opens the only file in the archive `file`, and says how many bytes it claims to have.
pub(super) fn open_member(mut file: File) -> Result<(Box<dyn Read>, u64), ReadError> {
    let member = find(&mut file)?;
    file.seek(SeekFrom::Start(member.start)).map_err(|source| ReadError::Io { source })?;
    let compressed = io::BufReader::new(file).take(member.compressed_bytes);
    let reader: Box<dyn Read> = if member.method == CompressionMethod::Stored {
        Box::new(compressed)
    } else if member.method == CompressionMethod::Deflated {
        Box::new(DeflateDecoder::new(compressed))
    } else {
        return Err(foreign("is a zip archive, compressed with something else than deflate"));
    };
    let checked = Checked { reader, crc: Crc::new(), checksum: member.checksum };
    Ok((Box::new(checked), member.bytes))
}

fn find(file: &mut File) -> Result<Member, ReadError> {
    let damaged = |error: zip::result::ZipError| {
        let source = io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        ReadError::Damaged { compression: "zip", offset: 0, source }
    };
    let mut archive = zip::ZipArchive::new(file).map_err(damaged)?;
    let mut found = None;
    for number in 0..archive.len() {
        let entry = archive.by_index_raw(number).map_err(damaged)?;
        let is_added = entry.name().map_err(damaged)?.starts_with(ADDED);
        if entry.is_dir() || is_added {
            continue;
        }
        if found.is_some() {
            return Err(foreign("is a zip archive of several files, as torch.save() writes"));
        }
        if entry.encrypted() {
            return Err(foreign("is an encrypted zip archive"));
        }
        found = Some(Member {
            start: entry.data_start().ok_or(foreign("is a zip archive without its file"))?,
            compressed_bytes: entry.compressed_size(),
            bytes: entry.size(),
            checksum: entry.crc32(),
            method: entry.compression(),
        });
    }
    found.ok_or(foreign("is a zip archive without a file"))
}

const fn foreign(found: &'static str) -> ReadError {
    ReadError::Foreign { found }
}

/// Compares the checksum when the end is reached.
struct Checked<R> {
    reader: R,
    crc: Crc,
    checksum: u32,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(into)?;
        if count == 0 && !into.is_empty() && self.crc.sum() != self.checksum {
            let message = "the zip archive's checksum does not match";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        self.crc.update(into.get(..count).unwrap_or_default());
        Ok(count)
    }
}
