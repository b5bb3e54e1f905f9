//! Scrapes: whoever asks what a node counts gets what was gathered lately.
//!
//! Promises: at most one gathering is under way at a time, and one each second, however many ask: each makes every
//! owner read samples of its cells. Must not know: what is gathered, over which connection a scrape came.

use std::sync::Arc;

use firstseen_routing::MonotonicMs;
use tokio::sync::{mpsc, oneshot};

use crate::clock::Clock;

/// For how long what was gathered is told again.
const FRESH_MS: u64 = 1_000;

/// What was gathered, or why there is nothing.
type Gathered<T> = Result<T, String>;

/// The queue to the task that gathers.
pub(crate) struct Scrapes<T>(mpsc::Sender<oneshot::Sender<Gathered<T>>>);

impl<T> Clone for Scrapes<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone> Scrapes<T> {
    /// Scrapes by `gather`, for at most `askers_max` who ask at once; the future answers them until no asker is left.
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
                // The asker may have gone.
                let _ = answer.send(gathered.clone());
                last = Some((since_ms, gathered));
            }
        };
        (Self(asks), answering)
    }

    /// What was gathered within the last second, or is gathered now.
    pub(crate) async fn newest(&self) -> Gathered<T> {
        let (answer, gathered) = oneshot::channel();
        // Where the task has ended, the queue and with it the answer are dropped.
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
