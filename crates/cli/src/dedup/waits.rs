//! Waits for the verdicts of a cluster. If a wait grows long, the user sees a message, and can end the wait with an
//! interrupt.
//!
//! # Guarantees
//!
//! - Each outage has one message, when the first long wait begins.
//! - After an interrupt, the run waits briefly for answers to requests in flight, and sends no further requests.
//! - Work that has begun by then, such as confirming claims, has its own time limits, which start at that moment.
//!
//! This module does not depend on what the requests are or why no answer comes.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, interval, timeout, timeout_at};

use crate::terminal::progress;
use crate::terminal::stop::Stop;

/// Duration after which a wait is long. Healthy clusters answer within milliseconds.
const LONG: Duration = Duration::from_secs(1);
/// Duration after which connecting to a cluster is long. The client asks a node that denies access again for one to two
/// seconds, because a new right may not have reached the node. During that time, a message about missing answers would
/// be wrong, and the error that follows says which right is missing.
const LONG_CONNECTING: Duration = Duration::from_secs(3);
/// How long the run still waits for answers after the user has asked it to end.
const LAST: Duration = Duration::from_secs(1);
/// If no wait was long for this time, the next long wait has a message again.
const REPEAT_MESSAGE_AFTER: Duration = Duration::from_secs(10);
/// Interval in which the state of a wait is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Result of checking a wait.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    GoesOn,
    /// The wait is long, and a message must be printed.
    Warns,
    /// The wait has lasted long enough, because the run must end.
    GivesUp,
}

/// The waits of a run, one after the other.
pub(super) struct Waits {
    known: Known,
    /// Moment when the run stopped waiting.
    end_wait: watch::Sender<Option<Instant>>,
}

/// What is known about the waits of a run.
#[derive(Default)]
struct Known {
    /// Moment when a wait was last found to be long.
    long: Option<Instant>,
    /// Moment when the stop request was first noticed.
    stopped: Option<Instant>,
}

impl Known {
    /// Checks a wait that began at `begun`.
    fn look(&mut self, begun: Instant, now: Instant, is_stopped: bool) -> Look {
        if is_stopped && now.saturating_duration_since(*self.stopped.get_or_insert(now)) >= LAST {
            return Look::GivesUp;
        }
        if now.saturating_duration_since(begun) < LONG {
            return Look::GoesOn;
        }
        let is_known = self.long.is_some_and(|last| now.saturating_duration_since(last) < REPEAT_MESSAGE_AFTER);
        self.long = Some(now);
        if is_known || is_stopped { Look::GoesOn } else { Look::Warns }
    }
}

impl Waits {
    pub(super) fn new() -> Self {
        Self { known: Known::default(), end_wait: watch::Sender::new(None) }
    }

    /// Returns a future that completes when the run stops waiting. Its result is the moment when that happened.
    pub(super) fn wait_ended(&self) -> impl Future<Output = Instant> + use<> {
        let mut wait_ended = self.end_wait.subscribe();
        async move {
            // If the sender was dropped, no wait exists any more.
            let since = wait_ended.wait_for(Option::is_some).await.ok().and_then(|since| *since);
            since.unwrap_or_else(Instant::now)
        }
    }

    /// Returns the moment when the run stopped waiting. `None` means that it still waits.
    pub(super) fn wait_ended_at(&self) -> Option<Instant> {
        *self.end_wait.borrow()
    }

    /// Waits for `answer`, which must complete soon after [`Self::wait_ended`] has. A long wait prints `message`.
    pub(super) async fn until<T>(
        &mut self,
        mut answer: impl Future<Output = T> + Unpin,
        message: impl Fn() -> String,
    ) -> T {
        let begun = Instant::now();
        let mut looks = interval(POLL_INTERVAL);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                _ = looks.tick() => {}
            }
            match self.known.look(begun, Instant::now(), Stop::is_requested()) {
                Look::GoesOn => {}
                Look::Warns => progress::print_above_bar(&format!("firstseen: {}", message())),
                Look::GivesUp if self.wait_ended_at().is_none() => {
                    let _ = self.end_wait.send_replace(Some(Instant::now()));
                }
                Look::GivesUp => {}
            }
        }
    }
}

/// Waits for the reply to a request, but stops waiting soon after the run must end. `wait_ended` completes at the
/// moment when the run must end, for example because of an interrupt. From that moment on, the function waits for at
/// most the duration `more`. If no reply arrives in this time, it returns `None`.
pub(super) async fn answered<T>(
    request: impl Future<Output = T>,
    wait_ended: impl Future<Output = Instant>,
    more: Duration,
) -> Option<T> {
    let mut request = pin!(request);
    let since = tokio::select! {
        biased;
        answer = &mut request => return Some(answer),
        since = wait_ended => since,
    };
    timeout_at(since + more, request).await.ok()
}

/// Waits until `connected` has a connection to a cluster with nodes at `addresses`, for at most `wait_ms`. A long wait
/// prints a message.
pub(super) async fn connecting<T>(connected: impl Future<Output = T>, addresses: &[String], wait_ms: u64) -> T {
    let mut connected = pin!(connected);
    if let Ok(connected) = timeout(LONG_CONNECTING, &mut connected).await {
        return connected;
    }
    let addresses = addresses.join(", ");
    let seconds = wait_ms / 1000;
    progress::print_above_bar(&format!(
        "firstseen: no answer from {addresses} yet: asking again for {seconds} s in all"
    ));
    connected.await
}

/// Returns the message about a wait of at most `wait_ms`. `nodes` are the nodes that are down, if they are known.
pub(super) fn message(wait_ms: u64, nodes: &[String]) -> String {
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

    fn line(nodes: &[&str]) -> String {
        message(15_000, &nodes.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn the_message_names_the_nodes() {
        assert_eq!(line(&["node-1"]), "waiting up to 15 s for node-1, which is down");
        assert_eq!(line(&["a", "b"]), "waiting up to 15 s for a, b, which are down");
        assert!(line(&[]).contains("out of reach"));
    }
}
