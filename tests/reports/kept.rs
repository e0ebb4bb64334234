//! Reports of memory that was kept for longer than anybody used it.

use std::time::{Duration, Instant};

use allocator::{Allocator, BlockState, Config, Policy, StrandedCause};
use cuda_sim::Schedule;

use super::{end, under_every_schedule};
use crate::scenarios::rig::{Rig as _, WHOLE, calls_of, take, without_calls};
use crate::simulated_rig::SimulatedRig;

/// From pytorch/pytorch #147168 and pytorch/torchtitan #735: layer after layer recorded on the
/// communication stream, which the compute stream has waited for. Nobody synchronizes, and the
/// memory is that of a layer or two.
#[test]
fn a_use_that_the_home_waited_for_keeps_no_memory() {
    under_every_schedule(|rig| {
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let [main, communicating] = desk.streams();
        for word in 0..32 {
            let x = take(rig, &allocator, &main, 4 * WHOLE);
            x.fill(&main, word);
            communicating.wait_stream(&main).expect("a wait");
            x.check(&communicating, word);
            main.wait_stream(&communicating).expect("a wait");
            x.block().record_stream(&communicating);
            x.give_back();
        }
        assert!(allocator.stats().reserved_bytes.peak <= 2 * 4 * WHOLE, "layers pile up");
    });
}

/// From pytorch/pytorch #181191: a use that ends with its own work, and the wait put on whoever
/// takes the memory: without a question, and with the same result each time. Whether to wait or to
/// grow is the caller's choice.
#[test]
fn the_wait_for_a_use_is_put_on_whoever_takes_the_memory() {
    for (pending_max, waits) in [(0, true), (1 << 30, false)] {
        under_every_schedule(|rig| {
            let desk = rig.desk();
            let config = Config::default().with_policy(Policy::Deterministic);
            let allocator = desk.allocator(config.with_pending_max(pending_max));
            let [home, user] = desk.streams();
            let x = take(rig, &allocator, &home, WHOLE);
            x.fill(&home, 1);
            user.wait_stream(&home).expect("a wait");
            desk.busy(&user);
            x.check(&user, 1);
            let _used = x.block().record_use(&user);
            let queries = || ["cuEventQuery", "cuStreamQuery"].map(|name| rig.calls_of(name));
            let before = queries();
            let freed = x.free();
            let (y, made) =
                calls_of(rig, "cuStreamWaitEvent", || take(rig, &allocator, &home, WHOLE));
            assert_eq!((y.address() == freed, made), (waits, Some(u64::from(waits))));
            assert_eq!(queries(), before, "the device was asked");
            y.fill(&home, 2);
            y.check(&home, 2);
        });
    }
}

/// From pytorch/pytorch #71616: one use that does not end hides no other that has.
#[test]
fn one_stuck_use_keeps_one_block() {
    const BLOCKS: usize = 50;
    under_every_schedule(|rig| {
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let [home, slow, fast] = desk.streams();
        let blocks: Vec<_> = (0..=BLOCKS).map(|_| take(rig, &allocator, &home, WHOLE)).collect();
        blocks.iter().for_each(|block| block.fill(&home, 1));
        slow.wait_stream(&home).expect("a wait");
        fast.wait_stream(&home).expect("a wait");
        let gate = desk.hold(&slow);
        let mut freed = Vec::new();
        for (index, block) in blocks.into_iter().enumerate() {
            let user = if index == 0 { &slow } else { &fast };
            block.check(user, 1);
            block.block().record_stream(user);
            freed.push(block.free());
        }
        fast.synchronize().expect("the fast one ends");
        let reserved = allocator.stats().reserved_bytes.current;
        let taken: Vec<_> = without_calls(rig, || {
            (0..BLOCKS).map(|_| take(rig, &allocator, &home, WHOLE)).collect()
        });
        for block in &taken {
            assert!(freed[1..].contains(&block.address()), "the stuck one, or a new one");
            block.fill(&home, 2);
        }
        assert_eq!(allocator.stats().reserved_bytes.current, reserved);
        gate.open();
    });
}

/// From NVIDIA/Megatron-LM PR #6885: what a stream of the start-up left behind serves the others
/// before the device is asked for more.
#[test]
fn the_cache_of_a_stream_that_is_gone_serves_others() {
    const BLOCKS: u64 = 20;
    for is_dropped in [true, false] {
        under_every_schedule(|rig| {
            let desk = rig.desk();
            let limit = (BLOCKS + 1) * WHOLE;
            let allocator = desk.allocator(Config::default().with_limit(limit));
            let [main, first] = desk.streams();
            let blocks: Vec<_> =
                (0..BLOCKS).map(|_| take(rig, &allocator, &first, WHOLE)).collect();
            blocks.iter().for_each(|block| block.fill(&first, 1));
            blocks.into_iter().for_each(|block| block.give_back());
            let idle = (!is_dropped).then(|| first.clone());
            drop(first);
            for _ in 0..2 {
                let blocks: Vec<_> =
                    (0..BLOCKS).map(|_| take(rig, &allocator, &main, WHOLE)).collect();
                blocks.iter().for_each(|block| block.fill(&main, 2));
                blocks.iter().for_each(|block| block.check(&main, 2));
            }
            assert!(allocator.stats().reserved_bytes.peak <= limit, "within one block");
            drop(idle);
        });
    }
}

/// From chelsea0x3b/cudarc PR #94: frees that are ordered through a stream of their own. Where that
/// stream only waits for the home, and the home for it, the memory is that of one stream.
#[test]
fn frees_that_hop_streams_stay_in_sight_of_reuse() {
    const LIVE: u64 = 10;
    let peak_of = |hops: bool| {
        let peak = std::cell::Cell::new(0);
        under_every_schedule(|rig| {
            let desk = rig.desk();
            let config = Config::default().with_policy(Policy::Deterministic);
            let allocator = desk.allocator(config.with_pending_max(0));
            let [home, freeing] = desk.streams();
            let mut live = std::collections::VecDeque::new();
            for word in 0..60 {
                let x = take(rig, &allocator, &home, WHOLE);
                x.fill(&home, word);
                live.push_back(x);
                if u64::try_from(live.len()).expect("a few") == LIVE {
                    let x = live.pop_front().expect("ten of them");
                    if hops {
                        freeing.wait_stream(&home).expect("a wait");
                        x.block().record_stream(&freeing);
                    }
                    x.give_back();
                }
            }
            drop(live);
            end(rig);
            peak.set(peak.get().max(allocator.stats().reserved_bytes.peak));
        });
        peak.get()
    };
    let (same, hopping) = (peak_of(false), peak_of(true));
    assert!(hopping * 10 <= same * 11, "{hopping} bytes against {same}");
}

/// From cupy/cupy #8068: a block that another stream uses is kept until that is done.
#[test]
fn a_pool_can_be_told_of_another_streams_use() {
    under_every_schedule(|rig| {
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let [home, user] = desk.streams();
        let x = take(rig, &allocator, &home, WHOLE);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        let gate = desk.hold(&user);
        x.block().record_stream(&user);
        x.check(&user, 1);
        let freed = x.free();
        let y = take(rig, &allocator, &home, WHOLE);
        assert_ne!(y.address(), freed, "the other stream still reads it");
        y.fill(&home, 2);
        gate.open();
        user.synchronize().expect("it ends");
        let z = take(rig, &allocator, &home, WHOLE);
        assert_eq!(z.address(), freed);
    });
}

/// From cupy/cupy #8068: the memory of a stream that is gone is told of as such as long as its work
/// is not known to be over, and is offered to everyone in its order.
#[test]
fn the_memory_of_a_stream_that_is_gone_is_not_lost() {
    under_every_schedule(|rig| {
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let [main, between, gone] = desk.streams();
        let x = take(rig, &allocator, &gone, 8 * WHOLE);
        let gate = desk.hold(&gone);
        x.fill(&gone, 1);
        let freed = x.free();
        between.wait_stream(&gone).expect("a wait");
        drop(gone);
        let stranded = allocator.stranded();
        assert_eq!(stranded.total_bytes(), 8 * WHOLE, "{stranded}");
        let causes = [StrandedCause::RetiredStream, StrandedCause::GatedStream];
        let told: u64 = causes.into_iter().map(|cause| stranded.bytes_of(cause)).sum();
        assert_eq!(told, 8 * WHOLE, "{stranded}");
        main.wait_stream(&between).expect("a wait");
        let y = without_calls(rig, || take(rig, &allocator, &main, 8 * WHOLE));
        assert_eq!(y.address(), freed, "after the last work of the stream that is gone");
        y.fill(&main, 2);
        gate.open();
        end(rig);
        y.give_back();
        end(rig);
        let freed = allocator.poll();
        assert_eq!(allocator.stranded().total_bytes(), 0, "{freed} bytes came free");
    });
}

/// From pytorch/pytorch PR #172672: a snapshot shows what is held now. What went before is told to
/// observers as it happens, kept by none of the allocator's parts, and adds neither blocks, calls
/// nor time.
#[test]
fn a_snapshot_costs_the_same_however_much_went_before() {
    let rig = SimulatedRig::new(Schedule::Eager);
    let desk = rig.desk();
    let shown_after = |rounds: u32| {
        let allocator = desk.allocator(Config::default());
        let [home] = desk.streams();
        let x = take(&rig, &allocator, &home, WHOLE);
        for _ in 0..rounds {
            take(&rig, &allocator, &home, WHOLE).give_back();
        }
        let shown = without_calls(&rig, || allocator.snapshot());
        let blocks: Vec<(u64, u64, BlockState)> =
            shown.blocks().map(|block| (block.size, block.requested, block.state)).collect();
        let best = fastest_snapshot(&allocator);
        x.give_back();
        (shown.segments.len(), blocks, best)
    };
    let (segments, blocks, best) = shown_after(1);
    for rounds in [100, 5_000] {
        let (segments_now, blocks_now, best_now) = shown_after(rounds);
        assert_eq!((segments_now, &blocks_now), (segments, &blocks), "after {rounds} rounds");
        // A snapshot that walked through 5,000 events would take hundreds of times as long.
        let limit = 20 * best + Duration::from_micros(50);
        assert!(best_now < limit, "{best_now:?} after {rounds} rounds, {best:?} after one");
    }
}

/// The least time of many, which other work on the machine does not change.
fn fastest_snapshot(allocator: &Allocator) -> Duration {
    let once = |_| {
        let start = Instant::now();
        drop(allocator.snapshot());
        start.elapsed()
    };
    (0..50).map(once).min().expect("there are fifty")
}
