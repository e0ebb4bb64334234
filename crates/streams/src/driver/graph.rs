//! Captured graphs and their executable form: one owner each.

use std::ptr;

use cuda_sys::{CUgraph, CUgraphExec};

use super::{DriverContext, DriverStream, Handle};
use crate::error::Error;
use crate::sync::Arc;

/// A graph.
#[derive(Debug)]
pub(crate) struct DriverGraph {
    context: Arc<DriverContext>,
    raw: Handle<CUgraph>,
}

impl DriverGraph {
    /// Takes over a graph that `cuStreamEndCapture` has just made.
    pub(super) fn own(context: Arc<DriverContext>, raw: CUgraph) -> Self {
        Self { context, raw: Handle(raw) }
    }

    pub(crate) fn instantiate(&self) -> Result<DriverExec, Error> {
        self.context.ready()?;
        let call = self.context.table().graph_instantiate_with_flags()?;
        let _current = self.context.current()?;
        let _relaxed = self.context.relaxed()?;
        let mut raw = ptr::null_mut();
        // SAFETY: the graph is live, and the result is ours to write.
        let code = unsafe { call(&raw mut raw, self.raw.get(), 0) };
        self.context.check("cuGraphInstantiateWithFlags", code)?;
        Ok(DriverExec { context: Arc::clone(&self.context), raw: Handle(raw) })
    }
}

impl Drop for DriverGraph {
    fn drop(&mut self) {
        let raw = self.raw;
        // SAFETY: this was the only owner.
        self.context.dispose(move |context| unsafe { context.table().graph_destroy()(raw.get()) });
    }
}

/// A graph that can be launched.
#[derive(Debug)]
pub(crate) struct DriverExec {
    context: Arc<DriverContext>,
    raw: Handle<CUgraphExec>,
}

impl DriverExec {
    pub(crate) fn launch(&self, stream: &DriverStream) -> Result<(), Error> {
        self.context.ready()?;
        let _current = stream.context().current()?;
        // SAFETY: both objects are live.
        let code = unsafe { self.context.table().graph_launch()(self.raw.get(), stream.raw()) };
        self.context.check("cuGraphLaunch", code)
    }
}

impl Drop for DriverExec {
    fn drop(&mut self) {
        let raw = self.raw;
        // SAFETY: this was the only owner; a replay that is under way goes on.
        self.context
            .dispose(move |context| unsafe { context.table().graph_exec_destroy()(raw.get()) });
    }
}
