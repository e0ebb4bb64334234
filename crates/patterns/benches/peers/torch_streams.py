"""The patterns of Wellspring's `patterns` crate, with PyTorch's allocator and ways to be safe.

Usage: torch_streams.py PTX. Prints a line `peer: name=value ...` for each pattern and way, and
`peer: absent=...` where there is no PyTorch or no GPU. Sizes and durations are those of
crates/patterns/src/plan.rs; the kernels are the same, launched through the driver.
"""
import ctypes
import os
import sys

STEPS, WARM, ROUNDS = 400, 1, 9
ROW_BYTES, ROWS_MIN, ROWS_END = 16 << 10, 256, 4096
ROWS_MEAN = (ROWS_MIN + ROWS_END) // 2
STAMPS = 16
PATTERNS = ("three_streams", "equal", "bursty", "slow_side")
WAYS = ("unsynchronized", "record_stream", "hand_tuned", "wait_at_every_free")
KEPT_BUFFERS = 2


def rows_of_steps():
    """Draws the rows of each step with splitmix64, from seed 1."""
    mask, state = (1 << 64) - 1, 1
    for _ in range(STEPS):
        state = (state + 0x9E3779B97F4A7C15) & mask
        word = state
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
        yield ROWS_MIN + (word ^ (word >> 31)) % (ROWS_END - ROWS_MIN)


def step_of(pattern, index, rows):
    """Bytes, nanoseconds of the producer, nanoseconds of each consumer (0: not given it)."""
    by_rows = lambda microseconds: microseconds * 1000 * rows // ROWS_MEAN
    produce, consume = {
        "three_streams": (by_rows(40), (by_rows(400), by_rows(40))),
        "equal": (200_000, (200_000, 200_000)),
        "bursty": (100_000, (800_000 if index % 10 == 9 else 40_000, 20_000)),
        "slow_side": (100_000, (720_000 if index % 8 == 7 else 0, 0)),
    }[pattern]
    return rows * ROW_BYTES, produce, consume


class Kernels:
    """`produce` and `consume` of the module, launched on PyTorch's streams."""

    def __init__(self, path):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.module = ctypes.c_void_p()
        with open(path, "rb") as file:
            text = ctypes.create_string_buffer(file.read())
        self.check(self.driver.cuModuleLoadData(ctypes.byref(self.module), text))
        self.functions = {name: self.function(name) for name in (b"produce", b"consume")}

    def check(self, code):
        if code != 0:
            raise RuntimeError(f"the driver answered {code}")

    def function(self, name):
        function = ctypes.c_void_p()
        self.check(self.driver.cuModuleGetFunction(ctypes.byref(function), self.module, name))
        return function

    def launch(self, name, stream, values):
        pointers = (ctypes.c_void_p * len(values))(
            *(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values)
        )
        handle = ctypes.c_void_p(stream.cuda_stream)
        self.check(
            self.driver.cuLaunchKernel(
                self.functions[name], 1, 1, 1, 256, 1, 1, 0, handle, pointers, None
            )
        )

    def produce(self, stream, out, words, value, nanoseconds):
        u64, u32 = ctypes.c_uint64, ctypes.c_uint32
        stride = max(words // STAMPS, 1)
        values = (u64(out), u64(words), u64(stride), u32(value), u64(nanoseconds))
        self.launch(b"produce", stream, values)

    def consume(self, stream, out, out_words, data, words, value, mismatches, nanoseconds):
        u64, u32 = ctypes.c_uint64, ctypes.c_uint32
        stride = max(words // STAMPS, 1)
        values = (
            u64(out), u64(out_words), u64(data), u64(words), u64(stride), u32(value),
            u64(mismatches), u64(nanoseconds),
        )
        self.launch(b"consume", stream, values)


class Stage:
    """One pattern under one way."""

    def __init__(self, torch, kernels, pattern, way):
        self.torch, self.kernels, self.pattern, self.way = torch, kernels, pattern, way
        self.steps = [step_of(pattern, *at) for at in enumerate(rows_of_steps())]
        self.producer, *self.consumers = (torch.cuda.Stream() for _ in range(3))
        self.mismatches = torch.zeros(1, dtype=torch.int64, device="cuda")
        largest = max(step[0] for step in self.steps) if pattern == "three_streams" else 128
        self.scratch = [self.new(largest) for _ in range(2)]
        self.prepared = []
        self.value = 0
        torch.cuda.synchronize()

    def new(self, size):
        return self.torch.empty(size // 4, dtype=self.torch.int32, device="cuda")

    def round(self, is_cold=False):
        """Nanoseconds, and the peaks of active and reserved bytes; a cold round has no cache, and
        only its reserved bytes are this stage's alone."""
        torch = self.torch
        torch.cuda.synchronize()
        if is_cold:
            torch.cuda.empty_cache()
        if self.way == "unsynchronized":
            self.prepared = [self.new(size) for size, _, _ in self.steps]
        # A request has the allocator see that what the stage before left pending is over.
        self.new(512)
        torch.cuda.reset_peak_memory_stats()
        start = torch.cuda.Event(enable_timing=True)
        self.producer.record_event(start)
        kept = []
        for index, step in enumerate(self.steps):
            self.step(index, step, kept)
        ends = []
        for stream in (self.producer, *self.consumers):
            end = torch.cuda.Event(enable_timing=True)
            stream.record_event(end)
            ends.append(end)
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        self.prepared = []
        nanoseconds = int(max(start.elapsed_time(end) for end in ends) * 1e6)
        return (
            nanoseconds,
            stats["active_bytes.all.peak"],
            stats["reserved_bytes.all.peak"],
        )

    def step(self, index, step, kept):
        torch = self.torch
        size, produce, consume = step
        self.value += 1
        if self.way == "unsynchronized":
            buffer = self.prepared[index]
        else:
            with torch.cuda.stream(self.producer):
                buffer = self.new(size)
        words = size // 4
        self.kernels.produce(self.producer, buffer.data_ptr(), words, self.value, produce)
        users = [at for at in zip(self.consumers, self.scratch, consume) if at[2] != 0]
        for stream, scratch, nanoseconds in users:
            stream.wait_stream(self.producer)
            out = scratch
            if self.pattern == "three_streams" and self.way != "unsynchronized":
                with torch.cuda.stream(stream):
                    out = self.new(size)
            self.kernels.consume(
                stream, out.data_ptr(), out.numel(), buffer.data_ptr(), words, self.value,
                self.mismatches.data_ptr(), nanoseconds,
            )
            del out
        self.release(buffer, [stream for stream, _, _ in users], kept)

    def release(self, buffer, users, kept):
        if self.way == "record_stream":
            for user in users:
                buffer.record_stream(user)
        elif self.way == "wait_at_every_free":
            for user in users:
                self.producer.wait_stream(user)
        elif self.way == "hand_tuned" and users:
            kept.append((buffer, [user.record_event() for user in users]))
            if KEPT_BUFFERS < len(kept):
                _, over = kept.pop(0)
                for event in over:
                    self.producer.wait_event(event)


def middle(values):
    return sorted(values)[len(values) // 2]


def main():
    if os.environ.get("WELLSPRING_DEVICE") == "sim":
        print("peer: absent=a_simulated_device_has_no_PyTorch")
        return
    try:
        import torch
    except ImportError as error:
        print("peer: absent=" + str(error).replace(" ", "_"))
        return
    if not torch.cuda.is_available():
        print("peer: absent=PyTorch_sees_no_GPU")
        return
    torch.zeros(1, device="cuda")
    kernels = Kernels(sys.argv[1])
    for pattern in PATTERNS:
        stages = [Stage(torch, kernels, pattern, way) for way in WAYS]
        cold = {stage.way: stage.round(is_cold=True) for stage in stages}
        for stage in stages:
            for _ in range(WARM):
                stage.round()
        rounds = {way: [] for way in WAYS}
        for _ in range(ROUNDS):
            for stage in stages:
                rounds[stage.way].append(stage.round())
        for stage in stages:
            found = rounds[stage.way]
            times = [one[0] for one in found]
            print(
                f"peer: library=torch_{torch.__version__} pattern={pattern} strategy={stage.way}"
                f" steps={STEPS} rounds={ROUNDS} asked_bytes={sum(s[0] for s in stage.steps)}"
                f" ns={middle(times)} ns_min={min(times)} ns_max={max(times)}"
                f" cold_ns={cold[stage.way][0]}"
                f" active_peak_bytes={max(one[1] for one in found)}"
                f" reserved_peak_bytes={cold[stage.way][2]}"
                f" mismatches={int(stage.mismatches.item())}",
                flush=True,
            )
        del stages, stage


main()
