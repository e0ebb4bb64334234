//! Devices and contexts: what is current where, and what is broken for good.

use std::collections::BTreeMap;

use cuda_sys::CUresult;

use crate::clock::{Clock, Epoch};
use crate::profile::DeviceProfile;
use crate::state::{Answer, State};
use crate::stream::{Stream, StreamKind, Work};

/// How many streams that are gone are kept before those seen complete are dropped.
const GONE_UNPRUNED: usize = 64;

/// A device of the machine.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) profile: DeviceProfile,
    pub(crate) used_bytes: u64,
    pub(crate) primary: Option<usize>,
    pub(crate) primary_retains: u32,
    pub(crate) primary_flags: u32,
    /// The error after which nothing works on it any more in this process.
    pub(crate) broken: Option<CUresult>,
    pub(crate) default_pool: Option<usize>,
    pub(crate) current_pool: Option<usize>,
    /// The last operation in each hardware queue.
    pub(crate) queue_tails: BTreeMap<u32, (u32, u64)>,
}

impl Device {
    pub(crate) fn new(profile: DeviceProfile) -> Self {
        Self {
            profile,
            used_bytes: 0,
            primary: None,
            primary_retains: 0,
            primary_flags: 0,
            broken: None,
            default_pool: None,
            current_pool: None,
            queue_tails: BTreeMap::new(),
        }
    }

    /// Takes device memory.
    pub(crate) fn charge(&mut self, bytes: u64) -> Answer {
        let used = self.used_bytes.checked_add(bytes);
        match used {
            Some(used) if used <= self.profile.capacity_bytes => {
                self.used_bytes = used;
                Ok(())
            }
            _ => Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY),
        }
    }

    pub(crate) fn refund(&mut self, bytes: u64) {
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
    }
}

/// A context, alive or gone; its number is never used again.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) id: u64,
    pub(crate) device: usize,
    pub(crate) handle: usize,
    pub(crate) alive: bool,
    pub(crate) broken: Option<CUresult>,
    pub(crate) legacy: u32,
    pub(crate) per_thread: BTreeMap<usize, u32>,
    /// All timelines that are not gone.
    pub(crate) timelines: Vec<u32>,
    /// Those that the legacy stream waits for.
    pub(crate) blocking: Vec<u32>,
    /// Streams that are gone and were not seen complete.
    pub(crate) gone: Vec<(Epoch, Clock, bool)>,
    /// What every later stream comes after, too: events that the whole context waits for.
    pub(crate) waits: Vec<(Epoch, Clock)>,
    /// Contexts whose memory it may use.
    pub(crate) peers: Vec<usize>,
}

impl State {
    /// Makes a context and gives its number.
    pub(crate) fn new_context(&mut self, device: usize) -> usize {
        let context = self.contexts.len();
        let id = self.new_id();
        let handle = self.context_handles.insert(context);
        self.contexts.push(Context {
            id,
            device,
            handle,
            alive: true,
            broken: None,
            legacy: 0,
            per_thread: BTreeMap::new(),
            timelines: Vec::new(),
            blocking: Vec::new(),
            gone: Vec::new(),
            waits: Vec::new(),
            peers: Vec::new(),
        });
        let legacy = self.new_stream(context, StreamKind::Legacy);
        self.context_mut(context).legacy = legacy;
        context
    }

    pub(crate) fn context(&self, number: usize) -> &Context {
        self.contexts.get(number).expect("contexts are never removed")
    }

    pub(crate) fn context_mut(&mut self, number: usize) -> &mut Context {
        self.contexts.get_mut(number).expect("contexts are never removed")
    }

    pub(crate) fn device(&mut self, ordinal: i32) -> Answer<usize> {
        let index = usize::try_from(ordinal).map_err(|_| CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        if self.devices.len() <= index {
            return Err(CUresult::CUDA_ERROR_INVALID_DEVICE);
        }
        Ok(index)
    }

    pub(crate) fn device_mut(&mut self, index: usize) -> &mut Device {
        self.devices.get_mut(index).expect("device numbers are checked at the border")
    }

    /// The context that is current on a thread, whole or not.
    pub(crate) fn current(&self, thread: usize) -> Option<usize> {
        self.threads.get(thread)?.stack.last().copied().flatten()
    }

    /// The context that is current on a thread and can be used.
    pub(crate) fn usable(&self, thread: usize) -> Answer<usize> {
        let context = self.current(thread).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        self.check_context(context)?;
        Ok(context)
    }

    /// Whether a context is alive and whole.
    pub(crate) fn check_context(&self, number: usize) -> Answer {
        let context = self.context(number);
        if !context.alive {
            return Err(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
        }
        context.broken.map_or(Ok(()), Err)
    }

    /// After this every call into the context gives `code`.
    pub(crate) fn break_context(&mut self, number: usize, code: CUresult) {
        let context = self.context_mut(number);
        context.broken.get_or_insert(code);
        let device = context.device;
        self.device_mut(device).broken.get_or_insert(code);
    }

    /// Makes a stream and gives its timeline.
    pub(crate) fn new_stream(&mut self, context: usize, kind: StreamKind) -> u32 {
        let timeline = u32::try_from(self.streams.len()).expect("fewer than 2^32 streams are made");
        let id = self.new_id();
        self.streams.push(Some(Box::new(Stream::new(timeline, id, context, kind))));
        let owner = self.context_mut(context);
        owner.timelines.push(timeline);
        if kind.is_blocking() {
            owner.blocking.push(timeline);
        }
        if kind != StreamKind::Lane && !owner.waits.is_empty() {
            let waits = owner.waits.clone();
            let after = self.come_after(timeline, &waits);
            self.submit(timeline, Work::Nothing, after);
        }
        timeline
    }

    /// Forgets a destroyed stream whose work is done.
    pub(crate) fn retire(&mut self, timeline: u32) {
        let slot = self.streams.get_mut(crate::state::index(timeline));
        let Some(stream) = slot.and_then(Option::take) else { return };
        let epoch = Epoch { timeline, place: stream.done };
        let unseen = !self.observed.covers(epoch);
        let observed = &self.observed;
        let context = self.contexts.get_mut(stream.context).expect("contexts are never removed");
        if GONE_UNPRUNED < context.gone.len() {
            context.gone.retain(|gone| !observed.covers(gone.0));
        }
        for all in [&mut context.timelines, &mut context.blocking] {
            if let Some(position) = all.iter().position(|&other| other == timeline) {
                all.remove(position);
            }
        }
        if unseen {
            context.gone.push((epoch, stream.clock, stream.kind.is_blocking()));
        }
    }

    /// The per-thread default stream of a context, made on first use.
    pub(crate) fn per_thread_stream(&mut self, context: usize, thread: usize) -> u32 {
        if let Some(&timeline) = self.context(context).per_thread.get(&thread) {
            return timeline;
        }
        let timeline = self.new_stream(context, StreamKind::PerThread(thread));
        self.context_mut(context).per_thread.insert(thread, timeline);
        timeline
    }

    /// How reports call a stream.
    pub(crate) fn stream_name(&self, timeline: u32) -> String {
        self.stream(timeline).map_or_else(
            || format!("a stream that is gone (timeline {timeline})"),
            |stream| stream.name(self.context(stream.context).id),
        )
    }
}
