//! Copies and fills, on a stream or as seen by a host that waits.

use std::sync::Arc;

use cuda_sys::CUresult;

use crate::call::Call;
use crate::clock::Epoch;
use crate::memory::{MappingKind, size};
use crate::perform::digest;
use crate::shims::raw::HostPlace;
use crate::state::Answer;
use crate::stream::{Place, Work};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// The largest pinned source whose contents are remembered, to find a host that writes under a
/// copy.
const COMPARED_MAX: u64 = 16 << 20;

impl Call {
    fn check_range(&self, address: u64, bytes: u64) -> Answer {
        if self.memory.pieces(address, bytes).is_none() { Err(INVALID) } else { Ok(()) }
    }

    /// Queues a fill; `word` repeats.
    pub(crate) fn fill(&mut self, timeline: u32, address: u64, bytes: u64, word: u32) -> Answer {
        if bytes == 0 {
            return Ok(());
        }
        self.check_range(address, bytes)?;
        self.enqueue(timeline, Work::Fill { address, bytes, word })
    }

    /// Whether host memory is pinned from end to end.
    fn is_pinned(&self, place: HostPlace) -> bool {
        let start = size(place.address());
        self.memory.mapping_at(start).is_some_and(|(from, mapping)| {
            matches!(mapping.kind, MappingKind::Pinned | MappingKind::Registered)
                && start + size(place.bytes()) <= from + mapping.bytes
        })
    }

    /// Queues a copy to the device. Pageable memory is read now; pinned memory when the copy
    /// runs, and the host must not have changed it by then.
    pub(crate) fn copy_to_device(&mut self, timeline: u32, to: u64, from: HostPlace) -> Answer {
        let bytes = size(from.bytes());
        if bytes == 0 {
            return Ok(());
        }
        self.check_range(to, bytes)?;
        let capturing = self.live(timeline).capture.is_some();
        let mut source_then = None;
        let from = if self.is_pinned(from) {
            if self.settings.hazards && !capturing && bytes <= COMPARED_MAX {
                source_then = Some(digest(&taken(from)));
            }
            Place::Address(size(from.address()))
        } else if capturing || (self.settings.late_reads && self.chooser.once_in(2)) {
            Place::Host(from)
        } else {
            Place::Staged(taken(from))
        };
        self.enqueue(timeline, Work::Copy { to: Place::Address(to), from, bytes, source_then })
    }

    /// Queues a copy to the host; a pageable target makes the caller wait for it.
    pub(crate) fn copy_to_host(&mut self, timeline: u32, to: HostPlace, from: u64) -> Answer {
        let bytes = size(to.bytes());
        if bytes == 0 {
            return Ok(());
        }
        self.check_range(from, bytes)?;
        let capturing = self.live(timeline).capture.is_some();
        let pinned = self.is_pinned(to);
        let to = if pinned { Place::Address(size(to.address())) } else { Place::Host(to) };
        let from = Place::Address(from);
        self.enqueue(timeline, Work::Copy { to, from, bytes, source_then: None })?;
        if pinned || capturing { Ok(()) } else { self.wait_for_last(timeline) }
    }

    /// Queues a copy inside the device, or between devices.
    pub(crate) fn copy_in_device(
        &mut self,
        timeline: u32,
        to: u64,
        from: u64,
        bytes: u64,
    ) -> Answer {
        if bytes == 0 {
            return Ok(());
        }
        self.check_range(from, bytes)?;
        self.check_range(to, bytes)?;
        let (to, from) = (Place::Address(to), Place::Address(from));
        self.enqueue(timeline, Work::Copy { to, from, bytes, source_then: None })
    }

    /// A copy to the device that the host waits for. From pageable memory the host only sees
    /// what came before it complete: the last step to the device may still be under way.
    pub(crate) fn copy_to_device_now(&mut self, to: u64, from: HostPlace) -> Answer {
        let timeline = self.legacy()?;
        let pinned = self.is_pinned(from);
        self.copy_to_device(timeline, to, from)?;
        if pinned {
            return self.wait_for_last(timeline);
        }
        let stream = self.live(timeline);
        let place = stream.submitted().saturating_sub(1);
        let clock = stream.clock.clone();
        self.complete(&[(timeline, place)])?;
        self.check_context(self.live(timeline).context)?;
        self.observe(Epoch { timeline, place }, &clock);
        Ok(())
    }

    /// A copy to the host that the host waits for.
    pub(crate) fn copy_to_host_now(&mut self, to: HostPlace, from: u64) -> Answer {
        let timeline = self.legacy()?;
        let pinned = self.is_pinned(to);
        self.copy_to_host(timeline, to, from)?;
        if pinned && 0 < to.bytes() { self.wait_for_last(timeline) } else { Ok(()) }
    }

    /// The legacy stream of the current context.
    pub(crate) fn legacy(&mut self) -> Answer<u32> {
        let context = self.usable(self.thread)?;
        Ok(self.context(context).legacy)
    }

    /// Waits for a stream's last operation; the host has then seen it complete.
    fn wait_for_last(&mut self, timeline: u32) -> Answer {
        let stream = self.live(timeline);
        let (place, context) = (stream.submitted(), stream.context);
        let clock = stream.clock.clone();
        self.complete(&[(timeline, place)])?;
        self.check_context(context)?;
        self.observe(Epoch { timeline, place }, &clock);
        Ok(())
    }
}

fn taken(from: HostPlace) -> Arc<[u8]> {
    let mut bytes = vec![0; from.bytes()];
    from.read(0, &mut bytes);
    Arc::from(bytes)
}
