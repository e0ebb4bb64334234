//! What is wrong with a stream trace is told in full.

use trace::stream_trace::{MAGIC, Recording};

/// Was: what was wrong was said without the numbers that were.
#[test]
fn what_is_wrong_is_said_with_the_numbers_that_were() {
    let head = [&MAGIC[..], &[1, 0]].concat();
    let stream: &[u8] = &[6, 4, 0, 0, 0, 0, 0];
    for (entries, part) in [
        (
            &[&[4, 5, 0, 9, 0][..]][..],
            "stream 9 was not declared: there are 0 before it, in entry 0",
        ),
        (&[stream, &[3, 16, 0, 7]], "the block 7 before the next was not declared: there are 0"),
        (&[&[6, 4, 0, 0, 9, 0, 0]], "the kind of a stream is 9, where at most 3 is known"),
        (&[&[5, 1, 0, 9, b'a', b'b']], "a text of 9 bytes where 2 are left of its entry"),
        (&[&[5, 1, 0, 2, b'a', 0xff]], "a text is not UTF-8 behind its byte 1"),
        (&[&[2, 5, 0]], "an entry of 2 bytes ends within a field, in entry 0 at byte 10"),
        (&[stream, &[3, 0, 0, 5]], "the end counts 5 entries, where 1 are before it, in entry 1"),
    ] {
        let bytes = [&head[..], &entries.concat()].concat();
        let told = Recording::load(bytes.as_slice()).unwrap_err().to_string();
        assert!(told.contains(part) && told.starts_with("is damaged: "), "{part}: {told}");
    }
    let long = [&head[..], &[0x81, 0x80, 0x40]].concat();
    let told = Recording::load(long.as_slice()).unwrap_err().to_string();
    assert!(told.contains("an entry of 1048577 bytes is longer than 1048576"), "{told}");
}
