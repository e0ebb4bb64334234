// The device kernels that Wellspring's tests, benches and replay run: fill, check, stamp, wait.
//
// `cargo xtask kernels` compiles this file to the checked-in wellspring.ptx, for every device from
// compute capability 7.5 up. No header is needed. A kernel that walks memory takes any launch
// shape: each thread starts at its own number and strides over all threads of the grid.

typedef unsigned int u32;
typedef unsigned long long u64;

// How long `gate` waits before it gives up, so that a forgotten gate cannot hang a device.
static const u64 GATE_NANOSECONDS_MAX = 20ull * 1000 * 1000 * 1000;

static __device__ __forceinline__ u64 first_index() {
    return (u64)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ u64 stride() {
    return (u64)gridDim.x * blockDim.x;
}

static __device__ __forceinline__ u64 nanoseconds_now() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// How many words a stamp touches: word 0, every `stride_words`-th word, and the last word.
static __device__ __forceinline__ u64 stamp_places(u64 words, u64 stride_words) {
    if (words == 0) return 0;
    u64 step = stride_words == 0 ? 1 : stride_words;
    u64 last = words - 1;
    return last / step + 1 + (last % step != 0);
}

// The word that the stamp's place number `place` means.
static __device__ __forceinline__ u64 stamp_word(u64 place, u64 words, u64 stride_words) {
    u64 step = stride_words == 0 ? 1 : stride_words;
    u64 last = words - 1;
    return place <= last / step ? place * step : last;
}

// Does nothing.
extern "C" __global__ void nop() {}

// Keeps its stream busy for `nanoseconds`, by the device's own clock.
extern "C" __global__ void spin(u64 nanoseconds) {
    u64 begin = nanoseconds_now();
    while (nanoseconds_now() - begin < nanoseconds) {
    }
}

// Writes `value` to `count` words.
extern "C" __global__ void fill_u32(u32* out, u64 count, u32 value) {
    for (u64 i = first_index(); i < count; i += stride()) out[i] = value;
}

// Adds to `*mismatches` how many of `count` words are not `expected`.
extern "C" __global__ void check_u32(const u32* in, u64 count, u32 expected, u64* mismatches) {
    u64 found = 0;
    for (u64 i = first_index(); i < count; i += stride()) found += in[i] != expected;
    if (found != 0) atomicAdd(mismatches, found);
}

// Writes `value` to word 0, to every `stride_words`-th word and to the last word.
extern "C" __global__ void stamp(u32* out, u64 words, u64 stride_words, u32 value) {
    u64 places = stamp_places(words, stride_words);
    for (u64 i = first_index(); i < places; i += stride()) {
        out[stamp_word(i, words, stride_words)] = value;
    }
}

// Adds to `*mismatches` how many of the words that `stamp` writes are not `expected`.
extern "C" __global__ void check_stamp(const u32* in, u64 words, u64 stride_words, u32 expected,
                                       u64* mismatches) {
    u64 places = stamp_places(words, stride_words);
    u64 found = 0;
    for (u64 i = first_index(); i < places; i += stride()) {
        found += in[stamp_word(i, words, stride_words)] != expected;
    }
    if (found != 0) atomicAdd(mismatches, found);
}

// Holds its stream until the host makes `*flag` other than zero, or 20 seconds have passed.
extern "C" __global__ void gate(const volatile u32* flag) {
    if (first_index() != 0) return;
    u64 begin = nanoseconds_now();
    while (*flag == 0 && nanoseconds_now() - begin < GATE_NANOSECONDS_MAX) {
    }
}

// Writes one word.
extern "C" __global__ void put(u32* p, u32 value) {
    if (first_index() == 0) *p = value;
}

// Copies one word.
extern "C" __global__ void get(const u32* p, u32* out) {
    if (first_index() == 0) *out = *p;
}

// Writes to an address that is meant to be wrong, to see what a device error does.
extern "C" __global__ void write_bad(u32* p) {
    *(volatile u32*)p = 1;
}

// Adds `factor` times the input to the output, element by element.
extern "C" __global__ void scale_add(float* out, const float* in, float factor, u64 count) {
    for (u64 i = first_index(); i < count; i += stride()) out[i] += factor * in[i];
}

// Copies `count` words.
extern "C" __global__ void copy_u32(u32* out, const u32* in, u64 count) {
    for (u64 i = first_index(); i < count; i += stride()) out[i] = in[i];
}

// Stamps the output, and keeps its stream busy until `nanoseconds` have passed since it began.
extern "C" __global__ void produce(u32* out, u64 words, u64 stride_words, u32 value,
                                   u64 nanoseconds) {
    u64 begin = nanoseconds_now();
    u64 places = stamp_places(words, stride_words);
    for (u64 i = first_index(); i < places; i += stride()) {
        out[stamp_word(i, words, stride_words)] = value;
    }
    while (nanoseconds_now() - begin < nanoseconds) {
    }
}

// Keeps its stream busy for `nanoseconds`, then checks the stamp of the input, which must still be
// there at this last moment, and stamps the output.
extern "C" __global__ void consume(u32* out, u64 out_words, const u32* in, u64 words,
                                   u64 stride_words, u32 expected, u64* mismatches,
                                   u64 nanoseconds) {
    u64 begin = nanoseconds_now();
    while (nanoseconds_now() - begin < nanoseconds) {
    }
    u64 places = stamp_places(words, stride_words);
    u64 found = 0;
    for (u64 i = first_index(); i < places; i += stride()) {
        found += in[stamp_word(i, words, stride_words)] != expected;
    }
    if (found != 0) atomicAdd(mismatches, found);
    u64 out_places = stamp_places(out_words, stride_words);
    for (u64 i = first_index(); i < out_places; i += stride()) {
        out[stamp_word(i, out_words, stride_words)] = expected;
    }
}
