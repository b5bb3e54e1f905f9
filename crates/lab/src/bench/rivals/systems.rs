//! The systems that are compared, each used as an application would use it. All systems implement the same trait: they
//! receive keys with their times, and report for each key whether it is new.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{anyhow, bail};
use cuckoo_clock::CuckooFilter;
use cuckoo_clock::config::{CuckooConfiguration, TtlConfig};
use firstseen_cli::notice;
use firstseen_filter::{Digest, FilterSecret, FilterSpec, Kind, Window};
use firstseen_routing::{Answer, SlicedDefinition, SlicedFilter};

use super::keys::KEY_BYTES;
use super::{BEGIN_MS, System, WINDOW_MS};
use crate::bench::redis::Redis;
use crate::bench::spent::Used;

/// Error rate of the systems whose names do not include another rate.
const RATE: f64 = 1e-3;
/// Interval between two sweeps of the map.
const SWEEP_MS: u64 = 300_000;
const MINUTE_MS: u64 = 60_000;
/// Number of keys that are hashed together.
const BATCH_KEYS: usize = 4096;

/// System that is measured.
pub(super) trait Rival {
    /// Tests every key at its time and records it. Returns the number of new keys.
    fn observe(&mut self, keys: &[[u8; KEY_BYTES]], times_ms: &[u64]) -> anyhow::Result<u64>;

    /// Returns the memory that the system reports, if it does not use the memory of this process.
    fn used(&self) -> anyhow::Result<Option<Used>> {
        Ok(None)
    }

    /// Returns the CPU time that the system has used outside of this process.
    fn server_cores(&self) -> anyhow::Result<Duration> {
        Ok(Duration::ZERO)
    }
}

/// Creates an empty system for `keys` keys per window. If the system is not installed, prints a message and returns
/// `None`.
pub(super) fn build(system: System, keys: u64, seed: u64) -> anyhow::Result<Option<Box<dyn Rival>>> {
    Ok(Some(match system {
        System::Cuckoo1e3 => Box::new(OwnFilter::build(Kind::Cuckoo, RATE, keys, seed)?),
        System::Cuckoo1e8 => Box::new(OwnFilter::build(Kind::Cuckoo, 1e-8, keys, seed)?),
        System::Generations => Box::new(OwnFilter::build(Kind::Generations, RATE, keys, seed)?),
        System::Map => Box::new(Map { expiries_ms: HashMap::new(), swept_ms: BEGIN_MS }),
        System::CuckooClock => Box::new(Clock::build(keys)?),
        System::Redis => match Redis::start()? {
            Some(redis) => Box::new(Server { used_before: redis.used()?, redis }),
            None => {
                notice!("firstseen-lab: redis is left out: no redis-server is installed");
                return Ok(None);
            }
        },
    }))
}

/// Filter of this project.
struct OwnFilter {
    filter: SlicedFilter,
    secret: FilterSecret,
    digests: Vec<Digest>,
    answers: Vec<Answer>,
}

impl OwnFilter {
    fn build(kind: Kind, rate: f64, keys: u64, seed: u64) -> anyhow::Result<Self> {
        let spec =
            FilterSpec { rate, capacity_events: Some(keys), ..FilterSpec::new(kind, Window::Duration(WINDOW_MS)) };
        let filter = SlicedFilter::build(&SlicedDefinition::new(&spec, "none".parse()?)?)?;
        Ok(Self { filter, secret: FilterSecret::from_seed(seed), digests: Vec::new(), answers: Vec::new() })
    }
}

impl Rival for OwnFilter {
    fn observe(&mut self, keys: &[[u8; KEY_BYTES]], times_ms: &[u64]) -> anyhow::Result<u64> {
        let mut first_seen = 0;
        for (keys, times_ms) in keys.chunks(BATCH_KEYS).zip(times_ms.chunks(BATCH_KEYS)) {
            self.digests.clear();
            self.digests.extend(keys.iter().map(|key| self.secret.digest(key)));
            self.answers.clear();
            self.answers.resize(keys.len(), Answer::Undecided);
            self.filter.observe_batch(&self.digests, times_ms, &mut self.answers);
            for answer in &self.answers {
                match answer {
                    Answer::FirstSeen => first_seen += 1,
                    Answer::Duplicate => {}
                    other => bail!("a filter of {:?} replied {other:?}", self.filter.plan().slice()),
                }
            }
        }
        Ok(first_seen)
    }
}

/// Map in memory.
struct Map {
    expiries_ms: HashMap<Vec<u8>, u64>,
    swept_ms: u64,
}

impl Map {
    fn is_new(&mut self, key: &[u8], now_ms: u64) -> bool {
        if now_ms >= self.swept_ms + SWEEP_MS {
            self.expiries_ms.retain(|_, expiry_ms| *expiry_ms > now_ms);
            self.swept_ms = now_ms;
        }
        match self.expiries_ms.get_mut(key) {
            Some(expiry_ms) if *expiry_ms > now_ms => return false,
            Some(expiry_ms) => *expiry_ms = now_ms + WINDOW_MS,
            None => drop(self.expiries_ms.insert(key.to_vec(), now_ms + WINDOW_MS)),
        }
        true
    }
}

impl Rival for Map {
    fn observe(&mut self, keys: &[[u8; KEY_BYTES]], times_ms: &[u64]) -> anyhow::Result<u64> {
        Ok(keys.iter().zip(times_ms).map(|(key, now_ms)| u64::from(self.is_new(key, *now_ms))).sum())
    }
}

/// Redis server, used over several connections.
struct Server {
    redis: Redis,
    used_before: Used,
}

impl Rival for Server {
    fn observe(&mut self, keys: &[[u8; KEY_BYTES]], _: &[u64]) -> anyhow::Result<u64> {
        self.redis.set_new(keys, (WINDOW_MS / 1000) as u32)
    }

    fn used(&self) -> anyhow::Result<Option<Used>> {
        Ok(Some(self.redis.used()?.since(self.used_before)))
    }

    fn server_cores(&self) -> anyhow::Result<Duration> {
        self.redis.cores()
    }
}

/// Filter of the crate cuckoo-clock. The filter stores a fingerprint of 13 bits for each key, in buckets of four
/// entries. A lookup compares the key's fingerprint with the four entries of two buckets, and each of these entries
/// matches by chance with a probability of `1 / 2^13`. The error rate is therefore about `2 * 4 / 2^13`.
///
/// Each entry also has a time to live in minutes, which a scan over all entries decrements.
struct Clock {
    filter: CuckooFilter<std::hash::RandomState>,
    scanned_ms: u64,
}

impl Clock {
    fn build(keys: u64) -> anyhow::Result<Self> {
        // The time to live is one minute longer than the window, because part of the current minute may already have
        // passed.
        let minutes = (WINDOW_MS / MINUTE_MS + 1) as u32;
        let ttl =
            TtlConfig { ttl: minutes.try_into().map_err(wrong_shape)?, ttl_bits: 6.try_into().map_err(wrong_shape)? };
        let configuration = CuckooConfiguration::builder(keys as usize)
            .fingerprint_bits(13.try_into().map_err(wrong_shape)?)
            .bucket_size(4.try_into().map_err(wrong_shape)?)
            .with_ttl(ttl)
            .build();
        let configuration = configuration.map_err(wrong_shape)?;
        Ok(Self { filter: CuckooFilter::new_random(configuration), scanned_ms: BEGIN_MS })
    }
}

fn wrong_shape(error: impl std::fmt::Debug) -> anyhow::Error {
    anyhow!("cuckoo-clock does not take its shape: {error:?}")
}

impl Rival for Clock {
    fn observe(&mut self, keys: &[[u8; KEY_BYTES]], times_ms: &[u64]) -> anyhow::Result<u64> {
        let mut first_seen = 0;
        for (key, now_ms) in keys.iter().zip(times_ms) {
            while *now_ms >= self.scanned_ms + MINUTE_MS {
                self.filter.scan_and_update_ttl();
                self.scanned_ms += MINUTE_MS;
            }
            if !self.filter.contains(key) {
                // Inserting a key may evict another entry, which is then forgotten.
                let _ = self.filter.insert(key);
                first_seen += 1;
            }
        }
        Ok(first_seen)
    }
}
