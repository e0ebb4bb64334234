//! Serves several settings at once, on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Told how many runs are done, of how many there may be.
pub type Runs<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Does `work` for each item, in any order, and gives what came out in the items' order.
pub(super) fn each<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    done: impl Fn() + Sync,
) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::with_capacity(items.len()));
    thread::scope(|scope| {
        for _ in 0..cores.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(item);
                    if let Ok(mut found) = found.lock() {
                        found.push((index, result));
                    }
                    done();
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.sort_unstable_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::each;

    #[test]
    fn every_item_is_worked_on_once_and_comes_out_in_its_place() {
        let items: Vec<u32> = (0..100).collect();
        let done = AtomicUsize::new(0);
        let found = each(
            &items,
            |item| item * 2,
            || {
                done.fetch_add(1, Ordering::Relaxed);
            },
        );
        assert_eq!(found, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert_eq!(done.into_inner(), 100);
        assert!(each(&[] as &[u32], |item| *item, || {}).is_empty());
    }
}
