//! Measures the latency of calls in an open loop, which means that calls start at a fixed rate even if earlier calls
//! have not returned. A dispatcher starts each call when it is due. The latency is the time from the moment at which
//! the call is due until it returns.
//!
//! A stall of the system therefore increases the latency of every call that was due during the stall. In a benchmark
//! that waits for each reply before it starts the next call, the stall would affect only one call (coordinated
//! omission).
//!
//! The benchmark also measures how late a sleeping thread wakes up on this machine while the calls are made. Such
//! delays increase the measured latencies, although the measured system does not cause them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::runtime::Handle;
use tokio::task::{JoinSet, spawn_blocking};

/// Maximum number of calls in flight. When it is reached, calls that are due wait, and their latency includes the time
/// of waiting.
const IN_FLIGHT_MAX: usize = 1 << 14;
/// Time that the dispatcher sleeps between two checks for calls that are due.
const STEP: Duration = Duration::from_micros(100);
/// Duration of a sleep that is used to measure delays of the machine. If the sleep takes longer, the thread was waiting
/// for a core.
const HICCUP_SLEEP: Duration = Duration::from_millis(1);
/// Minimum share of the due calls that must have returned for the system to count as keeping up with the rate.
const KEPT_UP_MIN: f64 = 0.95;

/// Latencies of calls at one rate.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Latency {
    /// Rate at which calls were due.
    asked_per_s: f64,
    /// Rate at which calls returned, measured until the last call returned.
    done_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    /// Excess duration of a sleep of one millisecond.
    hiccup_p99_ms: f64,
    hiccup_max_ms: f64,
}

impl Latency {
    /// Returns the median latency in milliseconds.
    pub(super) fn p50_ms(&self) -> f64 {
        self.p50_ms
    }

    /// Returns the 99th percentile of the latency in milliseconds.
    pub(super) fn p99_ms(&self) -> f64 {
        self.p99_ms
    }

    /// Returns the 99.9th percentile of the latency in milliseconds.
    pub(super) fn p999_ms(&self) -> f64 {
        self.p999_ms
    }

    /// Returns the rate at which calls were due, in calls per second.
    pub(super) fn asked_per_s(&self) -> f64 {
        self.asked_per_s
    }

    /// Formats p50 and p99 in milliseconds. If the system did not keep up, the rate of completed calls is added.
    pub(super) fn in_table(&self) -> String {
        let times = format!("{:.2}, {:.1}", self.p50_ms, self.p99_ms);
        if self.keeps_up() { times } else { format!("{times}; {:.0} done", self.done_per_s) }
    }

    fn keeps_up(&self) -> bool {
        self.done_per_s >= KEPT_UP_MIN * self.asked_per_s
    }
}

/// Formats the latencies as text.
impl fmt::Display for Latency {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked_per_s, done_per_s, p50_ms, p99_ms, p999_ms, hiccup_p99_ms, hiccup_max_ms } = self;
        write!(out, "{asked_per_s:.0} calls/s: p50 {p50_ms:.2}, p99 {p99_ms:.2}, p99.9 {p999_ms:.2} ms")?;
        write!(out, " (hiccups: p99 {hiccup_p99_ms:.2}, at most {hiccup_max_ms:.1})")?;
        if !self.keeps_up() {
            write!(out, ", did not keep up: {done_per_s:.0} were done")?;
        }
        Ok(())
    }
}

/// Makes `calls_per_s` calls per second until `is_over` returns `true`, and waits for the last calls.
///
/// # Errors
///
/// Returns the first error of a call.
pub(super) async fn latency<Call>(
    calls_per_s: f64,
    is_over: impl Fn() -> bool + Send + 'static,
    call: impl Fn(u64) -> Call + Send + 'static,
) -> anyhow::Result<Latency>
where
    Call: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let runtime = Handle::current();
    let is_done = Arc::new(AtomicBool::new(false));
    let hiccups = spawn_blocking({
        let is_done = is_done.clone();
        move || hiccups_us(&is_done)
    });
    let dispatching = spawn_blocking(move || {
        let done = dispatch(&runtime, calls_per_s, is_over, call);
        is_done.store(true, Ordering::Relaxed);
        done
    });
    let done = dispatching.await??;
    let hiccups_us = hiccups.await??;
    Ok(Latency {
        asked_per_s: calls_per_s,
        done_per_s: done.latencies_us.len() as f64 / done.took.as_secs_f64(),
        p50_ms: quantile_ms(&done.latencies_us, 0.5),
        p99_ms: quantile_ms(&done.latencies_us, 0.99),
        p999_ms: quantile_ms(&done.latencies_us, 0.999),
        hiccup_p99_ms: quantile_ms(&hiccups_us, 0.99),
        hiccup_max_ms: hiccups_us.max() as f64 / 1e3,
    })
}

/// Returns a quantile in milliseconds, from a histogram in microseconds.
pub(super) fn quantile_ms(times_us: &Histogram<u64>, quantile: f64) -> f64 {
    times_us.value_at_quantile(quantile) as f64 / 1e3
}

/// Calls that have returned.
struct Done {
    latencies_us: Histogram<u64>,
    /// Time from the first call until the last one returned.
    took: Duration,
}

/// Starts calls when they are due. The dispatcher sleeps between two calls, for shorter times than the timers of the
/// async runtime support. It therefore runs in a thread of its own instead of a task.
fn dispatch<Call>(
    runtime: &Handle,
    calls_per_s: f64,
    is_over: impl Fn() -> bool,
    call: impl Fn(u64) -> Call,
) -> anyhow::Result<Done>
where
    Call: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let started = Instant::now();
    let mut latencies_us = Histogram::<u64>::new(3)?;
    let mut calls = JoinSet::new();
    let mut number: u64 = 0;
    let mut due = started;
    let mut over_at = None;
    loop {
        // Calls that were due before the end are made, even if other calls delay them.
        let now = Instant::now();
        over_at = over_at.or_else(|| is_over().then_some(now));
        let until = over_at.unwrap_or(now);
        while calls.len() < IN_FLIGHT_MAX && due <= until {
            let call = call(number);
            calls.spawn_on(async move { call.await.map(|()| due.elapsed()) }, runtime);
            number += 1;
            due = started + Duration::from_secs_f64(number as f64 / calls_per_s);
        }
        while let Some(returned) = calls.try_join_next() {
            latencies_us.record(u64::try_from(returned??.as_micros())?)?;
        }
        if over_at.is_some_and(|over_at| due > over_at) {
            break;
        }
        std::thread::sleep(STEP);
    }
    while let Some(returned) = runtime.block_on(calls.join_next()) {
        latencies_us.record(u64::try_from(returned??.as_micros())?)?;
    }
    Ok(Done { latencies_us, took: started.elapsed() })
}

/// Measures by how much sleeps are too long, until the calls are done.
fn hiccups_us(is_done: &AtomicBool) -> anyhow::Result<Histogram<u64>> {
    let mut hiccups_us = Histogram::<u64>::new(3)?;
    while !is_done.load(Ordering::Relaxed) {
        let begun = Instant::now();
        std::thread::sleep(HICCUP_SLEEP);
        hiccups_us.record(u64::try_from(begun.elapsed().saturating_sub(HICCUP_SLEEP).as_micros())?)?;
    }
    Ok(hiccups_us)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use tokio::sync::Semaphore;

    use super::*;

    /// Nine calls wait for the tenth one, so the latency of the first call includes the time until the tenth call is
    /// due.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_call_is_counted_from_when_it_was_due() {
        let (gate, is_over) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
        let over = is_over.clone();
        let call = move |number| {
            let (gate, is_over) = (gate.clone(), is_over.clone());
            async move {
                if number >= 9 {
                    is_over.store(true, Ordering::Relaxed);
                    gate.add_permits(10);
                }
                gate.acquire().await?.forget();
                Ok(())
            }
        };
        let measured = latency(1_000.0, move || over.load(Ordering::Relaxed), call).await.unwrap();
        assert!(measured.p999_ms >= 9.0, "{measured:?}");
    }

    /// More calls are due than may be in flight. Calls that could not start before the end are made nevertheless, and
    /// are counted.
    #[tokio::test(flavor = "multi_thread")]
    async fn calls_that_are_due_at_the_end_are_counted() {
        let (gate, calls_per_s) = (Arc::new(Semaphore::new(0)), 10.0 * IN_FLIGHT_MAX as f64);
        let (begun, made) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let (opens, counted) = (gate.clone(), made.clone());
        let is_over = move || {
            let is_over = begun.elapsed() > Duration::from_millis(300);
            if is_over {
                opens.add_permits(1);
            }
            is_over
        };
        let call = move |_| {
            let (gate, made) = (gate.clone(), made.clone());
            async move {
                made.fetch_add(1, Ordering::Relaxed);
                drop(gate.acquire().await?);
                Ok(())
            }
        };
        latency(calls_per_s, is_over, call).await.unwrap();
        assert!(counted.load(Ordering::Relaxed) >= 2 * IN_FLIGHT_MAX as u64, "{counted:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_error_of_a_call_is_the_measurement_s() {
        let measured = latency(1_000.0, || false, async |_| anyhow::bail!("refused"));
        assert_eq!(measured.await.unwrap_err().to_string(), "refused");
    }
}
