//! A producer that delivers each event once, and a consumer that checks it.
//!
//! `cargo run --example producer_consumer -- 127.0.0.1:7001 clicks` submits 10,000 clicks, each of them three times over,
//! as a producer does whose source delivers at least once. What the filter tells to be first-seen goes into a queue; the
//! consumer counts what comes out of it.
//!
//! Promises: shows what to do with each of the three verdicts. Must not know: how the client works.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use firstseen_client::{CallError, Client, Event, Filter, Reason, Verdict};
use tokio::sync::mpsc;

/// What the producer did and what the consumer found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Events called first-seen, and delivered.
    pub(crate) delivered: u64,
    /// Events called duplicates, and dropped.
    pub(crate) dropped: u64,
    /// Events delivered although nothing is known of them.
    pub(crate) delivered_undecided: u64,
    /// Events that came to the consumer more than once.
    pub(crate) arrived_again: u64,
}

/// Submits one event until there is something to do with it; `true` if it must be delivered.
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
            // Nothing was recorded, and the client has tried again already: the cluster is busy or starting. Once more.
            Verdict::Undecided(Reason::Overloaded | Reason::NotReady | Reason::StaleMap) => {}
            // Perhaps recorded: asked again, it may be called a duplicate of itself, and would be lost.
            Verdict::Undecided(_) => break,
        }
    }
    // Nothing is known. This producer would rather deliver twice than never; one that bills would put it aside.
    summary.delivered_undecided += 1;
    Ok(true)
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Submits `events` of `clicks`, each `times` times over, and consumes what is delivered.
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
