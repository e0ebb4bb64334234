//! What the kernels themselves do, so that the simulated bodies and the compiled ones agree.

use std::ffi::CStr;

use cuda_sys::CUdeviceptr;

use crate::asker::Asker;
use crate::driver::{Pinned, Stream};

/// How many words the block under test has.
const WORDS: u64 = 1024;
const BYTES: usize = 4 * 1024;
/// Launch shapes that must not matter: fewer, as many and more threads than words.
const SHAPES: [[u32; 2]; 3] = [[1, 1], [3, 7], [40, 256]];

/// Two blocks of [`WORDS`] words and a counter.
struct Bench<'asker> {
    asker: &'asker Asker<'asker>,
    stream: Stream,
    block: CUdeviceptr,
    other: CUdeviceptr,
    counter: CUdeviceptr,
}

pub(crate) fn all(asker: &Asker<'_>) {
    let allocate = |bytes| {
        let mut address = 0;
        asker.driver.mem_alloc(&mut address, bytes);
        address
    };
    let bench = Bench {
        asker,
        stream: asker.stream(),
        block: allocate(BYTES),
        other: allocate(BYTES),
        counter: allocate(8),
    };
    bench.fills();
    bench.stamps();
    bench.copies_and_sums();
    bench.words_and_gates();
}

impl Bench<'_> {
    fn launch(&self, name: &CStr, shape: [u32; 2], arguments: &[u64]) {
        let kernel = self.asker.kernel(name);
        self.asker.driver.launch_many(kernel, shape, self.stream, arguments);
    }

    /// Makes all words of both blocks zero.
    fn clear(&self) {
        for block in [self.block, self.other] {
            self.asker.driver.memset_d8_async(block, 0, BYTES, self.stream);
        }
    }

    /// What a checking kernel adds to the counter.
    fn mismatches(&self, name: &CStr, shape: [u32; 2], arguments: &[u64]) -> u64 {
        let driver = &self.asker.driver;
        driver.memset_d8_async(self.counter, 0, 8, self.stream);
        self.launch(name, shape, &[arguments, &[self.counter]].concat());
        driver.stream_synchronize(self.stream);
        let mut bytes = [0xff; 8];
        driver.memcpy_dtoh(&mut bytes, self.counter);
        u64::from_le_bytes(bytes)
    }

    /// How many words of the block are not zero.
    fn written(&self, shape: [u32; 2]) -> u64 {
        self.mismatches(c"check_u32", shape, &[self.block, WORDS, 0])
    }

    /// Answers `probe` with what `body` gives for every launch shape, once if that is the same.
    fn text(&self, probe: &str, body: impl Fn([u32; 2]) -> u64) {
        let mut answers: Vec<u64> = SHAPES.iter().map(|shape| body(*shape)).collect();
        answers.dedup();
        let answers: Vec<String> = answers.iter().map(u64::to_string).collect();
        self.asker.text(probe, answers.join(" or "));
    }

    fn fills(&self) {
        let filled = |expected| {
            move |shape| {
                self.launch(c"fill_u32", shape, &[self.block, 1000, 5]);
                self.mismatches(c"check_u32", shape, &[self.block, 1000, expected])
            }
        };
        self.text("fill_u32, then check_u32 for the same value: mismatches of 1000", filled(5));
        self.text("fill_u32, then check_u32 for another value: mismatches of 1000", filled(6));
        self.text("fill_u32 of 1000 words: words written of 1024", |shape| {
            self.clear();
            self.launch(c"fill_u32", shape, &[self.block, 1000, 5]);
            self.written(shape)
        });
    }

    fn stamps(&self) {
        for (what, words, stride) in [
            ("1000 words, every 64", 1000, 64),
            ("961 words, every 64", 961, 64),
            ("1000 words, every 5000", 1000, 5000),
            ("10 words, every 0", 10, 0),
            ("1 word, every 64", 1, 64),
            ("no word", 0, 64),
        ] {
            self.text(&format!("stamp of {what}: words written of 1024"), |shape| {
                self.clear();
                self.launch(c"stamp", shape, &[self.block, words, stride, 9]);
                self.written(shape)
            });
        }
        let checked = |expected| {
            move |shape| {
                self.launch(c"stamp", shape, &[self.block, 1000, 64, 9]);
                self.mismatches(c"check_stamp", shape, &[self.block, 1000, 64, expected])
            }
        };
        self.text("check_stamp for the same value: mismatches", checked(9));
        self.text("check_stamp for another value: mismatches", checked(8));
    }

    fn copies_and_sums(&self) {
        self.text("copy_u32 of 1000 words: words written of 1024", |shape| {
            self.clear();
            self.launch(c"fill_u32", shape, &[self.other, WORDS, 5]);
            self.launch(c"copy_u32", shape, &[self.block, self.other, 1000]);
            self.written(shape)
        });
        let mut sum = [0xff; 4];
        self.scale_add([1, 1], 1, [-1.0, 10.0, 0.1]);
        self.asker.driver.memcpy_dtoh(&mut sum, self.block);
        self.asker.text("scale_add of 0.1 times 10 to -1", f32::from_le_bytes(sum));
        self.text("scale_add of 0.5 times 3 to 1, 1000 times over: wrong", |shape| {
            self.scale_add(shape, 1000, [1.0, 3.0, 0.5]);
            let expected = u64::from(2.5_f32.to_bits());
            self.mismatches(c"check_u32", shape, &[self.block, 1000, expected])
        });
    }

    /// Adds `factor` times `term` to `sum` in `count` places, and waits for it.
    fn scale_add(&self, shape: [u32; 2], count: u64, [sum, term, factor]: [f32; 3]) {
        let bits = |number: f32| u64::from(number.to_bits());
        self.launch(c"fill_u32", shape, &[self.block, count, bits(sum)]);
        self.launch(c"fill_u32", shape, &[self.other, count, bits(term)]);
        self.launch(c"scale_add", shape, &[self.block, self.other, bits(factor), count]);
        self.asker.driver.stream_synchronize(self.stream);
    }

    fn words_and_gates(&self) {
        let driver = &self.asker.driver;
        let mut pinned = Pinned::default();
        driver.mem_host_alloc(&mut pinned, 4096);
        self.launch(c"put", [3, 7], &[self.block, 7]);
        self.launch(c"get", [3, 7], &[self.block, pinned.address()]);
        driver.stream_synchronize(self.stream);
        self.asker.text("put, then get", pinned.word());

        pinned.set_word(0);
        self.launch(c"gate", [3, 7], &[pinned.address()]);
        self.asker.pass_milliseconds(10);
        self.asker.code("gate while its flag is 0", driver.stream_query(self.stream));
        pinned.set_word(1);
        let opened = driver.stream_synchronize(self.stream);
        self.asker.code("gate after its flag was set", opened);
    }
}
