//! A stream of events with locality: half of them repeat an earlier one, most often one of the same site.
//!
//! Promises: every event got a definite verdict; of the calls that are measured one by one, each repeat was called a
//! duplicate, and of the stream, as many events were called first-seen as there are distinct ones (but for false
//! positives); otherwise the measurement is an error. Must not know: how the filter is built.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use firstseen_client::{Filter, Verdict};

use super::figures::Found;
use super::sites::Sites;
use super::wan::NAMES;
use crate::draws::Draws;

/// The share of the repeats that repeat an event of the same site.
pub(super) const LOCAL_SHARE: f64 = 0.8;
/// The share of the events that repeat another.
const REPEAT_SHARE: f64 = 0.5;
/// False positives and chance may call so many of the distinct events duplicates.
const HIDDEN_MAX: f64 = 0.02;
/// Callers of a site, each of which has one batch in flight.
const BATCH_CALLERS: u64 = 16;
const BATCH_EVENTS: usize = 1024;
/// Producers of a site whose calls are measured one by one; each has one call in flight.
const CALLERS: u64 = 8;
/// Calls of each of these producers.
const CALLS: u64 = 100;
/// Events of [`latencies`].
pub(super) const LATENCY_EVENTS: u64 = NAMES.len() as u64 * CALLERS * CALLS;

/// Where the event of each call was found, and how long the call took.
pub(super) type Latencies = Vec<(Found, Duration)>;
type Key = [u8; 16];

/// A number below `limit`, low numbers far more often: some events are popular.
fn popular(draws: &mut Draws, limit: u64) -> u64 {
    (draws.share().powi(3) * limit as f64) as u64
}

/// The site whose event is repeated at `site`.
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

/// How long calls take, of producers that have one call in flight.
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
        // Only one call of this producer is in flight, so the level whose count of hits has risen is the one that found
        // its event.
        let level = hits_now.iter().zip(hits).position(|(now, before)| *now > before);
        hits = hits_now;
        let found = match (verdict, level) {
            (Verdict::Undecided(reason), _) => bail!("an event was undecided: {reason:?}"),
            (Verdict::FirstSeen, _) if repeated.is_some() => {
                bail!("an event that had a verdict is called first-seen again")
            }
            (Verdict::FirstSeen, _) => Found::New,
            // A false positive is no repeat.
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

/// Events a second of all sites together, each of which sends its part of `events` in batches.
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

/// The batches of each site, and how many of their events are distinct.
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

/// Sends batches while there are some, and returns how many events were called first-seen.
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
