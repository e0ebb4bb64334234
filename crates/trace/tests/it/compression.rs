//! Compression is found by content, undone to the last checksum, and told from damage.

use std::io::Write;

use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzWriter};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use trace::pytorch::{ReadError, ReadOptions, read};

use crate::pickle::{Py, entry, pickle, read_bytes, refusal, snapshot};

pub(crate) fn sample() -> Vec<u8> {
    let entries = (1..40).map(|turn| entry("alloc", turn * 512, turn, turn % 3)).collect();
    pickle(&snapshot(vec![], vec![entries]))
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = XzWriter::new(Vec::new(), XzOptions::with_preset(3)).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

type Compress = fn(&[u8]) -> Vec<u8>;
pub(crate) const ALL: [(&str, Compress); 3] = [("gzip", gzip), ("xz", xz), ("zstd", zstd)];

#[test]
fn all_compressions_read_the_same() {
    let plain = read_bytes(&sample()).unwrap();
    for (name, compress) in ALL {
        assert_eq!(read_bytes(&compress(&sample())).unwrap(), plain, "{name}");
    }
}

#[test]
fn a_file_may_be_compressed_in_several_parts() {
    let sample = sample();
    let (first, second) = sample.split_at(100);
    for (name, compress) in ALL {
        let parts = [compress(first), compress(second)].concat();
        assert_eq!(read_bytes(&parts).unwrap(), read_bytes(&sample).unwrap(), "{name}");
    }
    let skippable = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let parts = [&skippable[..], &zstd(first), &skippable, &zstd(second)].concat();
    assert_eq!(read_bytes(&parts).unwrap(), read_bytes(&sample).unwrap());
}

#[test]
fn a_compressed_file_cut_anywhere_is_truncated() {
    for (name, compress) in ALL {
        let whole = compress(&sample());
        for length in 1..whole.len() {
            let error = read_bytes(&whole[..length]).unwrap_err();
            assert!(matches!(error, ReadError::Truncated { .. }), "{name} {length}: {error:?}");
        }
    }
}

#[test]
fn a_wrong_checksum_is_damage() {
    for (name, compress) in ALL {
        let mut whole = compress(&sample());
        // gzip ends with the sum and 4 bytes of length, zstd with the sum; xz with magic bytes.
        let position = whole.len() - if name == "gzip" { 8 } else { 1 };
        whole[position] ^= 0x10;
        let error = read_bytes(&whole).unwrap_err();
        let damaged =
            matches!(error, ReadError::Damaged { compression, .. } if compression == name);
        assert!(damaged, "{name}: {error:?}");
    }
}

#[test]
fn what_is_inside_must_be_a_pickle() {
    for (name, compress) in ALL {
        assert!(refusal(&compress(b"hello, world")).contains("does not begin"), "{name}");
        let empty = read_bytes(&compress(b"")).unwrap_err();
        assert!(matches!(empty, ReadError::Empty), "{name}: {empty:?}");
        let twice = refusal(&compress(&gzip(&sample())));
        assert!(twice.contains("compressed twice"), "{name}: {twice}");
    }
}

#[test]
fn bombs_stop_at_the_limits() {
    let options = ReadOptions { decompressed_bytes_max: 1 << 20, memory_bytes_max: 4 << 20 };
    let busy = [&[0x80, 4][..], &b"N0".repeat(2 << 20), b"N."].concat();
    let greedy = [&[0x80, 4][..], &b"]".repeat(1 << 19), b"."].concat();
    for (name, compress) in ALL {
        let bomb = compress(&busy);
        assert!(bomb.len() < 32 << 10, "{name}: the bomb has {} bytes", bomb.len());
        let error = read(&bomb[..], 0, &options, None).unwrap_err();
        assert!(matches!(error, ReadError::TooLong { limit } if limit == 1 << 20), "{name}");
        let error = read(&compress(&greedy)[..], 0, &options, None).unwrap_err();
        assert!(matches!(error, ReadError::TooMuchMemory { .. }), "{name}: {error:?}");
    }
}

#[test]
fn what_follows_the_pickle_is_ignored() {
    let plain = read_bytes(&sample()).unwrap();
    let longer = [sample(), vec![0; 1 << 20]].concat();
    assert_eq!(read_bytes(&longer).unwrap(), plain);
    assert_eq!(read_bytes(&gzip(&longer)).unwrap(), plain);
    let list = Py::List(vec![]);
    assert_eq!(read_bytes(&[sample(), pickle(&list)].concat()).unwrap(), plain);
}
