//! Sends batches from one producer at the maximum rate, and measures the events per second.
//!
//! The events of this benchmark carry times that are spread evenly over most of the window, as in a log that is read a
//! second time. Filters of kind `generations` need such times. They divide the window into parts, and each part has
//! capacity for only some of the events. If all new events had the same time, they would belong to a single part, and
//! the filter would reject most of them.
//!
//! Events that the filter already knows are sent with the present time.
//!
//! The measured rate is only meaningful if the answers are correct. The measurement therefore fails if an event does
//! not get a definite verdict, or if too few events are reported as first-seen. The number of first-seen events must be
//! the number of distinct keys, except for a small share of false positives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use firstseen_client::{Batch, Claiming, Confirming, Fence, Filter, FilterSecret, Reason, Verdict};

use super::keys::Keys;

/// Window of the filter, in milliseconds.
pub(super) const WINDOW_MS: u64 = 3_600_000;
/// Divisor for the part of the window that new events leave free. No event may have expired when the events are sent
/// again.
const MEASURED_PARTS: u64 = 64;
/// Number of callers. Each caller has one batch in flight.
const CALLERS: u64 = 16;
/// Maximum share of the distinct keys that may be reported as duplicates because of false positives.
const HIDDEN_MAX: f64 = 0.02;

/// State of the filter with respect to the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The filter knows none of the keys, so the first event with each key is new.
    New,
    /// The filter knows all of the keys.
    Known,
}

/// Operation on the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowOperation {
    Observe,
    /// Events are claimed for this duration, and confirmed immediately.
    Claim(Duration),
}

/// Returns the present time, in milliseconds since 1970.
pub(super) fn now_ms() -> anyhow::Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64)
}

/// Measures the events per second.
pub(super) async fn events_per_s(
    filter: &Filter,
    keys: Keys,
    batch_events: u32,
    expected: Expected,
    asks: FlowOperation,
) -> anyhow::Result<f64> {
    let span_ms = if expected == Expected::New { WINDOW_MS - WINDOW_MS / MEASURED_PARTS } else { 0 };
    let begin_ms = now_ms()? - span_ms;
    let times = Arc::new(Times { begin_ms, span_ms, events: keys.events(), taken: AtomicU64::new(0) });
    let started = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let keys = keys.share(caller, CALLERS);
            tokio::spawn(send(filter.clone(), keys, batch_events as usize, times.clone(), asks))
        })
        .collect();
    let mut first_seen = 0;
    for caller in callers {
        first_seen += caller.await??;
    }
    let seconds = started.elapsed().as_secs_f64();
    let distinct = match expected {
        Expected::Known => 0,
        Expected::New => (0..CALLERS).map(|caller| keys.share(caller, CALLERS).distinct()).sum::<u64>(),
    };
    if first_seen > distinct || (distinct - first_seen) as f64 > HIDDEN_MAX * distinct as f64 {
        bail!("{first_seen} of {distinct} distinct events were called first-seen");
    }
    Ok(keys.events() as f64 / seconds)
}

/// Supply of times for the events of all callers. Several callers send batches at the same time, and each batch gets
/// later times than all batches before it.
///
/// All callers take their times from one sequence. If each caller had its own sequence, the times of a slow caller
/// would be far behind those of the other callers. The filter would then record its events in an older part of the
/// window.
struct Times {
    begin_ms: u64,
    span_ms: u64,
    events: u64,
    taken: AtomicU64,
}

impl Times {
    /// Returns the time of the next `events` events.
    fn next_ms(&self, events: u64) -> u64 {
        self.begin_ms + self.taken.fetch_add(events, Ordering::Relaxed) * self.span_ms / self.events
    }
}

/// Sends a share of the keys in batches, and returns the number of first-seen events.
async fn send(
    filter: Filter,
    keys: Keys,
    batch_events: usize,
    times: Arc<Times>,
    asks: FlowOperation,
) -> anyhow::Result<u64> {
    let mut events = Vec::with_capacity(batch_events);
    let mut times_ms = Vec::with_capacity(batch_events);
    let mut first_seen = 0;
    let mut next = 0;
    while next < keys.events() {
        let end = keys.events().min(next + batch_events as u64);
        events.clear();
        events.extend((next..end).map(|event| keys.key(event)));
        times_ms.clear();
        times_ms.resize(events.len(), times.next_ms(events.len() as u64));
        first_seen += match asks {
            FlowOperation::Observe => {
                first_seen_of(&filter.observe_batch(Batch::from(&events).times_ms(&times_ms)).await?)?
            }
            FlowOperation::Claim(lease) => confirmed(&filter, &events, &times_ms, lease).await?,
        };
        next = end;
    }
    Ok(first_seen)
}

fn first_seen_of(verdicts: &[Verdict]) -> anyhow::Result<u64> {
    if let Some(Verdict::Undecided(reason)) = verdicts.iter().find(|verdict| matches!(verdict, Verdict::Undecided(_))) {
        bail!("an event was undecided: {reason:?}");
    }
    Ok(verdicts.iter().filter(|verdict| **verdict == Verdict::FirstSeen).count() as u64)
}

/// Result of a claim. A granted claim is active until its lease ends.
pub(super) enum Claimed {
    Granted(Fence),
    Held,
    Duplicate,
    Undecided(Reason),
}

/// Claims events, which are identified by their digests alone.
pub(super) async fn claim(
    filter: &Filter,
    events: &[[u8; 16]],
    times_ms: &[u64],
    lease: Duration,
) -> anyhow::Result<Vec<Claimed>> {
    let claimings = filter
        .claim_batch(
            Batch::hashed(&|secret: &FilterSecret| events.iter().map(|event| secret.digest(event)).collect())
                .times_ms(times_ms),
            lease,
        )
        .await?;
    let claimed = claimings.into_iter().map(|claiming| match claiming {
        Claiming::Claimed(claim) => Claimed::Granted(claim.deliver().fence),
        Claiming::InProgress(_) => Claimed::Held,
        Claiming::Duplicate => Claimed::Duplicate,
        Claiming::Undecided(reason) => Claimed::Undecided(reason),
    });
    Ok(claimed.collect())
}

/// Claims a batch, confirms the granted events, and retries the repeats of those events. Returns the number of
/// confirmed events.
async fn confirmed(filter: &Filter, events: &[[u8; 16]], times_ms: &[u64], lease: Duration) -> anyhow::Result<u64> {
    let mut left = events.to_vec();
    let mut left_times_ms = times_ms.to_vec();
    let mut confirmed = 0;
    while !left.is_empty() {
        let claimed = claim(filter, &left, &left_times_ms, lease).await?;
        let mut own = Vec::new();
        let mut own_times_ms = Vec::new();
        let mut fences = Vec::new();
        let mut held = Vec::new();
        let mut held_times_ms = Vec::new();
        for ((event, time_ms), claimed) in left.into_iter().zip(left_times_ms).zip(claimed) {
            match claimed {
                Claimed::Granted(fence) => {
                    own.push(event);
                    own_times_ms.push(time_ms);
                    fences.push(fence);
                }
                Claimed::Held => {
                    held.push(event);
                    held_times_ms.push(time_ms);
                }
                Claimed::Duplicate => {}
                Claimed::Undecided(reason) => bail!("a claim was not decided: {reason:?}"),
            }
        }
        for confirming in filter.confirm_batch(Batch::from(&own).times_ms(&own_times_ms), &fences).await? {
            match confirming {
                Confirming::Confirmed => confirmed += 1,
                other => bail!("a confirm was not taken: {other:?}"),
            }
        }
        left = held;
        left_times_ms = held_times_ms;
    }
    Ok(confirmed)
}
