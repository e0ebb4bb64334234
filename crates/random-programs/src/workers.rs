//! Threads that run programs, and that can be left behind: a program that hangs, in a deadlock or
//! in an endless loop, holds up neither the others nor the end, and is told with its seed.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::campaign::Campaign;
use crate::outcome::Outcome;
use crate::run::run_noting;

/// How often it is looked whether a program hangs.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// When so many programs hang, no more are begun: each keeps a thread, and may keep a processor.
const HUNG_MAX: usize = 4;

/// How many steps of a program were begun.
#[derive(Debug, Default)]
pub(crate) struct Progress(AtomicUsize);

impl Progress {
    pub(crate) fn begin_step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn steps(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is learned from the workers.
pub(crate) enum Learned {
    /// The program of a seed has ended.
    Ended(u64, Box<Outcome>),
    /// A step of a seed's program goes on for too long; it was at this step, counted from one.
    Hangs(u64, usize),
}

/// What a worker sends.
enum Message {
    Ended(u64, Box<Outcome>),
    /// The worker has no more to do.
    Left(usize),
}

/// A program under way, and since when it has been seen at the same step.
struct UnderWay {
    seed: u64,
    progress: Arc<Progress>,
    steps: usize,
    since: Instant,
}

impl UnderWay {
    fn new(seed: u64, progress: Arc<Progress>) -> Self {
        Self { seed, progress, steps: 0, since: Instant::now() }
    }

    /// Whether it is still at a step that it began so long ago. However slow the host, each step
    /// has that time to itself.
    fn hangs(&mut self, hang_after: Duration, now: Instant) -> bool {
        let before = std::mem::replace(&mut self.steps, self.progress.steps());
        if before < self.steps {
            self.since = now;
        }
        hang_after <= now.duration_since(self.since)
    }
}

/// What a worker is at; nothing, between two programs and once it is left behind.
#[derive(Default)]
struct Post(Mutex<Option<UnderWay>>);

impl Post {
    fn lock(&self) -> MutexGuard<'_, Option<UnderWay>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the workers share.
struct Work {
    campaign: Campaign,
    begin: Instant,
    next: AtomicU64,
    /// No more programs are begun.
    is_over: AtomicBool,
}

struct Worker {
    post: Arc<Post>,
    /// It is joined when it has left, and not when its program hangs.
    thread: Option<JoinHandle<()>>,
}

/// Runs the programs of a campaign; `learn` is told what becomes of each, and says whether more
/// are to be begun.
pub(crate) fn run_all(campaign: &Campaign, mut learn: impl FnMut(Learned) -> bool) {
    let work = Arc::new(Work {
        campaign: campaign.clone(),
        begin: Instant::now(),
        next: AtomicU64::new(campaign.seeds.start),
        is_over: AtomicBool::new(false),
    });
    let (sender, messages) = channel();
    let mut workers: Vec<Worker> = Vec::new();
    for _ in 0..campaign.jobs.get() {
        let worker = spawn(&work, workers.len(), &sender);
        workers.push(worker);
    }
    let mut hung = 0;
    let mut goes_on = true;
    // What a worker sends comes before it leaves.
    while workers.iter().any(|worker| worker.thread.is_some()) {
        match messages.recv_timeout(LOOK_EVERY) {
            Ok(Message::Ended(seed, outcome)) => goes_on &= learn(Learned::Ended(seed, outcome)),
            Ok(Message::Left(index)) => join(workers.get_mut(index)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        for (seed, step) in leave_hung(&mut workers, campaign.hang_after) {
            hung += 1;
            goes_on &= learn(Learned::Hangs(seed, step)) && hung < HUNG_MAX;
            if goes_on {
                let worker = spawn(&work, workers.len(), &sender);
                workers.push(worker);
            }
        }
        work.is_over.store(!goes_on, Ordering::Relaxed);
    }
}

fn join(worker: Option<&mut Worker>) {
    if let Some(thread) = worker.and_then(|worker| worker.thread.take()) {
        thread.join().expect("a worker catches what its programs panic with");
    }
}

/// Leaves behind the workers whose programs hang: which seeds, and at which step.
fn leave_hung(workers: &mut [Worker], hang_after: Duration) -> Vec<(u64, usize)> {
    let mut hung = Vec::new();
    for worker in workers.iter_mut().filter(|worker| worker.thread.is_some()) {
        let hangs = worker.post.lock().take_if(|program| program.hangs(hang_after, Instant::now()));
        if let Some(program) = hangs {
            hung.push((program.seed, program.steps));
            drop(worker.thread.take());
        }
    }
    hung
}

fn spawn(work: &Arc<Work>, index: usize, sender: &Sender<Message>) -> Worker {
    let post = Arc::new(Post::default());
    let (work, own, sender) = (Arc::clone(work), Arc::clone(&post), sender.clone());
    let thread = std::thread::spawn(move || {
        let leave = Leave { index, sender: sender.clone() };
        while let Some(seed) = work.next_seed() {
            let progress = Arc::new(Progress::default());
            *own.lock() = Some(UnderWay::new(seed, Arc::clone(&progress)));
            let outcome = run_noting(&work.campaign.program(seed), &progress);
            if own.lock().take().is_none() {
                // It was left behind, and another one is in its place.
                return;
            }
            let _heard = sender.send(Message::Ended(seed, Box::new(outcome)));
        }
        drop(leave);
    });
    Worker { post, thread: Some(thread) }
}

/// Says that a worker has left, however it did.
struct Leave {
    index: usize,
    sender: Sender<Message>,
}

impl Drop for Leave {
    fn drop(&mut self) {
        let _heard = self.sender.send(Message::Left(self.index));
    }
}

impl Work {
    fn next_seed(&self) -> Option<u64> {
        if self.is_over.load(Ordering::Relaxed) || self.campaign.time_max <= self.begin.elapsed() {
            return None;
        }
        let seed = self.next.fetch_add(1, Ordering::Relaxed);
        (seed < self.campaign.seeds.end).then_some(seed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Progress, UnderWay};

    /// Was: a program hung that was only slow, on a host that had much to do, and was named with
    /// whatever step it was in.
    #[test]
    fn a_program_that_goes_on_slowly_does_not_hang() {
        let progress = Arc::new(Progress::default());
        let mut program = UnderWay::new(7, Arc::clone(&progress));
        let limit = Duration::from_secs(3);
        let begin = program.since;
        let later = |seconds| begin + Duration::from_secs(seconds);
        // Each step takes nearly as long as a program may, and all of them much longer.
        for step in 1..=5 {
            progress.begin_step();
            assert!(!program.hangs(limit, later(2 * step)), "it has begun another step");
        }
        assert!(!program.hangs(limit, later(12)));
        assert!(program.hangs(limit, later(13)), "it is still at its fifth step");
        assert_eq!(program.steps, 5);
    }
}
