//! Example of a producer that delivers each event once, and of a consumer that checks the result.
//!
//! This example shows how a consumer receives every event once although its producer sends duplicates. The command
//! `cargo run --example producer_consumer -- 127.0.0.1:7001 clicks` submits each of 10,000 clicks three times to the
//! filter `clicks`. Clicks that the filter calls first-seen go into a queue. The consumer reads that queue and counts
//! the clicks in it.
//!
//! The example shows how to handle each of the three verdicts.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use firstseen_client::{CallError, Client, Event, Filter, Reason, Verdict};
use tokio::sync::mpsc;

/// Counts of the producer and of the consumer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Number of events that were first-seen, and were delivered.
    pub(crate) delivered: u64,
    /// Number of events that were duplicates, and were dropped.
    pub(crate) dropped: u64,
    /// Number of events that were delivered although their verdict was undecided.
    pub(crate) delivered_undecided: u64,
    /// Number of events that the consumer received more than once.
    pub(crate) arrived_again: u64,
}

/// Submits one event until a decision is possible. Returns `true` if the event must be delivered.
async fn must_deliver(filter: &Filter, event: &str, summary: &mut Summary) -> Result<bool, CallError> {
    for _ in 0..3 {
        let verdict = if filter.info().needs_times {
            filter.observe(Event::from(event.as_bytes()).at(now_ms())).await?
        } else {
            filter.observe(event.as_bytes()).await?
        };
        match verdict {
            Verdict::FirstSeen => {
                summary.delivered += 1;
                return Ok(true);
            }
            Verdict::Duplicate => {
                summary.dropped += 1;
                return Ok(false);
            }
            // Nothing was recorded, and the client has already retried. The cluster is busy or starting, so the event
            // is submitted again.
            Verdict::Undecided(Reason::Overloaded | Reason::NotReady | Reason::StaleMap) => {}
            // The event may have been recorded. A second submission could call it a duplicate of itself, and the event
            // would be lost.
            Verdict::Undecided(_) => break,
        }
    }
    // The verdict is unknown. This producer delivers such an event, because it prefers a duplicate to a loss. A billing
    // system would set the event aside instead.
    summary.delivered_undecided += 1;
    Ok(true)
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Submits `events` different events to the filter, each of them `times` times, and consumes the delivered events.
pub(crate) async fn run(filter: &Filter, events: u64, times: u64) -> Result<Summary, CallError> {
    let (queue, mut deliveries) = mpsc::channel::<String>(1024);
    let consumer = tokio::spawn(async move {
        let mut arrivals: HashMap<String, u64> = HashMap::new();
        while let Some(event) = deliveries.recv().await {
            *arrivals.entry(event).or_default() += 1;
        }
        arrivals.values().map(|count| count - 1).sum::<u64>()
    });
    let mut summary = Summary::default();
    for submission in 0..events * times {
        let event = format!("click-{}", submission % events);
        if must_deliver(filter, &event, &mut summary).await? && queue.send(event).await.is_err() {
            break;
        }
    }
    drop(queue);
    summary.arrived_again = consumer.await.unwrap_or(0);
    Ok(summary)
}

#[tokio::main(flavor = "current_thread")]
#[allow(dead_code)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(seed), Some(name)) = (arguments.next(), arguments.next()) else {
        return Err("usage: producer_consumer HOST:PORT FILTER".into());
    };
    let client = Client::connect([seed]).await?;
    let filter = client.filter(&name).await?;
    let summary = run(&filter, 10_000, 3).await?;
    println!("{summary:#?}");
    match summary.arrived_again {
        0 => Ok(()),
        again => Err(format!("{again} events arrived more than once").into()),
    }
}
