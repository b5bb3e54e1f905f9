//! Stream of events for the benchmark of filter trees. The stream has locality: half of its events repeat an earlier
//! event, which is most often an event of the same site.
//!
//! A measurement with this stream fails if an event does not get a definite verdict, or if the verdicts are not
//! correct. The check of correctness depends on how the events are sent:
//!
//! - If each call contains one event, every repeated event must be reported as a duplicate.
//! - If events are sent in batches, the number of first-seen events must be the number of distinct events, except for a
//!   small share of false positives.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use firstseen_client::{Filter, Verdict};

use super::figures::Found;
use super::sites::Sites;
use super::wan::NAMES;
use crate::draws::Draws;

/// Share of the repeats that repeat an event of the same site.
pub(super) const LOCAL_SHARE: f64 = 0.8;
/// Share of the events that repeat another event.
const REPEAT_SHARE: f64 = 0.5;
/// Maximum share of the distinct events that may be reported as duplicates because of false positives.
const HIDDEN_MAX: f64 = 0.02;
/// Number of callers at a site. Each caller has one batch in flight.
const BATCH_CALLERS: u64 = 16;
const BATCH_EVENTS: usize = 1024;
/// Number of producers at a site whose calls are measured one by one. Each producer has one call in flight.
const CALLERS: u64 = 8;
/// Number of calls of each of these producers.
const CALLS: u64 = 100;
/// Number of events in [`latencies`].
pub(super) const LATENCY_EVENTS: u64 = NAMES.len() as u64 * CALLERS * CALLS;

/// Where the event of each call was found, and the latency of the call.
pub(super) type Latencies = Vec<(Found, Duration)>;
type Key = [u8; 16];

/// Returns a random number below `limit`. Low numbers are much more frequent, so that some events are popular.
fn popular(draws: &mut Draws, limit: u64) -> u64 {
    (draws.share().powi(3) * limit as f64) as u64
}

/// Returns the site whose event is repeated at `site`.
fn origin(draws: &mut Draws, site: usize) -> usize {
    if draws.share() < LOCAL_SHARE {
        site
    } else {
        (site + 1 + (draws.next() % (NAMES.len() as u64 - 1)) as usize) % NAMES.len()
    }
}

fn key(phase: u32, site: usize, number: u64) -> Key {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&phase.to_le_bytes());
    key[4..8].copy_from_slice(&(site as u32).to_le_bytes());
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

/// Events of each site that have a verdict.
type Answered = Arc<[Mutex<Vec<Key>>; NAMES.len()]>;

fn push(answered: &Answered, site: usize, key: Key) {
    answered[site].lock().unwrap_or_else(PoisonError::into_inner).push(key);
}

fn draw(answered: &Answered, site: usize, draws: &mut Draws) -> Option<Key> {
    let keys = answered[site].lock().unwrap_or_else(PoisonError::into_inner);
    keys.get(popular(draws, keys.len() as u64) as usize).copied()
}

/// Measures the latency of calls by producers that have one call in flight.
pub(super) async fn latencies(sites: &Sites, run: u64) -> anyhow::Result<Latencies> {
    let answered = Answered::default();
    let mut callers = Vec::new();
    for caller in 0..CALLERS * NAMES.len() as u64 {
        let site = caller as usize % NAMES.len();
        let (client, filter) = sites.producer(site).await?;
        let answered = answered.clone();
        let draws = Draws(run << 32 | caller);
        callers.push(tokio::spawn(async move {
            let called = call(&filter, site, caller, draws, &answered).await;
            drop(client);
            called
        }));
    }
    let mut all = Vec::new();
    for caller in callers {
        all.extend(caller.await??);
    }
    Ok(all)
}

async fn call(
    filter: &Filter,
    site: usize,
    caller: u64,
    mut draws: Draws,
    answered: &Answered,
) -> anyhow::Result<Latencies> {
    let mut latencies = Vec::new();
    let mut hits = filter.status().level_hits;
    for number in 0..CALLS {
        let is_repeat = draws.share() < REPEAT_SHARE;
        let origin = origin(&mut draws, site);
        let repeated = if is_repeat { draw(answered, origin, &mut draws) } else { None };
        let event = repeated.unwrap_or_else(|| key(0, site, caller << 32 | number));
        let begun = Instant::now();
        let verdict = filter.observe(&event).await?;
        let elapsed = begun.elapsed();
        let hits_now = filter.status().level_hits;
        // This producer has a single call in flight, so the event was found at the level whose number of duplicates has
        // risen.
        let level = hits_now.iter().zip(hits).position(|(now, before)| *now > before);
        hits = hits_now;
        let found = match (verdict, level) {
            (Verdict::Undecided(reason), _) => bail!("an event was undecided: {reason:?}"),
            (Verdict::FirstSeen, _) if repeated.is_some() => {
                bail!("an event that had a verdict is called first-seen again")
            }
            (Verdict::FirstSeen, _) => Found::New,
            // The event is a false positive, which does not count as a repeat.
            (Verdict::Duplicate, _) if repeated.is_none() => continue,
            (Verdict::Duplicate, None) => Found::Flat,
            (Verdict::Duplicate, Some(0)) => Found::Root,
            (Verdict::Duplicate, Some(_)) => Found::Leaf,
        };
        latencies.push((found, elapsed));
        if found == Found::New {
            push(answered, site, event);
        }
    }
    Ok(latencies)
}

/// Measures the events per second of all sites together. Each site sends its part of `events` in batches.
pub(super) async fn events_per_s(sites: &Sites, events: u64, run: u64) -> anyhow::Result<f64> {
    let events_per_site = events / NAMES.len() as u64;
    let (batches, distinct) = batches(events_per_site, run);
    let mut clients = Vec::new();
    let mut callers = Vec::new();
    for (site, batches) in batches.into_iter().enumerate() {
        let (client, filter) = sites.producer(site).await?;
        clients.push(client);
        let batches = Arc::new(Mutex::new(batches.into_iter()));
        callers.extend((0..BATCH_CALLERS).map(|_| (filter.clone(), batches.clone())));
    }
    let begun = Instant::now();
    let callers: Vec<_> = callers.into_iter().map(|(filter, batches)| tokio::spawn(send(filter, batches))).collect();
    let mut first_seen = 0;
    for caller in callers {
        first_seen += caller.await??;
    }
    let seconds = begun.elapsed().as_secs_f64();
    drop(clients);
    if first_seen > distinct || (distinct - first_seen) as f64 > HIDDEN_MAX * distinct as f64 {
        bail!("{first_seen} of {distinct} distinct events were called first-seen");
    }
    Ok((events_per_site * NAMES.len() as u64) as f64 / seconds)
}

type Batches = Vec<Vec<Key>>;

/// Returns the batches of each site, and the number of distinct events.
fn batches(events_per_site: u64, run: u64) -> (Vec<Batches>, u64) {
    let mut draws = Draws(run);
    let mut sent = [0; NAMES.len()];
    let mut streams = vec![Vec::with_capacity(events_per_site as usize); NAMES.len()];
    for _ in 0..events_per_site {
        for site in 0..NAMES.len() {
            let origin = origin(&mut draws, site);
            let is_repeat = draws.share() < REPEAT_SHARE && sent[origin] > 0;
            let event = if is_repeat {
                key(1, origin, popular(&mut draws, sent[origin]))
            } else {
                sent[site] += 1;
                key(1, site, sent[site] - 1)
            };
            streams[site].push(event);
        }
    }
    let cut = streams.iter().map(|stream| stream.chunks(BATCH_EVENTS).map(<[Key]>::to_vec).collect());
    (cut.collect(), sent.iter().sum())
}

/// Sends batches until none are left, and returns the number of first-seen events.
async fn send(filter: Filter, batches: Arc<Mutex<std::vec::IntoIter<Vec<Key>>>>) -> anyhow::Result<u64> {
    let mut first_seen = 0;
    loop {
        let next = batches.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(batch) = next else { return Ok(first_seen) };
        for verdict in filter.observe_batch(&batch).await? {
            match verdict {
                Verdict::FirstSeen => first_seen += 1,
                Verdict::Duplicate => {}
                Verdict::Undecided(reason) => bail!("an event was undecided: {reason:?}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn half_repeat_and_most_of_them_at_home() {
        let (streams, distinct) = batches(20_000, 7);
        let all: Vec<(usize, Key)> = streams
            .iter()
            .enumerate()
            .flat_map(|(site, batches)| batches.iter().flatten().map(move |key| (site, *key)))
            .collect();
        assert_eq!(all.iter().map(|(_, key)| key).collect::<HashSet<_>>().len() as u64, distinct);
        let share = distinct as f64 / all.len() as f64;
        assert!((0.48..0.52).contains(&share), "{share}");
        let away = all.iter().filter(|(site, key)| key[4] as usize != *site).count() as f64 / all.len() as f64;
        let expected = REPEAT_SHARE * (1.0 - LOCAL_SHARE);
        assert!((away - expected).abs() < 0.01, "{away} instead of {expected}");
    }
}
