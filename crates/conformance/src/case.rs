//! The cases: which probes share a driver, and in what state each starts.

use std::fmt;

use crate::asker::Asker;
use crate::environment::Environment;
use crate::probes;

/// Probes that are asked in a row of one driver that nothing else uses.
pub struct Case {
    name: String,
    group: &'static str,
    variables: &'static [(&'static str, &'static str)],
    limit_seconds: u64,
    start: Start,
    body: Box<dyn Fn(&Asker<'_>) + Send + Sync>,
}

/// The state of the driver when the probes begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Nothing was called.
    Untouched,
    /// The primary context is current and the kernels are loaded.
    Ready,
}

impl Case {
    fn new(
        name: impl Into<String>,
        group: &'static str,
        body: impl Fn(&Asker<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            group,
            variables: &[],
            limit_seconds: 60,
            start: Start::Ready,
            body: Box::new(body),
        }
    }

    fn untouched(mut self) -> Self {
        self.start = Start::Untouched;
        self
    }

    fn within_seconds(mut self, limit_seconds: u64) -> Self {
        self.limit_seconds = limit_seconds;
        self
    }

    fn under(mut self, variables: &'static [(&'static str, &'static str)]) -> Self {
        self.variables = variables;
        self
    }

    /// The case's own name, unique among the cases.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The group of the record that its probes belong to.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.group
    }

    /// Environment variables that a process must have before the driver is loaded.
    #[must_use]
    pub fn variables(&self) -> &'static [(&'static str, &'static str)] {
        self.variables
    }

    /// After how long a process that asks it hangs.
    #[must_use]
    pub fn limit_seconds(&self) -> u64 {
        self.limit_seconds
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Asks one case. The answers go to `environment.announce`, each as soon as it is known.
pub fn ask(case: &Case, environment: &Environment<'_>) {
    let mut asker = Asker::new(environment, case.group);
    if case.start == Start::Untouched || asker.set_up() {
        (case.body)(&asker);
    }
}

/// All cases, in the order of the record.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("before init", "before init", probes::start::before_init).untouched(),
        Case::new("memory", "memory", probes::memory::plain_and_async),
        Case::new("plain block freed twice", "memory", probes::memory::synchronize_after_two_frees)
            .within_seconds(10),
        Case::new("virtual memory", "vmm", probes::vmm::map_and_unmap),
        Case::new("virtual memory aliases", "vmm", probes::vmm::aliases),
        Case::new("streams and events", "streams and events", probes::streams::all),
        Case::new("contexts", "contexts", probes::contexts::all),
        Case::new("calls under capture", "capture", probes::capture_calls::all),
        Case::new("begin and end of a capture", "capture", probes::capture::all),
        Case::new("a capturing stream destroyed", "capture", probes::capture::destroyed),
        Case::new("graphs", "capture", probes::capture::graphs),
        Case::new("kernels", "kernels", probes::kernels::all),
        Case::new("teardown", "teardown", probes::ends::teardown).within_seconds(20),
    ];
    for (index, (probe, body)) in probes::ends::DESTROYED.into_iter().enumerate() {
        let name = format!("destroyed handle {index}");
        let body = move |asker: &Asker<'_>| asker.fatal(probe, || body(asker));
        cases.push(Case::new(name, "destroyed handles", body).within_seconds(20));
    }
    cases.push(Case::new("sticky", "after an illegal address", probes::ends::illegal_address));
    cases.push(Case::new("fork", "in a child after fork", probes::start::after_fork));
    cases.extend(queue_cases());
    cases.extend([
        Case::new("virtual memory under capture", "capture", probes::capture_calls::vmm),
        Case::new("async block freed twice", "memory", probes::memory::pool_block_freed_twice),
        Case::new("plain block freed twice async", "memory", probes::memory::plain_freed_twice),
        Case::new("unmap in use", "vmm", probes::vmm::unmap_under_a_queued_fill),
        Case::new("stream ids", "streams", probes::streams::ids),
        Case::new("stream handles", "streams", probes::streams::handle_reused_at_once),
        Case::new("event destroyed", "events", probes::streams::event_others_wait_on),
        Case::new("event recorded anew", "events", probes::streams::synchronize_keeps_its_record),
    ]);
    cases
}

/// The cases about false dependencies between streams.
fn queue_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let narrow: &[(&str, &str)] = &[("CUDA_DEVICE_MAX_CONNECTIONS", "8")];
    let wide: &[(&str, &str)] = &[("CUDA_DEVICE_MAX_CONNECTIONS", "32")];
    for between in [0, 4, 6, 8, 14, 30] {
        for (connections, variables) in [(8, narrow), (32, wide)] {
            let name = format!("queues {connections} {between}");
            let body =
                move |asker: &Asker<'_>| probes::queues::recorded_anew(asker, connections, between);
            cases.push(Case::new(name, "shared queues", body).under(variables));
        }
    }
    for count in [2, 4, 8, 9, 16, 32, 64] {
        let body = move |asker: &Asker<'_>| probes::queues::one_busy(asker, count);
        cases.push(Case::new(format!("one busy of {count}"), "independence", body));
    }
    for count in [2, 8, 9, 16, 32] {
        let body = move |asker: &Asker<'_>| probes::queues::one_busy_one_waiting(asker, count);
        cases.push(Case::new(format!("one waiting of {count}"), "independence", body));
    }
    cases
}
