//! Host synchronization of whole contexts and devices (O10).

use std::panic::Location;

use crate::context::Context;
use crate::device::{Device, Driver};
use crate::error::Error;
use crate::observe::{How, Scope, What};

impl Context {
    /// Blocks until everything submitted to any stream of the context is done.
    ///
    /// What other contexts do is not waited for, and nothing is learned about it.
    ///
    /// # Errors
    /// A stream of the context captures, which this would break; or the driver's answer.
    #[track_caller]
    pub fn synchronize(&self) -> Result<(), Error> {
        let core = self.core();
        core.raw.ready()?;
        core.refuse_while_capturing()?;
        let covered = core.registry().positions_in(core.id());
        let (place, scope) = (Location::caller(), Scope::Context { context: core.id() });
        let watch = core.driver().watch();
        let reached = if watch.is_on() { core.reached_streams() } else { Vec::new() };
        watch.tell(Some(place), || What::SynchronizationBegun { scope });
        core.raw.synchronize()?;
        let how = How::Synchronization;
        watch.tell(Some(place), || What::Passed { scope, reached: &reached, how });
        core.registry().learn_context_synchronized(&covered);
        core.sweep()
    }
}

impl Device {
    /// Blocks until everything submitted to the device in any context known here is done.
    ///
    /// # Errors
    /// As for [`Context::synchronize`]; the contexts before the failed one are done.
    #[track_caller]
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
    #[track_caller]
    pub fn synchronize_all(&self) -> Result<(), Error> {
        synchronize(self.contexts().into_iter())
    }
}

#[track_caller]
fn synchronize(contexts: impl Iterator<Item = Context>) -> Result<(), Error> {
    let contexts: Vec<Context> = contexts.collect();
    for context in &contexts {
        context.core().refuse_while_capturing()?;
    }
    for context in &contexts {
        context.synchronize()?;
    }
    Ok(())
}
