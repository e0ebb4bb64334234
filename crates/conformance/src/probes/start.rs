//! Calls before the driver was started, and in a child that was forked after it.

use crate::asker::Asker;
use crate::driver::Context;

pub(crate) fn before_init(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let (mut count, mut context, mut address) = (0, Context::default(), 0);
    asker.code("cuDeviceGetCount", driver.device_get_count(&mut count));
    asker.code("cuCtxGetCurrent", driver.ctx_get_current(&mut context));
    asker.code("cuMemAlloc", driver.mem_alloc(&mut address, 1));
    asker.code("cuInit(1)", driver.init(1));
}

pub(crate) fn after_fork(asker: &Asker<'_>) {
    let Some(in_forked_child) = asker.environment.in_forked_child else { return };
    let ended = in_forked_child(&|| {
        let driver = &asker.driver;
        let (mut count, mut context, mut address) = (0, Context::default(), 0);
        asker.code("cuInit", driver.init(0));
        asker.code("cuDeviceGetCount", driver.device_get_count(&mut count));
        asker.code("cuMemAlloc", driver.mem_alloc(&mut address, 512));
        asker.code("cuCtxGetCurrent", driver.ctx_get_current(&mut context));
    });
    asker.text("child ended", ended);
}
