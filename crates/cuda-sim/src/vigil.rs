//! How long a thread has been waiting for something, as opposed to waiting for a processor.
//!
//! A limit on real time says nothing where the host is busy: a thread that could go on may be left
//! without a processor for longer than any limit, or the whole host may be stopped for a while.
//! What counts here is the time in which the thread was seen to sleep, or to compute without end.

use std::time::{Duration, Instant};

use crate::shims::raw::host_thread_number;

/// How far apart two looks are at most, as far as they count: what passed beyond it, nobody saw.
const LOOK_MAX: Duration = Duration::from_millis(5);
/// The host counts the time that a thread computes in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// A thread of this process, by the host's number for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostThread(pub(crate) i32);

/// What the host says of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Account {
    thread: HostThread,
    /// It neither runs nor is about to.
    sleeps: bool,
    /// For how long it has computed so far.
    ticks: u32,
}

impl HostThread {
    /// The calling thread.
    pub(crate) fn current() -> Self {
        Self(host_thread_number())
    }

    /// Where the host says nothing, a thread is taken to sleep.
    fn account(self) -> Account {
        let path = format!("/proc/self/task/{}/stat", self.0);
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let (sleeps, ticks) = read_account(&text).unwrap_or((true, 0));
        Account { thread: self, sleeps, ticks }
    }
}

/// State, and ticks in user code and in the kernel: fields 3, 14 and 15 of Linux's line, counted
/// from one; the second is a name in parentheses that may hold anything.
fn read_account(text: &str) -> Option<(bool, u32)> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let mut ticks = fields.skip(10).map(str::parse::<u32>);
    let computed = ticks.next()?.ok()?.saturating_add(ticks.next()?.ok()?);
    Some((state != "R", computed))
}

/// Adds up for how long a thread could not go on.
#[derive(Debug)]
pub(crate) struct Vigil {
    waited: Duration,
    seen: Instant,
    before: Option<Account>,
}

impl Vigil {
    pub(crate) fn new() -> Self {
        Self { waited: Duration::ZERO, seen: Instant::now(), before: None }
    }

    /// For how long it was seen to wait.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// The last look was so long ago that another one tells something.
    pub(crate) fn is_time_to_look(&self) -> bool {
        LOOK_MAX <= self.seen.elapsed()
    }

    /// Nobody is known who is on the way: all the time since the last look counts.
    pub(crate) fn nobody(&mut self) {
        let passed = self.passed();
        self.waited += passed;
    }

    /// Somebody is on the way who only needs a processor: the time does not count.
    pub(crate) fn somebody(&mut self) {
        self.seen = Instant::now();
    }

    /// Looks whether `thread` waits.
    pub(crate) fn look(&mut self, thread: HostThread) {
        self.see(thread.account());
    }

    fn see(&mut self, now: Account) {
        let passed = self.passed();
        self.waited += if now.sleeps {
            passed
        } else {
            let before = self.before.filter(|before| before.thread == now.thread);
            before.map_or(Duration::ZERO, |before| TICK * now.ticks.saturating_sub(before.ticks))
        };
        self.before = Some(now);
    }

    fn passed(&mut self) -> Duration {
        let now = Instant::now();
        let passed = now.duration_since(std::mem::replace(&mut self.seen, now));
        passed.min(LOOK_MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Account, HostThread, LOOK_MAX, Vigil, read_account};

    const LINE: &str = "17 (a ) R name) S 1 2 3 4 5 6 7 8 9 10 21 4 12 13 20 0";

    #[test]
    fn the_line_of_a_thread_is_read_after_its_name() {
        assert_eq!(read_account(LINE), Some((true, 25)));
        assert_eq!(read_account(&LINE.replace(") S", ") R")), Some((false, 25)));
        assert_eq!(read_account("17 (name) R 1 2"), None);
        assert_eq!(read_account(""), None);
    }

    #[test]
    fn this_thread_runs_and_one_that_is_gone_sleeps() {
        if std::path::Path::new("/proc/self/task").exists() {
            assert!(!HostThread::current().account().sleeps);
        }
        assert!(HostThread(0).account().sleeps);
    }

    /// Was: a host function that had no processor for a tenth of a second was taken for one that
    /// waits for the host, and what a call answered depended on the load of the host.
    #[test]
    fn a_thread_without_a_processor_is_not_taken_to_wait() {
        let pause = || std::thread::sleep(2 * LOOK_MAX);
        let seen = |sleeps, ticks| Account { thread: HostThread(7), sleeps, ticks };
        let mut vigil = Vigil::new();
        for _ in 0..3 {
            pause();
            vigil.see(seen(false, 40));
            pause();
            vigil.somebody();
        }
        assert_eq!(vigil.waited(), Duration::ZERO, "it has not run");
        pause();
        vigil.see(seen(true, 40));
        assert_eq!(vigil.waited(), LOOK_MAX, "it sleeps; what nobody saw does not count");
        vigil.see(seen(false, 43));
        assert_eq!(vigil.waited(), LOOK_MAX + Duration::from_millis(30), "it computes");
        pause();
        vigil.nobody();
        assert_eq!(vigil.waited(), 2 * LOOK_MAX + Duration::from_millis(30));
    }
}
