//! Recipe for consumers that read from a message queue. A consumer acknowledges a message only after its event has been
//! delivered and recorded. Each event is therefore delivered at least once, even if consumers die at any step.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use firstseen_client::{CallError, Claiming, Confirming, Filter, Wait};

use super::{Fate, LEASE, filter, stage};

/// Answer of a consumer to its queue about a message.
enum Reply {
    Ack,
    /// Deliver the message again after this time, to any consumer.
    Nack(Duration),
}

/// Processes a message of a queue.
fn take(clicks: &Filter, click: &[u8], publish: impl FnOnce()) -> Result<Reply, CallError> {
    Ok(match clicks.claim(click, LEASE).wait()? {
        Claiming::Claimed(claim) => {
            let delivery = claim.deliver();
            publish();
            match delivery.confirm().wait()? {
                // The claim ends with its lease, and then the event is published again.
                Confirming::Undecided(_) => Reply::Nack(LEASE),
                Confirming::Confirmed | Confirming::LeaseLost(_) => Reply::Ack,
            }
        }
        Claiming::Duplicate => Reply::Ack,
        Claiming::InProgress(wait) => Reply::Nack(wait),
        Claiming::Undecided(_) => Reply::Nack(Duration::from_millis(200)),
    })
}

#[test]
fn every_message_of_a_queue_is_published_and_few_twice() {
    const MESSAGES: u64 = 400;
    let node = stage();
    let (_client, clicks) = filter(&node);
    let mut fate = Fate(7);
    // Half of the messages are in the queue twice, as if their producer had retried.
    let mut queue: VecDeque<(u64, Instant)> =
        (0..MESSAGES).chain((0..MESSAGES).step_by(2)).map(|message| (message, Instant::now())).collect();
    let (mut published, mut deaths): (BTreeMap<u64, u64>, u64) = (BTreeMap::new(), 0);
    while let Some((message, due)) = queue.pop_front() {
        std::thread::sleep(due.saturating_duration_since(Instant::now()).min(Duration::from_millis(5)));
        if Instant::now() < due {
            queue.push_back((message, due));
            continue;
        }
        let key = message.to_le_bytes();
        // A consumer that dies holds the event until its lease ends, and then the queue delivers the message again.
        if fate.ends(20) {
            let claimed = clicks.claim(&key, LEASE).wait().expect("a call");
            if let Claiming::Claimed(claim) = claimed {
                let delivery = claim.deliver();
                // The consumer dies either before or after it has published the event.
                if fate.ends(2) {
                    *published.entry(message).or_default() += 1;
                }
                deaths += 1;
                drop(delivery);
            }
            queue.push_back((message, Instant::now()));
            continue;
        }
        let reply = take(&clicks, &key, || *published.entry(message).or_default() += 1).expect("a call");
        if let Reply::Nack(wait) = reply {
            queue.push_back((message, Instant::now() + wait));
        }
    }
    let extra: u64 = published.values().map(|times| times - 1).sum();
    assert_eq!(published.len() as u64, MESSAGES);
    assert!(deaths > 5 && extra > 0 && extra <= deaths, "{extra} published again after {deaths} deaths");
}
