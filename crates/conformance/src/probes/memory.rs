//! Plain memory and stream-ordered memory: sizes, wrong addresses, blocks freed twice.

use crate::asker::Asker;

pub(crate) fn plain_and_async(asker: &Asker<'_>) {
    plain(asker);
    fills_and_copies(asker);
    stream_ordered(asker);
}

fn plain(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let mut p = 0;
    asker.code("cuMemAlloc(0)", driver.mem_alloc(&mut p, 0));
    asker.code("cuMemAlloc(1)", driver.mem_alloc(&mut p, 1));
    let alignment = [512, 256].into_iter().find(|alignment| p % alignment == 0).unwrap_or(1);
    asker.text("alignment of a 1-byte block", alignment);
    asker.code("cuMemFree(mid)", driver.mem_free(p + 1));
    asker.code("cuMemFree(p)", driver.mem_free(p));
    asker.code("cuMemFree(p) again", driver.mem_free(p));
    asker.code("cuMemFree(0)", driver.mem_free(0));
    asker.code("cuMemFree(garbage)", driver.mem_free(0x1234));
    asker.code("cuMemAlloc(1<<50)", driver.mem_alloc(&mut p, 1 << 50));
    asker.code("cuMemAlloc(SIZE_MAX)", driver.mem_alloc(&mut p, usize::MAX));
}

fn fills_and_copies(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let mut p = 0;
    asker.code("cuMemAlloc after OOM", driver.mem_alloc(&mut p, 4096));
    asker.code("cuMemsetD8(p,0,4096)", driver.memset_d8(p, 0, 4096));
    asker.code("cuMemsetD8 past the end", driver.memset_d8(p, 0, 64 << 20));
    asker.code("cuMemcpyDtoD 0 bytes", driver.memcpy_dtod(p, p, 0));
    asker.code("cuMemcpyHtoD null dst", driver.memcpy_htod(0, &[0; 8]));
    driver.mem_free(p);
}

fn stream_ordered(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let (mut p, mut q) = (0, 0);
    let stream = asker.stream();
    asker.code("cuMemAllocAsync(0)", driver.mem_alloc_async(&mut p, 0, stream));
    asker.code("cuMemAllocAsync(512)", driver.mem_alloc_async(&mut p, 512, stream));
    asker.code("cuMemFree of async block", driver.mem_free(p));
    asker.code("cuMemAlloc then cuMemFreeAsync: alloc", driver.mem_alloc(&mut q, 512));
    asker.code("cuMemFreeAsync of plain block", driver.mem_free_async(q, stream));
    asker.code("cuMemFreeAsync again", driver.mem_free_async(q, stream));
}

pub(crate) fn synchronize_after_two_frees(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let stream = asker.stream();
    let (mut p, mut q) = (0, 0);
    driver.mem_alloc_async(&mut p, 512, stream);
    driver.mem_free(p);
    driver.mem_alloc(&mut q, 512);
    let probe = "synchronise the stream after a plain block was freed twice with cuMemFreeAsync";
    asker.fatal(probe, || {
        driver.mem_free_async(q, stream);
        driver.mem_free_async(q, stream);
        driver.stream_synchronize(stream)
    });
}

pub(crate) fn pool_block_freed_twice(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let stream = asker.stream();
    let mut p = 0;
    driver.mem_alloc_async(&mut p, 512, stream);
    let codes = [driver.mem_free_async(p, stream), driver.mem_free_async(p, stream)];
    let [first, second] = codes.map(|code| asker.name(code));
    asker.text("cuMemFreeAsync twice on a pool block", format!("{first}, {second}"));
    asker.code("then synchronize", driver.stream_synchronize(stream));
}

pub(crate) fn plain_freed_twice(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let stream = asker.stream();
    let mut p = 0;
    driver.mem_alloc(&mut p, 512);
    let codes = [driver.mem_free_async(p, stream), driver.mem_free_async(p, stream)];
    let [first, second] = codes.map(|code| asker.name(code));
    asker.text("cuMemFreeAsync twice on a plain block", format!("{first}, {second}"));
}
