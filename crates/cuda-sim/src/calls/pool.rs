//! Stream-ordered allocation: the memory is there at once, and gone when the free has run.

use cuda_sys::CUresult;

use crate::call::Call;
use crate::hazard::{Ending, Hazard};
use crate::memory::{MappingKind, size};
use crate::pool::Pool;
use crate::shadow::{Label, Seen};
use crate::state::{Answer, State};
use crate::stream::Work;

impl Pool {
    /// An attribute by its number in the header.
    pub(crate) fn attribute(&self, number: u32) -> Option<u64> {
        Some(match number {
            1..=3 => u64::from(*self.reuse.get(crate::state::index(number) - 1)?),
            4 => self.release_threshold,
            5 | 7 => self.used,
            6 | 8 => self.used_high,
            _ => return None,
        })
    }

    /// Sets an attribute; false for one that cannot be set so.
    pub(crate) fn set_attribute(&mut self, number: u32, value: u64) -> bool {
        match (number, value) {
            (1..=3, 0..=1) => {
                if let Some(switch) = self.reuse.get_mut(crate::state::index(number) - 1) {
                    *switch = u32::from(value == 1);
                }
            }
            (4, threshold) => self.release_threshold = threshold,
            (6 | 8, 0) => self.used_high = self.used,
            _ => return false,
        }
        true
    }
}

impl Call {
    pub(crate) fn pools_supported(&mut self, device: usize) -> Answer {
        if self.device_mut(device).profile.pools {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
        }
    }

    pub(crate) fn default_pool(&mut self, device: usize) -> Answer<usize> {
        self.pools_supported(device)?;
        if let Some(pool) = self.device_mut(device).default_pool {
            return Ok(pool);
        }
        let pool = self.pools.insert(Pool::new(device, true));
        let device = self.device_mut(device);
        device.default_pool = Some(pool);
        device.current_pool.get_or_insert(pool);
        Ok(pool)
    }

    pub(crate) fn current_pool(&mut self, device: usize) -> Answer<usize> {
        let default = self.default_pool(device)?;
        Ok(self.device_mut(device).current_pool.unwrap_or(default))
    }

    pub(crate) fn allocate_from(
        &mut self,
        pool: usize,
        bytes: usize,
        timeline: u32,
    ) -> Answer<u64> {
        if let Some(capture) = self.live(timeline).capture {
            self.check_capture(capture)?;
        } else {
            self.refuse_capture()?;
        }
        let context = self.live(timeline).context;
        let device = self.pools.get(pool)?.device;
        let bytes = size(bytes).max(1);
        let address = self.add_device_memory(bytes, device, context, MappingKind::Pool(pool))?;
        let pool = self.pools.get_mut(pool)?;
        pool.used += bytes;
        pool.used_high = pool.used_high.max(pool.used);
        Ok(address)
    }

    /// Queues the end of a block. A block of a pool must not be freed twice; for other memory
    /// the real driver says yes and breaks later, and here it is a hazard.
    pub(crate) fn free_async(&mut self, address: u64, timeline: u32) -> Answer {
        if self.live(timeline).capture.is_some() {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        self.refuse_capture()?;
        if address == 0 {
            return Ok(());
        }
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        let Some(mapping) = self.memory.mappings.get_mut(&address) else {
            return self.free_again(address);
        };
        match (mapping.kind, mapping.freed) {
            (MappingKind::Pool(_), true) => return Err(invalid),
            (MappingKind::Plain, true) => return self.free_again(address),
            (MappingKind::Pool(_) | MappingKind::Plain, false) => mapping.freed = true,
            _ => return Err(invalid),
        }
        if mapping.kind == MappingKind::Plain {
            self.plain_freed_in_order.insert(address);
        }
        self.judge_free(address, timeline);
        self.enqueue(timeline, Work::PoolFree { address })
    }

    /// A free of what is no block, or no longer one.
    fn free_again(&mut self, address: u64) -> Answer {
        if !self.plain_freed_in_order.contains(&address) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        self.report(Hazard::FreedTwice { address });
        Ok(())
    }

    /// The free, too, must come after every use of the block.
    fn judge_free(&mut self, address: u64, timeline: u32) {
        if !self.settings.hazards {
            return;
        }
        let Some(mapping) = self.memory.mappings.get(&address) else { return };
        let range = address..address + mapping.bytes;
        let place = self.live(timeline).submitted() + 1;
        let epoch = crate::clock::Epoch { timeline, place };
        let seen = Seen { epoch, number: self.numbers() + 1, label: Label::PoolFree };
        self.touch_all(&[crate::kernel::Access::write(range.start, range.end - range.start)], seen);
        if let Some((range, tenant)) = self.tenancy.find(&range, true) {
            let ending = Ending::Free;
            let born_on = tenant.stream.clone();
            self.report(Hazard::EndedAlive { ending, range, born_on });
        }
    }
}

impl State {
    /// The queued free of a block has run.
    pub(crate) fn finish_pool_free(&mut self, address: u64) {
        if self.memory.mappings.get(&address).is_some_and(|mapping| mapping.freed) {
            self.remove_mapping(address);
        }
    }

    /// Takes a block off its pool's account.
    pub(crate) fn note_pool_free(&mut self, pool: usize, bytes: u64) {
        if let Ok(pool) = self.pools.get_mut(pool) {
            pool.used = pool.used.saturating_sub(bytes);
        }
    }
}
