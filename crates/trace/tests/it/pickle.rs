//! A pickle writer for tests: Python values in, bytes out, with raw opcodes where asked.

use trace::pytorch::{ReadError, ReadOptions, Snapshot, read};

/// A Python value, or the opcodes that would make one.
#[derive(Debug, Clone)]
pub(crate) enum Py {
    Int(i64),
    Text(&'static str),
    Bool(bool),
    List(Vec<Py>),
    Tuple(Vec<Py>),
    Dict(Vec<(&'static str, Py)>),
    Raw(Vec<u8>),
}

/// How dictionaries and lists are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filling {
    /// All at once, as Python does for more than one item.
    Batched,
    /// One by one, as other writers do.
    Single,
}

/// A pickle of `value` with protocol 4.
pub(crate) fn pickle(value: &Py) -> Vec<u8> {
    pickle_with(value, Filling::Batched)
}

pub(crate) fn pickle_with(value: &Py, filling: Filling) -> Vec<u8> {
    let mut bytes = vec![0x80, 4];
    write(&mut bytes, value, filling);
    bytes.push(b'.');
    bytes
}

/// A pickle of `value` as Python writes it with `protocol` (2 to 5): each text once, and in frames
/// where the protocol has them, unless they are left out.
pub(crate) fn pickle_as(value: &Py, protocol: u8, is_framed: bool) -> Vec<u8> {
    let mut writer = Writer { protocol, bytes: Vec::new(), memo: Vec::new(), memo_count: 0 };
    writer.write(value);
    writer.bytes.push(b'.');
    let mut bytes = vec![0x80, protocol];
    if is_framed {
        bytes.push(0x95);
        bytes.extend(u64::try_from(writer.bytes.len()).unwrap().to_le_bytes());
    }
    bytes.extend(writer.bytes);
    bytes
}

struct Writer {
    protocol: u8,
    bytes: Vec<u8>,
    memo: Vec<(&'static str, u32)>,
    memo_count: u32,
}

impl Writer {
    fn memoize(&mut self) -> u32 {
        let key = self.memo_count;
        self.memo_count += 1;
        match u8::try_from(key) {
            _ if 4 <= self.protocol => self.bytes.push(0x94),
            Ok(key) => self.bytes.extend([b'q', key]),
            Err(_) => {
                self.bytes.push(b'r');
                self.bytes.extend(key.to_le_bytes());
            }
        }
        key
    }

    fn text(&mut self, text: &'static str) {
        if let Some((_, key)) = self.memo.iter().find(|(known, _)| *known == text) {
            match u8::try_from(*key) {
                Ok(key) => self.bytes.extend([b'h', key]),
                Err(_) => {
                    self.bytes.push(b'j');
                    self.bytes.extend(key.to_le_bytes());
                }
            }
            return;
        }
        if 4 <= self.protocol {
            self.bytes.extend([0x8c, u8::try_from(text.len()).unwrap()]);
        } else {
            self.bytes.push(b'X');
            self.bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        }
        self.bytes.extend(text.as_bytes());
        let key = self.memoize();
        self.memo.push((text, key));
    }

    fn write(&mut self, value: &Py) {
        match value {
            Py::Text(text) => self.text(text),
            Py::List(items) => {
                self.bytes.push(b']');
                self.memoize();
                self.bytes.push(b'(');
                items.iter().for_each(|item| self.write(item));
                self.bytes.push(b'e');
            }
            Py::Tuple(items) => {
                self.bytes.push(b'(');
                items.iter().for_each(|item| self.write(item));
                self.bytes.push(b't');
                self.memoize();
            }
            Py::Dict(pairs) => {
                self.bytes.push(b'}');
                self.memoize();
                self.bytes.push(b'(');
                for (key, item) in pairs {
                    self.text(key);
                    self.write(item);
                }
                self.bytes.push(b'u');
            }
            Py::Int(_) | Py::Bool(_) | Py::Raw(_) => {
                write(&mut self.bytes, value, Filling::Batched);
            }
        }
    }
}

/// Wraps opcodes as a pickle.
pub(crate) fn raw(opcodes: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80, 4];
    bytes.extend_from_slice(opcodes);
    bytes.push(b'.');
    bytes
}

fn write(bytes: &mut Vec<u8>, value: &Py, filling: Filling) {
    match value {
        Py::Int(value) => {
            bytes.extend([0x8a, 8]);
            bytes.extend(value.to_le_bytes());
        }
        Py::Text(text) => {
            bytes.extend([0x8c, u8::try_from(text.len()).unwrap()]);
            bytes.extend(text.as_bytes());
        }
        Py::Bool(value) => bytes.push(if *value { 0x88 } else { 0x89 }),
        Py::List(items) => {
            bytes.push(b']');
            let single = filling == Filling::Single;
            if !single {
                bytes.push(b'(');
            }
            for item in items {
                write(bytes, item, filling);
                if single {
                    bytes.push(b'a');
                }
            }
            if !single {
                bytes.push(b'e');
            }
        }
        Py::Tuple(items) => {
            bytes.push(b'(');
            items.iter().for_each(|item| write(bytes, item, filling));
            bytes.push(b't');
        }
        Py::Dict(pairs) => {
            bytes.push(b'}');
            let single = filling == Filling::Single;
            if !single {
                bytes.push(b'(');
            }
            for (key, item) in pairs {
                write(bytes, &Py::Text(key), filling);
                write(bytes, item, filling);
                if single {
                    bytes.push(b's');
                }
            }
            if !single {
                bytes.push(b'u');
            }
        }
        Py::Raw(opcodes) => bytes.extend(opcodes),
    }
}

/// A snapshot with these segments and traces.
pub(crate) fn snapshot(segments: Vec<Py>, traces: Vec<Vec<Py>>) -> Py {
    let traces = traces.into_iter().map(Py::List).collect();
    Py::Dict(vec![("segments", Py::List(segments)), ("device_traces", Py::List(traces))])
}

/// A trace entry.
pub(crate) fn entry(action: &'static str, address: i64, size: i64, stream: i64) -> Py {
    Py::Dict(vec![
        ("action", Py::Text(action)),
        ("addr", Py::Int(address)),
        ("size", Py::Int(size)),
        ("stream", Py::Int(stream)),
    ])
}

/// A segment of device 0.
pub(crate) fn segment(address: i64, total_size: i64, stream: i64, blocks: Vec<Py>) -> Py {
    Py::Dict(vec![
        ("device", Py::Int(0)),
        ("address", Py::Int(address)),
        ("total_size", Py::Int(total_size)),
        ("stream", Py::Int(stream)),
        ("segment_type", Py::Text("large")),
        ("blocks", Py::List(blocks)),
    ])
}

/// A block of a segment.
pub(crate) fn block(address: i64, size: i64, requested: i64, state: &'static str) -> Py {
    Py::Dict(vec![
        ("address", Py::Int(address)),
        ("size", Py::Int(size)),
        ("requested_size", Py::Int(requested)),
        ("state", Py::Text(state)),
    ])
}

/// Reads `bytes` with the default limits.
pub(crate) fn read_bytes(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    let snapshot = read(bytes, 0, &ReadOptions::default(), None);
    if let Err(error) = &snapshot {
        let message = error.to_string();
        assert!(message.lines().count() <= 2, "a message of many lines: {message}");
    }
    snapshot
}

/// The message with which `bytes` are refused.
pub(crate) fn refusal(bytes: &[u8]) -> String {
    match read_bytes(bytes) {
        Ok(_) => panic!("read without an error"),
        Err(error) => error.to_string(),
    }
}
