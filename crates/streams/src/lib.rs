//! CUDA contexts, streams, events, copies and launches, with an order that is known.
//!
//! What it does: owns the driver's objects, and keeps for every stream what it is known to come
//! after, from records, waits and synchronizations that were seen to succeed.
//!
//! What it knows nothing about: blocks, size classes, who allocates.
//!
//! Start with [`Driver`], then [`Context`] and [`Stream`]; an allocator builds on [`StreamOrder`]
//! and [`Fence`]. The rules of order stand at the top of [`order`].
//!
//! ```
//! use cuda_sim::{Machine, Schedule};
//! use streams::memory::DeviceMemory;
//! use streams::{Driver, RawSpan, StreamOptions};
//!
//! # fn main() -> Result<(), streams::Error> {
//! let machine = Machine::builder().schedule(Schedule::Lazy).build();
//! let driver = Driver::from_table(machine.table())?; // on a machine with a GPU: `Driver::load()`
//! let context = driver.device(0)?.primary_context()?;
//! let producer = context.create_stream(StreamOptions::default())?;
//! let consumer = context.create_stream(StreamOptions::default())?;
//!
//! let memory = DeviceMemory::allocate(&context, 4096)?;
//! // Safe: the memory outlives what is queued here.
//! let span = unsafe { RawSpan::from_raw(memory.address(), memory.bytes()) };
//! let filled = producer.fill_bytes(&span, 0, 4096, 7)?;
//!
//! assert!(!consumer.order().knows(filled.point()));
//! consumer.wait_stream(&producer)?; // on the device: the host does not wait
//! assert!(consumer.order().knows(filled.point()));
//!
//! let mut first = [0];
//! consumer.copy_to_host(&mut first, &span, 0)?;
//! assert_eq!(first, [7]);
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: knowledge is only added from calls that succeeded, so what happens behind our back
//! makes us more careful, never wrong. No driver call is made inside a host function, on a context
//! that has failed, or on a destroyed object. No lock is held across a driver call. Destructors do
//! not panic, and only those of [`memory::PinnedMemory`] and [`Gates`] may block. Memory that an
//! operation uses is alive and may be used: an owner sees to it as a [`DeviceOwner`], and for a
//! [`RawSpan`], made of an address, its maker promises it.

#![deny(unsafe_code)]

mod apart;
mod capture;
mod context;
mod copy;
mod current;
mod device;
mod driver;
mod error;
mod event;
mod event_pool;
mod fence;
mod fence_list;
mod future;
mod gates;
mod graph;
mod graves;
mod known_streams;
pub mod launch;
mod leftovers;
#[cfg(all(test, loom))]
mod loom_tests;
pub mod memory;
pub mod observe;
pub mod order;
mod stream;
mod stream_core;
mod stream_fences;
mod stream_knowledge;
mod stream_order;
mod stream_pool;
mod submission;
mod submit;
mod sync;
mod synchronize;
mod timekeeper;
mod uses;
mod watch;

pub use apart::Apart;
pub use context::Context;
pub use current::CurrentStream;
pub use device::{Device, Driver, NoBlocking};
#[doc(hidden)]
pub use driver::Generation;
pub use driver::{BorrowPromises, DeviceOwner, ParameterValue, RawSpan, in_host_function};
pub use error::{Code, DriverError, Error};
pub use event::Event;
pub use fence::{Fence, FenceTimer};
pub use future::Completion;
pub use gates::Gates;
pub use graph::{Capture, CaptureMode, Graph, GraphExec, Hold, is_broken_capture};
pub use launch::{Kernel, Module};
pub use order::{Frontier, Point, Registry, SlotKeeper, StreamSlot};
pub use stream::{PerThreadStream, Stream, StreamOptions};
pub use stream_order::StreamOrder;
pub use stream_pool::StreamPool;
pub use submission::Submission;
pub use uses::{Access, DeviceBytes, DevicePart, DeviceSpan, UseTicket, Used};
