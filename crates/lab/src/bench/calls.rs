//! Measures calls that contain a single event. Two quantities are measured: the number of calls per second if 64 calls
//! are always in flight, and the latency of calls if calls start at a given rate. The measurement fails if any event
//! does not get a definite verdict.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use firstseen_client::{Event, Filter, Verdict};

use super::keys::Keys;
use super::open_loop::{Latency, latency};

/// Number of calls in flight.
pub(super) const IN_FLIGHT: u64 = 64;
/// Duration of each measurement.
const MEASURED: Duration = Duration::from_secs(2);

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

async fn call(filter: &Filter, key: [u8; 16], time_ms: u64) -> anyhow::Result<()> {
    match filter.observe(Event::from(&key).at(time_ms)).await? {
        Verdict::Undecided(reason) => bail!("an event was undecided: {reason:?}"),
        Verdict::FirstSeen | Verdict::Duplicate => Ok(()),
    }
}

/// Measures the calls per second with [`IN_FLIGHT`] calls in flight.
pub(super) async fn calls_per_s(filter: &Filter, stream: u64) -> anyhow::Result<f64> {
    let all = Keys::new(stream, u64::MAX);
    let started = Instant::now();
    let callers: Vec<_> = (0..IN_FLIGHT)
        .map(|caller| {
            let filter = filter.clone();
            let keys = all.share(caller, IN_FLIGHT);
            let time_ms = now_ms();
            tokio::spawn(async move {
                let mut calls = 0;
                while started.elapsed() < MEASURED {
                    call(&filter, keys.key(calls), time_ms).await?;
                    calls += 1;
                }
                anyhow::Ok(calls)
            })
        })
        .collect();
    let mut calls = 0;
    for caller in callers {
        calls += caller.await??;
    }
    Ok(calls as f64 / started.elapsed().as_secs_f64())
}

/// Measures the latency of calls that start at `rate` calls per second until `is_over` returns `true`.
pub(super) async fn calls_latency(
    filter: &Filter,
    stream: u64,
    rate: f64,
    is_over: impl Fn() -> bool + Send + 'static,
) -> anyhow::Result<Latency> {
    let keys = Keys::new(stream, u64::MAX);
    let time_ms = now_ms();
    let filter = filter.clone();
    latency(rate, is_over, move |number| {
        let filter = filter.clone();
        async move { call(&filter, keys.key(number), time_ms).await }
    })
    .await
}

/// Returns a function that tells whether the time `limit` has passed since now.
pub(super) fn until(limit: Duration) -> impl Fn() -> bool + Send + 'static {
    let started = Instant::now();
    move || started.elapsed() >= limit
}
