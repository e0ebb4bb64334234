//! Writes small pickles, as Python would.

/// A value of a snapshot.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Int(i64),
    Text(&'static str),
    List(Vec<Value>),
    Dict(Vec<(&'static str, Value)>),
}

/// The pickle of a value, protocol 4.
pub(crate) fn pickle(value: &Value) -> Vec<u8> {
    let mut bytes = vec![0x80, 4];
    write(&mut bytes, value);
    bytes.push(b'.');
    bytes
}

fn write(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Int(number) => {
            bytes.extend([0x8a, 8]);
            bytes.extend(number.to_le_bytes());
        }
        Value::Text(text) => {
            bytes.push(b'X');
            bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        Value::List(items) => {
            bytes.extend(b"](");
            items.iter().for_each(|item| write(bytes, item));
            bytes.push(b'e');
        }
        Value::Dict(items) => {
            bytes.extend(b"}(");
            for (key, item) in items {
                write(bytes, &Value::Text(key));
                write(bytes, item);
            }
            bytes.push(b'u');
        }
    }
}

/// One entry of a trace.
pub(crate) fn entry(action: &'static str, address: i64, bytes: i64) -> Value {
    Value::Dict(vec![
        ("action", Value::Text(action)),
        ("addr", Value::Int(address)),
        ("size", Value::Int(bytes)),
        ("stream", Value::Int(0)),
        ("time_us", Value::Int(1)),
    ])
}

/// A snapshot with one segment and these entries.
pub(crate) fn snapshot(entries: Vec<Value>) -> Value {
    let segment = Value::Dict(vec![
        ("device", Value::Int(0)),
        ("address", Value::Int(1 << 30)),
        ("total_size", Value::Int(2 << 20)),
        ("stream", Value::Int(0)),
        ("segment_type", Value::Text("small")),
        ("blocks", Value::List(vec![])),
    ]);
    Value::Dict(vec![
        ("segments", Value::List(vec![segment])),
        ("device_traces", Value::List(vec![Value::List(entries)])),
    ])
}
