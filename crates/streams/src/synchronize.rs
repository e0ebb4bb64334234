//! Host synchronization of whole contexts and devices (O10).

use crate::context::Context;
use crate::device::{Device, Driver};
use crate::error::Error;

impl Context {
    /// Blocks until everything submitted to any stream of the context is done.
    ///
    /// What other contexts do is not waited for, and nothing is learned about it.
    ///
    /// # Errors
    /// A stream of the context captures, which this would break; or the driver's answer.
    pub fn synchronize(&self) -> Result<(), Error> {
        let core = self.core();
        core.raw.ready()?;
        core.refuse_while_capturing()?;
        let covered = core.registry().positions_in(core.id());
        core.raw.synchronize()?;
        core.registry().learn_synchronized(&covered);
        core.sweep()
    }
}

impl Device {
    /// Blocks until everything submitted to the device in any context known here is done.
    ///
    /// # Errors
    /// As for [`Context::synchronize`]; the contexts before the failed one are done.
    pub fn synchronize(&self) -> Result<(), Error> {
        let mine = self.driver().contexts();
        synchronize(mine.into_iter().filter(|context| context.device().ordinal() == self.ordinal()))
    }
}

impl Driver {
    /// Blocks until everything submitted in any context known here is done: those this library
    /// opened, and those it borrowed. None is made active for it.
    ///
    /// # Errors
    /// Some stream captures, and then nothing was called; or a driver's answer.
    pub fn synchronize_all(&self) -> Result<(), Error> {
        synchronize(self.contexts().into_iter())
    }
}

fn synchronize(contexts: impl Iterator<Item = Context>) -> Result<(), Error> {
    let contexts: Vec<Context> = contexts.collect();
    for context in &contexts {
        context.core().refuse_while_capturing()?;
    }
    contexts.iter().try_for_each(Context::synchronize)
}
