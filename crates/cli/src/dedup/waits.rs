//! The wait for the verdicts of a cluster: a user reads a line when it grows long, and ends it by an interrupt.
//!
//! Promises: a long wait has a line as it begins, once an outage; after an interrupt, answers to requests in flight are
//! waited for shortly, and others not at all; what has begun by then may be finished within bounds of its own, which count
//! from there. Must not know: what the requests are, why no answer comes.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, interval, timeout, timeout_at};

use crate::terminal::progress;
use crate::terminal::stop::Stop;

/// A wait is long from then on: healthy clusters answer within milliseconds.
const LONG: Duration = Duration::from_secs(1);
/// How long answers may still take once a user wants the run to end.
const LAST: Duration = Duration::from_secs(1);
/// After so long without a long wait, the next one has a line again.
const OVER_AFTER: Duration = Duration::from_secs(10);
/// How often a wait is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The result of a look at a wait.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    GoesOn,
    /// The wait is long, and a line about it is due.
    Warns,
    /// The wait has lasted long enough, as the run is to end.
    GivesUp,
}

/// The waits of a run, one after the other.
pub(super) struct Waits {
    known: Known,
    /// When the run stopped waiting.
    give_up: watch::Sender<Option<Instant>>,
}

/// The state of the waits.
#[derive(Default)]
struct Known {
    /// When a wait was last found to be long.
    long: Option<Instant>,
    /// When it was first found that the run is to end.
    stopped: Option<Instant>,
}

impl Known {
    /// Looks at a wait that has begun at `begun`.
    fn look(&mut self, begun: Instant, now: Instant, is_stopped: bool) -> Look {
        if is_stopped && now.saturating_duration_since(*self.stopped.get_or_insert(now)) >= LAST {
            return Look::GivesUp;
        }
        if now.saturating_duration_since(begun) < LONG {
            return Look::GoesOn;
        }
        let is_known = self.long.is_some_and(|last| now.saturating_duration_since(last) < OVER_AFTER);
        self.long = Some(now);
        if is_known || is_stopped { Look::GoesOn } else { Look::Warns }
    }
}

impl Waits {
    pub(super) fn new() -> Self {
        Self { known: Known::default(), give_up: watch::Sender::new(None) }
    }

    /// A future that ends when the run no longer waits, with the time from when on it does not.
    pub(super) fn given_up(&self) -> impl Future<Output = Instant> + use<> {
        let mut given_up = self.give_up.subscribe();
        async move {
            // Where the sender is gone, no wait is left.
            let since = given_up.wait_for(Option::is_some).await.ok().and_then(|since| *since);
            since.unwrap_or_else(Instant::now)
        }
    }

    /// Since when the run no longer waits, if it does not.
    pub(super) fn given_up_at(&self) -> Option<Instant> {
        *self.give_up.borrow()
    }

    /// Waits for `answer`, which ends soon after [`Self::given_up`] has; a wait that lasts prints `words`.
    pub(super) async fn until<T>(
        &mut self,
        mut answer: impl Future<Output = T> + Unpin,
        words: impl Fn() -> String,
    ) -> T {
        let begun = Instant::now();
        let mut looks = interval(LOOK);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                _ = looks.tick() => {}
            }
            match self.known.look(begun, Instant::now(), Stop::is_wished()) {
                Look::GoesOn => {}
                Look::Warns => progress::tell_over(&format!("firstseen: {}", words())),
                Look::GivesUp if self.given_up_at().is_none() => drop(self.give_up.send_replace(Some(Instant::now()))),
                Look::GivesUp => {}
            }
        }
    }
}

/// The answer to a request that is on its way. A run that has given up waits for `more` after that, for it and all others alike;
/// `None` where no answer has come by then.
pub(super) async fn answered<T>(
    request: impl Future<Output = T>,
    given_up: impl Future<Output = Instant>,
    more: Duration,
) -> Option<T> {
    let mut request = pin!(request);
    let since = tokio::select! {
        biased;
        answer = &mut request => return Some(answer),
        since = given_up => since,
    };
    timeout_at(since + more, request).await.ok()
}

/// Waits until `connected` has a connection to a cluster with nodes at `addresses`, for `wait_ms` at most; a wait that
/// lasts prints a line.
pub(super) async fn connecting<T>(connected: impl Future<Output = T>, addresses: &[String], wait_ms: u64) -> T {
    let mut connected = pin!(connected);
    if let Ok(connected) = timeout(LONG, &mut connected).await {
        return connected;
    }
    let addresses = addresses.join(", ");
    let seconds = wait_ms / 1000;
    progress::tell_over(&format!("firstseen: no answer from {addresses} yet: asking again for {seconds} s in all"));
    connected.await
}

/// The line about a wait of `wait_ms` at most, for `nodes` that are down, where they are known.
pub(super) fn words(wait_ms: u64, nodes: &[String]) -> String {
    let seconds = wait_ms / 1000;
    match nodes {
        [] => format!("waiting up to {seconds} s for answers: nodes are slow, or out of reach"),
        [node] => format!("waiting up to {seconds} s for {node}, which is down"),
        nodes => format!("waiting up to {seconds} s for {}, which are down", nodes.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_has_one_line_an_outage() {
        let (mut known, start) = (Known::default(), Instant::now());
        let mut look = |begun_ms, now_ms| {
            let at = |ms| start + Duration::from_millis(ms);
            known.look(at(begun_ms), at(now_ms), false)
        };
        assert_eq!(look(0, 900), Look::GoesOn);
        assert_eq!([look(0, 1_000), look(0, 1_100), look(0, 9_000)], [Look::Warns, Look::GoesOn, Look::GoesOn]);
        assert_eq!(look(9_000, 10_000), Look::GoesOn, "the same outage");
        assert_eq!(look(20_000, 20_900), Look::GoesOn);
        assert_eq!(look(20_000, 21_000), Look::Warns, "another one");
    }

    #[test]
    fn an_interrupt_leaves_requests_in_flight_a_moment_and_no_more() {
        let (mut known, start) = (Known::default(), Instant::now());
        let mut look = |now: Duration| known.look(start, start + now, true);
        let first = LONG * 3;
        assert_eq!([look(first), look(first + LAST / 2)], [Look::GoesOn, Look::GoesOn], "there are no further lines");
        assert_eq!(look(first + LAST), Look::GivesUp);
        assert_eq!(
            known.look(start + first + LAST, start + first + LAST, true),
            Look::GivesUp,
            "nor for the next batch"
        );
    }

    #[test]
    fn the_words_name_the_nodes() {
        let line = |nodes: &[&str]| words(15_000, &nodes.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(line(&["node-1"]), "waiting up to 15 s for node-1, which is down");
        assert_eq!(line(&["a", "b"]), "waiting up to 15 s for a, b, which are down");
        assert!(line(&[]).contains("out of reach"));
    }
}
