//! Scrapes: whoever asks for metrics gets those that were gathered lately.
//!
//! Promises: at most one gathering is under way at a time, and one each second, however many ask: each makes every
//! owner read samples of its cells. Must not know: what is gathered, over which connection a scrape came.

use std::fmt;
use std::sync::Arc;

use axum::body::Bytes;
use firstseen_routing::MonotonicMs;
use tokio::sync::{mpsc, oneshot};

use crate::edges::Clock;

/// For how long a text is shown again.
const FRESH_MS: u64 = 1_000;

/// The text of the metrics, or why there is none.
type Text = Result<Bytes, String>;

/// The queue to the task that gathers.
#[derive(Clone)]
pub(crate) struct Scrapes(mpsc::Sender<oneshot::Sender<Text>>);

impl Scrapes {
    /// Scrapes by `gather`, for at most `askers_max` who ask at once; the future answers them until no asker is left.
    pub(crate) fn new<Gathering: Future<Output = Result<String, fmt::Error>>>(
        askers_max: usize,
        clock: Arc<dyn Clock>,
        gather: impl Fn() -> Gathering,
    ) -> (Self, impl Future<Output = ()>) {
        let (asks, mut asked) = mpsc::channel::<oneshot::Sender<Text>>(askers_max);
        let answering = async move {
            let mut last: Option<(MonotonicMs, Text)> = None;
            while let Some(answer) = asked.recv().await {
                let fresh = last.take().filter(|(since_ms, _)| clock.monotonic_ms() < since_ms.after(FRESH_MS));
                let (since_ms, text) = match fresh {
                    Some(fresh) => fresh,
                    None => {
                        let text = gather().await.map(Bytes::from).map_err(|error| error.to_string());
                        (clock.monotonic_ms(), text)
                    }
                };
                // The asker may have gone.
                let _ = answer.send(text.clone());
                last = Some((since_ms, text));
            }
        };
        (Self(asks), answering)
    }

    /// The text that was gathered within the last second, or a new one.
    pub(crate) async fn text(&self) -> Text {
        let (answer, text) = oneshot::channel();
        let stopped = || "the node is about to stop".to_owned();
        self.0.send(answer).await.map_err(|_| stopped())?;
        text.await.unwrap_or_else(|_| Err(stopped()))
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
        let gather = move || std::future::ready(Ok(count.fetch_add(1, Ordering::Relaxed).to_string()));
        let (scrapes, answering) = Scrapes::new(2, clock.clone(), gather);
        let answering = tokio::spawn(answering);
        let many = (0..20).map(|_| {
            tokio::spawn({
                let scrapes = scrapes.clone();
                async move { scrapes.text().await }
            })
        });
        for got in many.collect::<Vec<_>>() {
            assert_eq!(got.await.expect("no panic"), Ok(Bytes::from("0")), "all who ask at once");
        }
        clock.0.store(5_999, Ordering::Relaxed);
        assert_eq!(scrapes.text().await, Ok(Bytes::from("0")));
        clock.0.store(6_000, Ordering::Relaxed);
        assert_eq!(scrapes.text().await, Ok(Bytes::from("1")));
        drop(scrapes);
        answering.await.expect("it ends");
    }
}
