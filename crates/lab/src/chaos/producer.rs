//! Producers that send events during a scenario. Several callers in each process send the same events at the same time,
//! and recent events are sent most often, so that nodes must recognize many duplicates. Each call that returns is
//! printed as a line with its verdict.

use std::io::Write;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use firstseen_client::{Client, ConnectOptions, Event, Filter};
use firstseen_routing::Decision;
use serde::{Deserialize, Serialize};

use super::ProduceArgs;
use super::scenario::ClockOffset;
use crate::draws::Draws;

/// Number of callers in a process.
const CALLERS: u32 = 16;
/// Pause between two calls of a caller.
const PAUSE: Duration = Duration::from_millis(15);
/// Deadline of a call in milliseconds. It is shorter than a failure, so that calls are undecided during a failure.
const DEADLINE_MS: u64 = 1_500;
/// Interval between two new events, in milliseconds.
const NEW_EVENT_MS: u64 = 10;
/// Distance between the event numbers of callers with a wrong clock. These callers do not share events with other
/// callers.
const OWN_EVENTS: u64 = 1 << 40;
/// Share of lookups: one of this number of calls is a lookup.
const LOOKUP_EVERY: u64 = 6;

/// Call that has returned.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct CallLine {
    pub(super) caller: u32,
    /// Whether the caller's clock is wrong. No rule applies to the verdicts of such a caller.
    pub(super) has_broken_clock: bool,
    pub(super) event: u64,
    pub(super) is_lookup: bool,
    /// Time of the event, in milliseconds since 1970.
    pub(super) time_ms: u64,
    /// Time at which the call began, in microseconds since the process started. The next field has the same unit.
    pub(super) began_us: u64,
    pub(super) returned_us: u64,
    #[serde(rename = "told")]
    pub(super) verdict: Decision,
}

/// Sends events for as long as the flags request.
pub(super) fn run(args: &ProduceArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (client, filter) = connect(args).await?;
        let stamp = if args.broken_clocks.is_empty() { Stamp::ByNodes } else { Stamp::ByCaller { ahead_ms: 0 } };
        let mut clients = vec![client];
        let mut callers = vec![(filter, stamp); CALLERS as usize];
        for ClockOffset { ahead_ms } in &args.broken_clocks {
            // A caller with a wrong clock uses a separate producer, so that its times reach the other callers only
            // through the cluster.
            let (client, filter) = connect(args).await?;
            clients.push(client);
            callers.push((filter, Stamp::ByCaller { ahead_ms: *ahead_ms }));
        }
        let out = Arc::new(Mutex::new(std::io::stdout()));
        let begun = Instant::now();
        let callers = callers.into_iter().zip(0..).map(|((filter, stamp), number)| {
            let rng = Draws(args.seed.wrapping_mul(31).wrapping_add(u64::from(number)));
            let caller = Caller { number, stamp, rng, filter, begun, seconds: args.seconds };
            tokio::spawn(caller.run(out.clone()))
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await??;
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn connect(args: &ProduceArgs) -> anyhow::Result<(Client, Filter)> {
    let client = Client::connect(ConnectOptions {
        deadline_ms: DEADLINE_MS,
        connector: Some(Arc::new(args.cluster.tls.connector()?)),
        ..ConnectOptions::from(args.cluster.cluster.clone())
    })
    .await?;
    let filter = client.filter(&args.name).await?;
    Ok((client, filter))
}

/// Clock that stamps an event.
#[derive(Clone, Copy, Debug)]
enum Stamp {
    ByNodes,
    /// The caller's clock, which is ahead by this number of milliseconds.
    ByCaller {
        ahead_ms: i64,
    },
}

struct Caller {
    number: u32,
    stamp: Stamp,
    rng: Draws,
    filter: Filter,
    begun: Instant,
    seconds: u64,
}

impl Caller {
    async fn run(mut self, out: Arc<Mutex<std::io::Stdout>>) -> anyhow::Result<()> {
        while self.begun.elapsed().as_secs() < self.seconds {
            let line = serde_json::to_string(&self.call().await?)?;
            writeln!(out.lock().unwrap_or_else(PoisonError::into_inner), "{line}")?;
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    async fn call(&mut self) -> anyhow::Result<CallLine> {
        let events = self.begun.elapsed().as_millis() as u64 / NEW_EVENT_MS + 1;
        let event = events - 1 - self.rng.below(events).min(self.rng.below(events)).min(self.rng.below(events));
        let is_lookup = self.rng.below(LOOKUP_EVERY) == 0;
        let (has_broken_clock, ahead_ms) = match self.stamp {
            Stamp::ByNodes => (false, 0),
            Stamp::ByCaller { ahead_ms } => (ahead_ms != 0, ahead_ms),
        };
        let event = if has_broken_clock { event + OWN_EVENTS * u64::from(self.number) } else { event };
        let key = event.to_le_bytes();
        let time_ms = now_ms().saturating_add_signed(ahead_ms);
        let began_us = self.begun.elapsed().as_micros() as u64;
        let verdict = match (is_lookup, self.stamp) {
            (true, Stamp::ByNodes) => self.filter.test(&key).await?,
            (false, Stamp::ByNodes) => self.filter.observe(&key).await?,
            (true, Stamp::ByCaller { .. }) => self.filter.test(Event::from(&key).at(time_ms)).await?,
            (false, Stamp::ByCaller { .. }) => self.filter.observe(Event::from(&key).at(time_ms)).await?,
        };
        let returned_us = self.begun.elapsed().as_micros() as u64;
        let caller = self.number;
        Ok(CallLine { caller, has_broken_clock, event, is_lookup, time_ms, began_us, returned_us, verdict })
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
