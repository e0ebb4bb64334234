//! Orderings that allocators got wrong, each in three runs and with a model of the design that
//! got it wrong.
//!
//! A litmus is a small program. With the order missing, the memory must not come back; with the
//! order present (its dual), it must, without a driver call. Both are run under every schedule
//! that the host could tell apart (S6), or, where several threads take turns (S7), under many
//! seeds. The faulty design is a few lines that hand memory out as that design would, and the
//! checker must find its hole; with the fault mended, it must find nothing.
//!
//! `docs/litmus.md` has the table. `WELLSPRING_SCHEDULES=100000` runs the threads under so many
//! seeds, and `WELLSPRING_LITMUS_TABLE=1` writes the table anew.

mod captures;
mod devices;
mod order;
mod passing;
mod policies;
mod table;
mod threads;
mod trial;

use std::time::Duration;

use cuda_sim::{DeviceProfile, Explorer, Machine, MachineBuilder, Schedule};

use crate::simulated_rig::{SimulatedRig, contexts};
use trial::{Design, Edge, Trial};

/// With how many seeds the threads run here; the environment may ask for more.
const SEEDS: u64 = 200;
/// Within so many schedules a hole is found.
const MODEL_SCHEDULES_MAX: u64 = 10_000;
/// How soon a model's wait that can never end is reported.
const PATIENCE: Duration = Duration::from_millis(20);

/// A litmus.
pub struct Litmus {
    /// Its number.
    pub id: &'static str,
    /// The faulty design that is modelled.
    pub design: &'static str,
    program: Program,
}

/// What it runs.
enum Program {
    /// One host thread, under every schedule.
    Alone {
        machine: fn() -> MachineBuilder,
        product: fn(&Trial<'_>),
        model: fn(&Trial<'_>, Design),
    },
    /// Several host threads, under seeds. A product's run gets whether the order is present and
    /// says whether the memory came back; a model's says what the checker found.
    Threads { product: fn(&Machine, bool) -> bool, model: fn(&Machine, Design) -> Vec<String> },
}

/// What the runs of one litmus covered.
pub struct Outcome {
    /// How many schedules, over all three runs of the product.
    pub schedules: u64,
    /// Whether that was all of them.
    pub is_exhaustive: bool,
    /// In which schedule of the model the checker found the hole, counted from one.
    pub found_after: u64,
}

/// A machine with one device.
fn one_device() -> MachineBuilder {
    Machine::builder().device(DeviceProfile::h200()).refusals(1)
}

/// A machine with two devices; the program works on the second.
fn two_devices() -> MachineBuilder {
    one_device().device(DeviceProfile::h200())
}

impl Litmus {
    const fn alone(
        id: &'static str,
        design: &'static str,
        product: fn(&Trial<'_>),
        model: fn(&Trial<'_>, Design),
    ) -> Self {
        Self::alone_on(id, design, one_device, product, model)
    }

    const fn alone_on(
        id: &'static str,
        design: &'static str,
        machine: fn() -> MachineBuilder,
        product: fn(&Trial<'_>),
        model: fn(&Trial<'_>, Design),
    ) -> Self {
        Self { id, design, program: Program::Alone { machine, product, model } }
    }

    const fn threads(
        id: &'static str,
        design: &'static str,
        product: fn(&Machine, bool) -> bool,
        model: fn(&Machine, Design) -> Vec<String>,
    ) -> Self {
        Self { id, design, program: Program::Threads { product, model } }
    }

    /// What the table says of it besides counts.
    fn cells(&self) -> Vec<&'static str> {
        let is_exhaustive = matches!(self.program, Program::Alone { .. });
        vec![self.id, if is_exhaustive { "yes" } else { "no" }, self.design]
    }

    /// Runs all of it.
    pub fn check(&self) -> Outcome {
        match self.program {
            Program::Alone { machine, product, model } => {
                let edges = [Edge::Held, Edge::Running, Edge::Present];
                let schedules =
                    edges.into_iter().map(|edge| self.explore_product(machine, product, edge));
                let schedules = schedules.sum();
                let found_after = self.explore_model(machine, model, Design::Wrong);
                let clean = self.explore_model(machine, model, Design::Right);
                let found_after = found_after.unwrap_or_else(|| self.missed());
                assert_eq!(clean, None, "{}: the mended model has a hole", self.id);
                Outcome { schedules, is_exhaustive: true, found_after }
            }
            Program::Threads { product, model } => self.check_threads(product, model),
        }
    }

    fn missed(&self) -> u64 {
        panic!("{}: the checker missed that {}", self.id, self.design)
    }

    fn explore_product(
        &self,
        machine: fn() -> MachineBuilder,
        product: fn(&Trial<'_>),
        edge: Edge,
    ) -> u64 {
        let coverage = Explorer::new(machine()).run(|machine| {
            on_rig(machine, |rig, other| {
                let trial = Trial::of_product(rig, other, edge);
                product(&trial);
                let (_, hazards) = trial.end();
                assert!(hazards.is_empty(), "{} {edge:?}: {hazards:#?}", self.id);
            });
            let hazards = machine.take_hazards();
            assert!(hazards.is_empty(), "{} {edge:?}, at the end: {hazards:#?}", self.id);
        });
        coverage.assert_complete().schedules
    }

    /// In which schedule the checker first finds something.
    fn explore_model(
        &self,
        machine: fn() -> MachineBuilder,
        model: fn(&Trial<'_>, Design),
        design: Design,
    ) -> Option<u64> {
        let (mut count, mut found) = (0, None);
        let builder = machine().patience(PATIENCE);
        let explorer = Explorer::new(builder).schedules_max(MODEL_SCHEDULES_MAX);
        let _stopped = explorer.run(|machine| {
            count += 1;
            on_rig(machine, |rig, other| {
                let trial = Trial::of_model(rig, other);
                model(&trial, design);
                let (_, hazards) = trial.end();
                if !hazards.is_empty() {
                    found = found.or(Some(count));
                }
            });
        });
        found
    }

    fn check_threads(
        &self,
        product: fn(&Machine, bool) -> bool,
        model: fn(&Machine, Design) -> Vec<String>,
    ) -> Outcome {
        let seeds = seeds();
        for seed in 0..seeds {
            let _maybe = self.under_seed(seed, |machine| product(machine, false));
            let reused = self.under_seed(seed, |machine| product(machine, true));
            assert!(reused, "{}, seed {seed}: known to come before, and not handed out", self.id);
        }
        let finds = |design| {
            move |seed: &u64| !self.under_seed(*seed, |machine| model(machine, design)).is_empty()
        };
        let found = (0..MODEL_SCHEDULES_MAX).find(finds(Design::Wrong));
        let clean = (0..SEEDS).find(finds(Design::Right));
        assert_eq!(clean, None, "{}: the mended model has a hole", self.id);
        let found_after = found.map_or_else(|| self.missed(), |seed| seed + 1);
        Outcome { schedules: 2 * seeds, is_exhaustive: false, found_after }
    }

    fn under_seed<R>(&self, seed: u64, program: impl FnOnce(&Machine) -> R) -> R {
        let machine = one_device().schedule(Schedule::Seeded(seed)).build();
        let run = std::panic::AssertUnwindSafe(|| program(&machine));
        std::panic::catch_unwind(run).unwrap_or_else(|panic| {
            #[expect(clippy::print_stderr, reason = "a test says which run failed")]
            {
                eprintln!("{} failed with seed {seed}", self.id);
            }
            std::panic::resume_unwind(panic)
        })
    }
}

/// With how many seeds the threads run.
fn seeds() -> u64 {
    let asked = std::env::var("WELLSPRING_SCHEDULES").ok();
    let asked = asked.map(|text| text.parse().expect("WELLSPRING_SCHEDULES is a number"));
    asked.map_or(SEEDS, |count: u64| count.div_ceil(2))
}

/// A rig on the machine's last device, with the context of the other one, if there is one.
fn on_rig(machine: &Machine, work: impl FnOnce(&SimulatedRig, Option<streams::Context>)) {
    kernels::simulated::register(machine);
    let mut contexts = contexts(machine);
    let own = contexts.pop().expect("a machine has a device");
    let rig = SimulatedRig::in_context(machine.clone(), &own);
    work(&rig, contexts.pop());
}

macro_rules! litmus {
    ($($name:ident: $litmus:expr;)*) => {
        /// All of them.
        pub const ALL: &[Litmus] = &[$($litmus),*];

        $(#[test]
        fn $name() {
            table::tell(&$litmus, &$litmus.check());
        })*
    };
}

litmus! {
    l01_a_list_merged_under_a_stale_event: passing::L1;
    l02_a_block_seen_before_its_event_is_recorded: threads::L2;
    l03_a_recycled_handle_is_another_stream: passing::L3;
    l04_an_event_at_record_time_misses_later_uses: order::L4;
    l05_a_stamp_at_allocation_misses_later_uses: order::L5;
    l06_one_read_event_for_many_readers: passing::L6;
    l07_no_reuse_by_completed_polls_where_the_policy_forbids_it: policies::L7;
    l08_an_event_recorded_while_another_device_is_current: devices::L8;
    l09_a_fill_on_another_stream_is_a_use: passing::L9;
    l10_a_joined_block_carries_the_join: passing::L10;
    l11_what_a_thief_leaves_keeps_the_victims_frontier: passing::L11;
    l12_no_order_rests_on_a_memory_wait: devices::L12;
    l13_a_free_inside_a_capture: captures::L13;
    l14_a_synchronization_beside_a_free_on_another_thread: threads::L14;
    l15_the_legacy_stream_orders_only_blocking_streams: devices::L15;
    l16_of_two_uses_on_one_stream_one_ended_early: order::L16;
    l17_an_event_recorded_before_the_use: order::L17;
    l18_order_is_handed_on_only_from_after_the_wait: order::L18;
    l19_an_event_stands_for_its_last_record: order::L19;
    l19_a_wait_beside_a_record_on_another_thread: threads::L19_THREADS;
    l20_a_synchronized_event_recorded_meanwhile: threads::L20;
    l21_a_wait_is_a_submission: order::L21;
    l22_the_per_thread_stream_is_fenced_by_its_own_thread: threads::L22;
    l23_a_program_that_opens_its_gate_later_ends: policies::L23;
    l24_memory_first_handed_out_in_a_capture_is_complete: captures::L24;
    l25_a_graph_holds_what_it_uses: captures::L25;
    l26_a_wait_that_fails_adds_nothing: order::L26_WAIT;
    l26_a_record_that_fails_adds_nothing: order::L26_RECORD;
    l27_the_default_streams_of_two_contexts: devices::L27;
    l28_a_synchronous_copy_completes_nothing_of_others: order::L28;
    l29_a_forgotten_guard_still_protects_the_block: passing::L29;
}
