//! A snapshot of any length, as Python would write it: allocations and frees with stacks whose
//! frames and lists the memo shares.

/// Distinct frames, and how many of them a stack has.
const FRAME_COUNT: usize = 500;
const STACK_FRAMES: usize = 20;
const BATCH_ENTRIES: usize = 1000;

/// Writes opcodes, and counts the keys of the memo.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    memo_count: u32,
}

impl Writer {
    /// Keeps the value just written, and gives its key.
    fn memoize(&mut self) -> u32 {
        self.bytes.push(0x94);
        self.memo_count += 1;
        self.memo_count - 1
    }

    fn text(&mut self, text: &str) -> u32 {
        self.bytes.extend([0x8c, u8::try_from(text.len()).unwrap()]);
        self.bytes.extend(text.as_bytes());
        self.memoize()
    }

    fn get(&mut self, key: u32) {
        match u8::try_from(key) {
            Ok(key) => self.bytes.extend([b'h', key]),
            Err(_) => {
                self.bytes.push(b'j');
                self.bytes.extend(key.to_le_bytes());
            }
        }
    }

    fn integer(&mut self, value: u64) {
        if let Ok(value) = u8::try_from(value) {
            self.bytes.extend([b'K', value]);
        } else {
            let bytes = value.to_le_bytes();
            self.bytes.extend([0x8a, 7]);
            self.bytes.extend(bytes.iter().take(7));
        }
    }

    fn frames(&mut self) -> Vec<u32> {
        let [name, file, line] = ["name", "filename", "line"].map(|key| self.text(key));
        self.bytes.push(b'0');
        self.bytes.push(b'0');
        self.bytes.push(b'0');
        let one = |number: usize| {
            self.bytes.push(b'}');
            let dict = self.memoize();
            self.bytes.push(b'(');
            self.get(name);
            self.text(&format!("function_{number}"));
            self.get(file);
            self.text(&format!("folder/file_{}.py", number / 10));
            self.get(line);
            self.integer(u64::try_from(number % 200 + 1).unwrap());
            self.bytes.extend(b"u0");
            dict
        };
        (0..FRAME_COUNT).map(one).collect()
    }
}

/// A snapshot of one device with `entry_count` entries, half of them frees.
pub(crate) fn snapshot(entry_count: usize) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes.extend([0x80, 4]);
    let frames = writer.frames();
    let keys = ["action", "addr", "size", "stream", "time_us", "frames", "alloc", "free_completed"];
    let keys = keys.map(|key| {
        let key = writer.text(key);
        writer.bytes.push(b'0');
        key
    });
    writer.bytes.push(b'}');
    writer.memoize();
    writer.bytes.push(b'(');
    writer.text("segments");
    writer.bytes.push(b']');
    writer.text("device_traces");
    writer.bytes.extend(b"](](");
    let mut list = 0;
    for number in 0..entry_count {
        if number % BATCH_ENTRIES == 0 && 0 < number {
            writer.bytes.extend(b"e(");
        }
        entry(&mut writer, &keys, number, &frames, &mut list);
    }
    writer.bytes.extend(b"eeu.");
    writer.bytes
}

fn entry(writer: &mut Writer, keys: &[u32; 8], number: usize, frames: &[u32], list: &mut u32) {
    let [action, addr, size, stream, time_us, stack, alloc, free] = *keys;
    let is_alloc = number.is_multiple_of(2);
    let ordinal = u64::try_from(number).unwrap();
    writer.bytes.push(b'}');
    writer.memoize();
    writer.bytes.push(b'(');
    writer.get(action);
    writer.get(if is_alloc { alloc } else { free });
    writer.get(addr);
    writer.integer((0x7f00 << 32) + ordinal / 2 % 1000 * 512);
    writer.get(size);
    writer.integer(1 + ordinal / 2 * 7919 % (1 << 20));
    writer.get(stream);
    writer.integer(0);
    writer.get(time_us);
    writer.integer(1_795_973_458_816_861 + ordinal);
    writer.get(stack);
    if is_alloc {
        // PyTorch makes a list for each allocation, and the free has the same.
        writer.bytes.push(b']');
        *list = writer.memoize();
        writer.bytes.push(b'(');
        let first = number * 31 % FRAME_COUNT;
        for frame in frames.iter().cycle().skip(first).take(STACK_FRAMES) {
            writer.get(*frame);
        }
        writer.bytes.push(b'e');
    } else {
        writer.get(*list);
    }
    writer.bytes.push(b'u');
}
