//! Calls of one event each: how many a second with 64 in flight, and how long they take at half that load.
//!
//! Promises: latency is counted from when a call was due, so a stall counts for every call that it delays. Must not
//! know: which system answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use firstseen_client::{Filter, Verdict};
use hdrhistogram::Histogram;

use super::keys::Keys;

/// Calls in flight.
pub(super) const IN_FLIGHT: u64 = 64;
/// How long each measurement takes.
const MEASURED: Duration = Duration::from_secs(2);

/// Latencies in milliseconds.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Latency {
    pub(super) calls_per_s: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) p999_ms: f64,
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

async fn call(filter: &Filter, key: [u8; 16], time_ms: u64) -> anyhow::Result<()> {
    match filter.observe_at(&key, time_ms).await? {
        Verdict::Undecided(reason) => bail!("an event was undecided: {reason:?}"),
        Verdict::FirstSeen | Verdict::Duplicate => Ok(()),
    }
}

/// Calls a second with [`IN_FLIGHT`] in flight.
pub(super) async fn calls_per_s(filter: &Filter, stream: u64) -> anyhow::Result<f64> {
    let (keys, started) = (Keys::new(stream, u64::MAX), Instant::now());
    let callers: Vec<_> = (0..IN_FLIGHT)
        .map(|caller| {
            let (filter, keys, time_ms) = (filter.clone(), keys.share(caller, IN_FLIGHT), now_ms());
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

/// Latencies where calls come at `rate` a second, whether or not those before have returned.
pub(super) async fn latency(filter: &Filter, stream: u64, rate: f64) -> anyhow::Result<Latency> {
    let started = Instant::now();
    latency_until(filter, stream, rate, move || started.elapsed() > MEASURED).await
}

/// The same as [`latency`], until `is_over`.
pub(super) async fn latency_until(
    filter: &Filter,
    stream: u64,
    rate: f64,
    is_over: impl Fn() -> bool + Clone + Send + 'static,
) -> anyhow::Result<Latency> {
    let (keys, started, time_ms) = (Keys::new(stream, u64::MAX), Instant::now(), now_ms());
    let next = Arc::new(AtomicU64::new(0));
    let due = move |call: u64| Duration::from_secs_f64(call as f64 / rate);
    // Enough callers that a call begins late only because answers are late.
    let callers: Vec<_> = (0..16 * IN_FLIGHT)
        .map(|_| {
            let (filter, next, is_over) = (filter.clone(), next.clone(), is_over.clone());
            tokio::spawn(async move {
                let mut latencies_us = Histogram::<u64>::new(3)?;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if is_over() {
                        return anyhow::Ok(latencies_us);
                    }
                    if let Some(early) = due(number).checked_sub(started.elapsed()).filter(|early| !early.is_zero()) {
                        // Timers fire by the millisecond, so a call that is due within the next one is sent at once.
                        tokio::time::sleep(early.saturating_sub(Duration::from_millis(1))).await;
                    }
                    let sent = started.elapsed().min(due(number));
                    call(&filter, keys.key(number), time_ms).await?;
                    let latency_us = started.elapsed().saturating_sub(sent).as_micros();
                    latencies_us.record(u64::try_from(latency_us)?)?;
                }
            })
        })
        .collect();
    let mut all = Histogram::<u64>::new(3)?;
    for caller in callers {
        all.add(caller.await??)?;
    }
    let ms = |quantile| all.value_at_quantile(quantile) as f64 / 1e3;
    let calls_per_s = all.len() as f64 / started.elapsed().as_secs_f64();
    Ok(Latency { calls_per_s, p50_ms: ms(0.5), p99_ms: ms(0.99), p999_ms: ms(0.999) })
}
