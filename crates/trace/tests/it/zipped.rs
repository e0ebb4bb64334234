//! A snapshot in a zip archive: found, checked, bounded; anything else in one is refused.

use std::io::Write;
use std::path::{Path, PathBuf};

use trace::pytorch::{ReadError, ReadOptions, Snapshot, read_file};
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

fn graphs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/graphs.pickle.zst")
}

fn archive(files: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in files {
        let options = SimpleFileOptions::default().compression_method(method);
        writer.start_file(*name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn read_archive(bytes: &[u8], options: &ReadOptions) -> Result<Snapshot, ReadError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot.zip");
    std::fs::write(&file, bytes).unwrap();
    read_file(&file, options, None)
}

#[test]
fn the_only_file_of_an_archive_is_read() {
    let content = std::fs::read(graphs()).unwrap();
    let expected = read_file(&graphs(), &ReadOptions::default(), None).unwrap();
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let files: [(&str, &[u8]); 2] =
            [("a/snapshot.pickle.zst", &content), ("__MACOSX/._snapshot", b"mac")];
        let bytes = archive(&files, method);
        assert!(read_archive(&bytes, &ReadOptions::default()).unwrap() == expected);
    }
}

#[test]
fn an_archive_of_anything_else_is_refused() {
    let refused = |bytes: &[u8]| read_archive(bytes, &ReadOptions::default()).unwrap_err();
    let stored = CompressionMethod::Stored;
    let two = archive(&[("a/data.pkl", b"one"), ("a/version", b"2")], stored);
    assert!(refused(&two).to_string().contains("several files"));
    let none = archive(&[("__MACOSX/x", b"mac")], stored);
    assert!(refused(&none).to_string().contains("without a file"));
    let text = archive(&[("notes.txt", b"hello, I am no pickle")], stored);
    assert!(matches!(refused(&text), ReadError::Foreign { .. }));
}

#[test]
fn a_damaged_archive_is_found_out() {
    let content = std::fs::read(graphs()).unwrap();
    let whole = archive(&[("snapshot", &content)], CompressionMethod::Stored);
    let cut = whole.get(..whole.len() / 2).unwrap();
    let error = read_archive(cut, &ReadOptions::default()).unwrap_err();
    assert!(matches!(error, ReadError::Damaged { compression: "zip", .. }), "{error}");
    let plain = trace::pytorch::write(
        &read_file(&graphs(), &ReadOptions::default(), None).unwrap(),
        Vec::new(),
        None,
    );
    let mut flipped = archive(&[("snapshot", &plain.unwrap())], CompressionMethod::Stored);
    let position = flipped.windows(10).position(|window| window == b"total_size").unwrap();
    flipped[position] = b'T';
    assert!(read_archive(&flipped, &ReadOptions::default()).is_err());
}

#[test]
fn a_size_bomb_ends_at_the_limit() {
    let mut bomb = b"\x80\x04".to_vec();
    bomb.extend(std::iter::repeat_n(b"N0", 16 << 20).flatten());
    let bytes = archive(&[("bomb", &bomb)], CompressionMethod::Deflated);
    assert!(bytes.len() < 64 << 10);
    let options = ReadOptions { decompressed_bytes_max: 1 << 20, ..ReadOptions::default() };
    let error = read_archive(&bytes, &options).unwrap_err();
    assert!(matches!(error, ReadError::TooLong { limit: 1_048_576 }), "{error}");
}
