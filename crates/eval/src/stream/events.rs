//! Iterator over the events of a stream, each with its key, arrival, lateness and site.
//!
//! The times of arrival never decrease. The random numbers for each property of an event are independent of those for
//! other properties. A change of one property therefore leaves the others as they are. For example, a stream with sites
//! has the same keys as the same stream without sites.
//!
//! This module does not depend on how events are used.

use firstseen_filter::reduce;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::keys::{KeySource, scattered};
use super::{Event, StreamError, StreamSpec};

/// Iterator over the events of a stream.
pub struct Events {
    spec: StreamSpec,
    left: u64,
    /// Arrival of the next event, in milliseconds after the start.
    arrival_ms: f64,
    keys: KeySource,
    key_random: ChaCha8Rng,
    site_random: ChaCha8Rng,
    late_random: ChaCha8Rng,
}

/// Returns an independent random sequence, one of several sequences for the same seed.
fn random(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(stream);
    random
}

impl Events {
    pub(super) fn new(spec: &StreamSpec, seed: u64) -> Result<Self, StreamError> {
        let mut key_random = random(seed, 0);
        let keys = KeySource::new(spec.keys, &mut key_random)?;
        let left = spec.events;
        Ok(Self {
            spec: spec.clone(),
            left,
            arrival_ms: 0.0,
            keys,
            key_random,
            site_random: random(seed, 1),
            late_random: random(seed, 2),
        })
    }

    /// Returns the key with the given rank, counted from 1. What the rank means depends on the distribution of the
    /// keys:
    ///
    /// - For Zipf's law, it is the rank by popularity.
    /// - If all keys have the same probability, it is the number of the key.
    /// - For all other distributions, it is the order in which new keys appear.
    pub fn ranked(&self, rank: u64) -> u64 {
        self.keys.ranked(rank)
    }

    /// Returns the home site of a key.
    pub fn home(&self, key: u64) -> u32 {
        reduce(scattered(key), u64::from(self.spec.sites)) as u32
    }

    fn site(&mut self, key: u64) -> u32 {
        let sites = self.spec.sites;
        let home = self.home(key);
        if sites == 1 || self.site_random.random_bool(self.spec.home_share) {
            return home;
        }
        let other = u64::from(home) + u64::from(self.site_random.random_range(1..sites));
        (other % u64::from(sites)) as u32
    }

    fn lateness_ms(&mut self) -> u64 {
        if self.spec.late_share > 0.0 && self.late_random.random_bool(self.spec.late_share) {
            self.late_random.random_range(0..=self.spec.late_ms_max)
        } else {
            0
        }
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.left = self.left.checked_sub(1)?;
        let key = self.keys.next(&mut self.key_random);
        let arrival_ms = self.spec.start_ms + self.arrival_ms as u64;
        let event = Event { time_ms: arrival_ms - self.lateness_ms(), key, site: self.site(key) };
        self.arrival_ms += self.spec.step_ms(self.arrival_ms);
        Some(event)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use firstseen_filter::rates::band;

    use super::super::{Burst, Keys};
    use super::*;

    fn spec(events: u64, keys: Keys) -> StreamSpec {
        StreamSpec::new(events, keys)
    }

    fn all(spec: &StreamSpec, seed: u64) -> Vec<Event> {
        spec.events(seed).unwrap().collect()
    }

    #[test]
    fn a_seed_decides_the_stream_and_another_seed_another_one() {
        let every = StreamSpec {
            bursts: vec![Burst { from_ms: 100, to_ms: 200, factor: 5.0 }],
            sites: 7,
            home_share: 0.6,
            late_share: 0.3,
            late_ms_max: 50,
            ..spec(2000, Keys::Zipf { keys: 100, exponent: 1.1 })
        };
        assert_eq!(all(&every, 1), all(&every, 1));
        assert_ne!(all(&every, 1), all(&every, 2));
        let keys = |spec: &StreamSpec| all(spec, 1).iter().map(|event| event.key).collect::<Vec<_>>();
        assert_eq!(keys(&every), keys(&spec(2000, every.keys)), "sites and lateness move no key");
    }

    #[test]
    fn distinct_keys_never_repeat_and_repeats_do_as_often_as_they_should() {
        let count = |keys| all(&spec(20_000, keys), 3).iter().map(|event| event.key).collect::<HashSet<_>>().len();
        assert_eq!(count(Keys::Distinct), 20_000);
        let distinct = count(Keys::Repeats { distinct_share: 0.3, recent_keys: 50 });
        assert!(band::binomial(0.3, 20_000, 0.9999).contains(&(distinct as u64)), "{distinct} of 20,000");
        assert_eq!(count(Keys::Uniform { keys: 30 }), 30);
    }

    #[test]
    fn the_head_of_zipf_has_its_share() {
        let (keys, exponent, events) = (1000, 1.0, 50_000);
        let mut counts = HashMap::new();
        for event in spec(events, Keys::Zipf { keys, exponent }).events(4).unwrap() {
            *counts.entry(event.key).or_insert(0u64) += 1;
        }
        let mut counts: Vec<u64> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let harmonic: f64 = (1..=keys).map(|rank| (rank as f64).powf(-exponent)).sum();
        for rank in [1usize, 2, 3] {
            let allowed = band::binomial((rank as f64).powf(-exponent) / harmonic, events, 0.9999);
            assert!(allowed.contains(&counts[rank - 1]), "rank {rank}: {} is not in {allowed:?}", counts[rank - 1]);
        }
    }

    #[test]
    fn no_event_is_later_than_the_bound_and_as_many_are_late_as_should() {
        let late = StreamSpec { late_share: 0.25, late_ms_max: 40, ..spec(20_000, Keys::Distinct) };
        let delays: Vec<u64> = (0u64..).zip(all(&late, 5)).map(|(at, e)| late.start_ms + at - e.time_ms).collect();
        assert_eq!(delays.iter().max(), Some(&40));
        let behind = delays.iter().filter(|delay| **delay > 0).count() as u64;
        assert!(band::binomial(0.25 * 40.0 / 41.0, 20_000, 0.9999).contains(&behind), "{behind} late of 20,000");
    }

    #[test]
    fn keys_come_home() {
        let local = StreamSpec { sites: 10, home_share: 0.7, ..spec(40_000, Keys::Uniform { keys: 40 }) };
        let mut sites: HashMap<u64, [u64; 10]> = HashMap::new();
        for event in all(&local, 6) {
            sites.entry(event.key).or_default()[event.site as usize] += 1;
        }
        let at_home: u64 = sites.values().filter_map(|counts| counts.iter().max()).sum();
        assert!(band::binomial(0.7, 40_000, 0.9999).contains(&at_home), "{at_home} of 40,000 at home");
    }

    #[test]
    fn a_burst_multiplies_the_rate() {
        let bursty = StreamSpec {
            bursts: vec![Burst { from_ms: 1000, to_ms: 2000, factor: 5.0 }],
            ..spec(8000, Keys::Distinct)
        };
        let within = |from: u64, to: u64| {
            let times = bursty.start_ms + from..bursty.start_ms + to;
            all(&bursty, 7).iter().filter(|event| times.contains(&event.time_ms)).count()
        };
        assert_eq!((within(0, 1000), within(2000, 3000)), (1000, 1000));
        assert!((4999..=5001).contains(&within(1000, 2000)), "{}", within(1000, 2000));
    }

    #[test]
    fn the_length_is_that_of_the_events() {
        let burst = |from_ms, to_ms, factor| Burst { from_ms, to_ms, factor };
        let bursts =
            [burst(1000, 2000, 5.0), burst(1500, 3000, 0.01), burst(6000, 6500, 1e-3), burst(1 << 40, 1 << 41, 2.0)];
        for (events, count) in [(8000, 4), (8000, 2), (1000, 4), (3000, 3), (1, 4), (0, 4)] {
            let spec = StreamSpec { bursts: bursts[..count].to_vec(), ..spec(events, Keys::Distinct) };
            let last_ms = all(&spec, 8).last().map_or(0, |event| event.time_ms - spec.start_ms);
            assert!((spec.length_ms() - last_ms as f64).abs() <= 1.0, "{events}: {last_ms}, {}", spec.length_ms());
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let refused = |spec: StreamSpec| spec.events(1).err().unwrap().field;
        let fine = || spec(10, Keys::Distinct);
        assert_eq!(refused(StreamSpec { sites: 0, ..fine() }), "sites");
        assert_eq!(refused(StreamSpec { home_share: 1.5, ..fine() }), "home_share");
        assert_eq!(refused(StreamSpec { late_share: f64::NAN, ..fine() }), "late_share");
        assert_eq!(refused(StreamSpec { late_ms_max: u64::MAX, ..fine() }), "late_ms_max");
        assert_eq!(refused(StreamSpec { events_per_second: 0.0, ..fine() }), "events_per_second");
        assert_eq!(refused(StreamSpec { events_per_second: 1e-300, ..fine() }), "events_per_second");
        assert_eq!(refused(StreamSpec { start_ms: 1 << 60, ..fine() }), "start_ms");
        assert_eq!(refused(spec(10, Keys::Zipf { keys: 5, exponent: -1.0 })), "exponent");
        assert_eq!(refused(spec(10, Keys::Repeats { distinct_share: 0.5, recent_keys: 0 })), "recent_keys");
        let burst = Burst { from_ms: 5, to_ms: 5, factor: 2.0 };
        assert_eq!(refused(StreamSpec { bursts: vec![burst], ..fine() }), "bursts");
    }
}
