//! What of cudarc's lives until the process ends, because our names for it may.
//!
//! A [`Stream`](wellspring::Stream) or a runtime is cloned freely and may outlive the neighbor it
//! came from, and whoever borrows promises that what is borrowed lives as long. So a reference to
//! each context and stream that was borrowed stays here: the driver never destroys it, and never
//! gives its handle to another one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::{CudaContext, CudaStream};

type Kept<T> = OnceLock<Mutex<HashMap<usize, Arc<T>>>>;

/// Keeps `context`.
pub(crate) fn keep_context(context: &Arc<CudaContext>) {
    static CONTEXTS: Kept<CudaContext> = OnceLock::new();
    keep(&CONTEXTS, context.cu_ctx().addr(), context);
}

/// Keeps `stream`, whose handle is not one of the default streams'.
pub(crate) fn keep_stream(stream: &Arc<CudaStream>) {
    static STREAMS: Kept<CudaStream> = OnceLock::new();
    keep(&STREAMS, stream.cu_stream().addr(), stream);
}

fn keep<T>(kept: &'static Kept<T>, handle: usize, owner: &Arc<T>) {
    let mut kept = kept.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    kept.entry(handle).or_insert_with(|| Arc::clone(owner));
}
