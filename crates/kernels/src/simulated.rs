//! What each kernel does on the simulated device, and the bytes it says it uses.
//!
//! The bodies follow `kernels/wellspring.cu` one for one, but for `gate`, which never gives up:
//! a gate that nobody opens is for the simulated device to report. A stamp says that it uses the
//! whole block, although it touches a few words of it, since that is what it stands for. Time is
//! charged for the bytes moved, at about the speed of an H200's memory.

use cuda_sim::{Access, KernelArguments, KernelBody, KernelCall, Machine};

use crate::entry;

/// What a kernel takes that touches nothing.
const LAUNCH_NANOSECONDS: u64 = 2_000;
/// How many bytes the device's memory moves in a nanosecond.
const BYTES_PER_NANOSECOND: u64 = 4_000;
const WORD: u64 = 4;
const COUNTER: u64 = 8;
/// How many words `scale_add` holds at a time.
const BATCH: u64 = 4_096;

/// Gives `machine` a body for every kernel of [`crate::PTX`].
pub fn register(machine: &Machine) {
    let bodies = [
        (entry::NOP, kernel(|_| vec![], |_| {})),
        (entry::SPIN, kernel(|_| vec![], |_| {}).duration(|arguments| arguments.u64(0))),
        (entry::FILL_U32, fill_u32()),
        (entry::CHECK_U32, check_u32()),
        (entry::STAMP, stamp()),
        (entry::CHECK_STAMP, check_stamp()),
        (entry::GATE, gate()),
        (entry::PUT, put()),
        (entry::GET, get()),
        (entry::WRITE_BAD, write_bad()),
        (entry::SCALE_ADD, scale_add()),
        (entry::COPY_U32, copy_u32()),
        (entry::PRODUCE, produce()),
        (entry::CONSUME, consume()),
    ];
    for (name, body) in bodies {
        machine.register_kernel(name, body);
    }
}

/// A kernel that takes as long as a launch does.
fn kernel(
    accesses: impl Fn(&KernelArguments) -> Vec<Access> + Send + Sync + 'static,
    run: impl Fn(&mut KernelCall<'_>) + Send + Sync + 'static,
) -> KernelBody {
    KernelBody::new(run).accesses(accesses).duration(|_| LAUNCH_NANOSECONDS)
}

/// The same kernel, with the time to move as many words as `words` says.
fn moving(
    body: KernelBody,
    words: impl Fn(&KernelArguments) -> u64 + Send + Sync + 'static,
) -> KernelBody {
    body.duration(move |arguments| {
        LAUNCH_NANOSECONDS.saturating_add(bytes(words(arguments)) / BYTES_PER_NANOSECOND)
    })
}

/// The bytes of `words`; as many as no memory has are as many as there are addresses.
fn bytes(words: u64) -> u64 {
    words.saturating_mul(WORD)
}

fn fill_u32() -> KernelBody {
    let body = kernel(
        |arguments| vec![Access::write(arguments.pointer(0), bytes(arguments.u64(1)))],
        |call| call.fill_u32(call.pointer(0), call.u64(1), call.u32(2)),
    );
    moving(body, |arguments| arguments.u64(1))
}

fn check_u32() -> KernelBody {
    let body = kernel(
        |arguments| {
            vec![
                Access::read(arguments.pointer(0), bytes(arguments.u64(1))),
                Access::atomic(arguments.pointer(3), COUNTER),
            ]
        },
        |call| {
            let (expected, mut found) = (call.u32(2), 0);
            call.for_each_u32(call.pointer(0), call.u64(1), |word| {
                found += u64::from(word != expected);
            });
            count_mismatches(call, 3, found);
        },
    );
    moving(body, |arguments| arguments.u64(1))
}

fn stamp() -> KernelBody {
    let body = kernel(
        |arguments| vec![Access::write(arguments.pointer(0), bytes(arguments.u64(1)))],
        |call| {
            let (base, value) = (call.pointer(0), call.u32(3));
            for word in StampWords::new(call.u64(1), call.u64(2)) {
                call.write_u32(base.wrapping_add(bytes(word)), value);
            }
        },
    );
    moving(body, |arguments| StampWords::new(arguments.u64(1), arguments.u64(2)).places)
}

fn check_stamp() -> KernelBody {
    let body = kernel(
        |arguments| {
            vec![
                Access::read(arguments.pointer(0), bytes(arguments.u64(1))),
                Access::atomic(arguments.pointer(4), COUNTER),
            ]
        },
        |call| {
            let (base, expected, mut found) = (call.pointer(0), call.u32(3), 0);
            for word in StampWords::new(call.u64(1), call.u64(2)) {
                found += u64::from(call.read_u32(base.wrapping_add(bytes(word))) != expected);
            }
            count_mismatches(call, 4, found);
        },
    );
    moving(body, |arguments| StampWords::new(arguments.u64(1), arguments.u64(2)).places)
}

/// Adds to the counter that parameter `index` points to; none is touched when there is nothing.
fn count_mismatches(call: &mut KernelCall<'_>, index: usize, found: u64) {
    if found != 0 {
        let counter = call.pointer(index);
        call.add_u64(counter, found);
    }
}

/// The words a stamp touches: word 0, every `stride`-th word and the last one, each once.
struct StampWords {
    places: u64,
    next: u64,
    stride: u64,
    last: u64,
}

impl StampWords {
    fn new(words: u64, stride: u64) -> Self {
        let stride = stride.max(1);
        let last = words.saturating_sub(1);
        let places = if words == 0 {
            0
        } else {
            last / stride + 1 + u64::from(!last.is_multiple_of(stride))
        };
        Self { places, next: 0, stride, last }
    }
}

impl Iterator for StampWords {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.places <= self.next {
            return None;
        }
        let place = self.next;
        self.next += 1;
        Some(if place <= self.last / self.stride { place * self.stride } else { self.last })
    }
}

fn gate() -> KernelBody {
    kernel(|arguments| vec![Access::read(arguments.pointer(0), WORD)], |_| {})
        .ready(|call| call.read_u32(call.pointer(0)) != 0)
}

fn put() -> KernelBody {
    kernel(
        |arguments| vec![Access::write(arguments.pointer(0), WORD)],
        |call| call.write_u32(call.pointer(0), call.u32(1)),
    )
}

fn get() -> KernelBody {
    kernel(
        |arguments| {
            vec![
                Access::read(arguments.pointer(0), WORD),
                Access::write(arguments.pointer(1), WORD),
            ]
        },
        |call| {
            let word = call.read_u32(call.pointer(0));
            call.write_u32(call.pointer(1), word);
        },
    )
}

fn write_bad() -> KernelBody {
    kernel(
        |arguments| vec![Access::write(arguments.pointer(0), WORD)],
        |call| call.write_u32(call.pointer(0), 1),
    )
}

fn scale_add() -> KernelBody {
    let body = kernel(
        |arguments| {
            let length = bytes(arguments.u64(3));
            vec![
                Access::write(arguments.pointer(0), length),
                Access::read(arguments.pointer(1), length),
            ]
        },
        |call| {
            let (to, from) = (call.pointer(0), call.pointer(1));
            let (factor, count) = (call.f32(2), call.u64(3));
            let mut done = 0;
            while done < count {
                let batch = BATCH.min(count - done);
                let offset = bytes(done);
                scale_add_batch(
                    call,
                    to.wrapping_add(offset),
                    from.wrapping_add(offset),
                    factor,
                    batch,
                );
                done += batch;
            }
        },
    );
    moving(body, |arguments| arguments.u64(3).saturating_mul(3))
}

fn scale_add_batch(call: &mut KernelCall<'_>, to: u64, from: u64, factor: f32, count: u64) {
    let length = usize::try_from(bytes(count)).expect("a batch is small");
    let (mut sums, mut terms) = (vec![0; length], vec![0; length]);
    call.read_bytes(to, &mut sums);
    call.read_bytes(from, &mut terms);
    let (sums_of_four, _) = sums.as_chunks_mut::<4>();
    let (terms_of_four, _) = terms.as_chunks::<4>();
    for (sum, term) in sums_of_four.iter_mut().zip(terms_of_four) {
        let product = factor * f32::from_le_bytes(*term);
        *sum = (f32::from_le_bytes(*sum) + product).to_le_bytes();
    }
    call.write_bytes(to, &sums);
}

fn copy_u32() -> KernelBody {
    let body = kernel(
        |arguments| {
            let length = bytes(arguments.u64(2));
            vec![
                Access::write(arguments.pointer(0), length),
                Access::read(arguments.pointer(1), length),
            ]
        },
        |call| call.copy_bytes(call.pointer(0), call.pointer(1), bytes(call.u64(2))),
    );
    moving(body, |arguments| arguments.u64(2).saturating_mul(2))
}

fn produce() -> KernelBody {
    stamp().duration(|arguments| arguments.u64(4))
}

fn consume() -> KernelBody {
    let body = kernel(
        |arguments| {
            vec![
                Access::write(arguments.pointer(0), bytes(arguments.u64(1))),
                Access::read(arguments.pointer(2), bytes(arguments.u64(3))),
                Access::atomic(arguments.pointer(6), COUNTER),
            ]
        },
        |call| {
            let (input, stride, expected, mut found) =
                (call.pointer(2), call.u64(4), call.u32(5), 0);
            for word in StampWords::new(call.u64(3), stride) {
                found += u64::from(call.read_u32(input.wrapping_add(bytes(word))) != expected);
            }
            count_mismatches(call, 6, found);
            let out = call.pointer(0);
            for word in StampWords::new(call.u64(1), stride) {
                call.write_u32(out.wrapping_add(bytes(word)), expected);
            }
        },
    );
    body.duration(|arguments| arguments.u64(7))
}

#[cfg(test)]
mod tests {
    use super::StampWords;

    #[test]
    fn a_stamp_touches_both_ends_and_no_word_twice() {
        let check = |words, stride| StampWords::new(words, stride).collect::<Vec<u64>>();
        assert_eq!(check(0, 4), []);
        assert_eq!(check(1, 4), [0]);
        assert_eq!(check(9, 4), [0, 4, 8]);
        assert_eq!(check(10, 4), [0, 4, 8, 9]);
        assert_eq!(check(3, 0), [0, 1, 2]);
    }
}
