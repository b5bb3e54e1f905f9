//! Caches the collected metrics of a node, so that frequent scrapes do not slow the node down. A collection is
//! expensive because every owner thread must read samples of its cells. Regardless of the number of scrapers, at most
//! one collection runs at a time, and a collected result is reused for one second.

use std::sync::Arc;

use firstseen_routing::MonotonicMs;
use tokio::sync::{mpsc, oneshot};

use crate::clock::Clock;

/// Time for which a collected result is used again, in milliseconds.
const FRESH_MS: u64 = 1_000;

/// A collected result, or the reason why there is none.
type Gathered<T> = Result<T, String>;

/// Queue to the task that collects the results.
pub(crate) struct Scrapes<T>(mpsc::Sender<oneshot::Sender<Gathered<T>>>);

impl<T> Clone for Scrapes<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone> Scrapes<T> {
    /// Creates a cache of results, and a future that fills it. The caller must run the future, which calls `gather`
    /// whenever a new result is needed. The future ends when all handles of the cache have been dropped. At most
    /// `askers_max` callers can wait for a result at the same time.
    pub(crate) fn new<Gathering: Future<Output = Gathered<T>>>(
        askers_max: usize,
        clock: Arc<dyn Clock>,
        gather: impl Fn() -> Gathering,
    ) -> (Self, impl Future<Output = ()>) {
        let (asks, mut asked) = mpsc::channel::<oneshot::Sender<Gathered<T>>>(askers_max);
        let answering = async move {
            let mut last: Option<(MonotonicMs, Gathered<T>)> = None;
            while let Some(answer) = asked.recv().await {
                let fresh = last.take().filter(|(since_ms, _)| clock.monotonic_ms() < since_ms.after(FRESH_MS));
                let (since_ms, gathered) = match fresh {
                    Some(fresh) => fresh,
                    None => {
                        let gathered = gather().await;
                        (clock.monotonic_ms(), gathered)
                    }
                };
                // The caller may have stopped waiting.
                let _ = answer.send(gathered.clone());
                last = Some((since_ms, gathered));
            }
        };
        (Self(asks), answering)
    }

    /// Returns a result that was collected within the last second, or waits for a new result.
    pub(crate) async fn newest(&self) -> Gathered<T> {
        let (answer, gathered) = oneshot::channel();
        // If the task has ended, the queue is dropped together with the sender of the reply.
        let _ = self.0.send(answer).await;
        gathered.await.unwrap_or_else(|_| Err("the node is about to stop".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn monotonic_ms(&self) -> MonotonicMs {
            MonotonicMs(self.0.load(Ordering::Relaxed))
        }

        fn wall_ms(&self) -> u64 {
            0
        }
    }

    #[tokio::test]
    async fn what_was_gathered_is_told_for_a_second() {
        let (clock, gathered) = (Arc::new(Hand(AtomicU64::new(5_000))), Arc::new(AtomicU64::new(0)));
        let count = gathered.clone();
        let gather = move || std::future::ready(Ok(count.fetch_add(1, Ordering::Relaxed)));
        let (scrapes, answering) = Scrapes::new(2, clock.clone(), gather);
        let answering = tokio::spawn(answering);
        let many = (0..20).map(|_| {
            tokio::spawn({
                let scrapes = scrapes.clone();
                async move { scrapes.newest().await }
            })
        });
        for got in many.collect::<Vec<_>>() {
            assert_eq!(got.await.expect("no panic"), Ok(0), "all who ask at once");
        }
        clock.0.store(5_999, Ordering::Relaxed);
        assert_eq!(scrapes.newest().await, Ok(0));
        clock.0.store(6_000, Ordering::Relaxed);
        assert_eq!(scrapes.newest().await, Ok(1));
        drop(scrapes);
        answering.await.expect("it ends");
    }
}
