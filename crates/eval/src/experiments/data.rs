//! Reproduces Figures 4 and 6 of Koloniari et al. 2011 (section 7): the popularity of events, and the number of events
//! at each leaf.
//!
//! The experiment shows the data that other experiments use, and uses no filters itself. It plots the synthetic streams
//! and every log of the run, and compares the streams with the distributions from which their keys are drawn.

use std::collections::HashMap;

use firstseen_filter::{FilterSecret, reduce};

use super::{k11, logged, parameter, pipelining, slicing, tree};
use crate::document::{Axis, Line, Reading, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, LogUse, Run};
use crate::measure::pooled_with_expected;
use crate::stats::{Counts, Estimate};
use crate::stream::{Events, Keys, Log, StreamSpec};
use crate::theory::popularity::{Repeats, fitted_exponent, zipf_share};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "data",
    title: "The data: popularity of events, events per leaf",
    paragraph: "This experiment shows the input of the other experiments. In real logs few events are very popular, \
                and most events occur once or twice. A plot of share against rank is nearly a falling line on \
                logarithmic axes. Synthetic streams, in which the frequency of each key follows a known distribution, \
                replace real logs. In a stream of repeats, keys that appear early are repeated more often. The leaves \
                of a tree get unequal shares if a few clients send many requests.",
    reads_logs: Some(LogUse { events_max: |_| u64::MAX, distinct_min: 1, has_stand_in: false }),
    measure,
};

/// Stream that other experiments draw.
struct Drawn {
    name: String,
    spec: StreamSpec,
    /// Ranks that are shown. All of them are below the number of keys in any run.
    ranks: Vec<u64>,
}

/// Returns the distinct ranks 1, 2, 5, 10 and so on, up to and including `most`.
fn ranks_to(most: u64) -> Vec<u64> {
    let decades = (0..19).flat_map(|power| [1, 2, 5].map(|digit| digit * 10u64.pow(power)));
    decades.take_while(|rank| *rank < most).chain([most]).collect()
}

impl Drawn {
    fn new(name: &str, spec: StreamSpec) -> Self {
        let most = match spec.keys {
            Keys::Distinct => spec.events,
            Keys::Uniform { keys } | Keys::Zipf { keys, .. } => keys,
            // The number of new keys varies by far less than a tenth.
            Keys::Repeats { distinct_share, .. } => (0.9 * distinct_share * spec.events as f64) as u64,
        };
        Self { name: name.to_owned(), spec, ranks: ranks_to(most) }
    }

    /// Returns how often the key of each rank occurred, and its share by the distribution.
    fn popularity(&self, seed: u64) -> Result<Vec<(Counts, f64)>, EvalError> {
        let stream = self.spec.events(seed)?;
        let keys: Vec<u64> = self.ranks.iter().map(|rank| stream.ranked(*rank)).collect();
        let counts = counted(stream.map(|event| event.key));
        let trials = self.spec.events;
        let distinct = counts.len() as u64;
        let found = self.ranks.iter().zip(&keys).map(|(rank, key)| {
            let successes = counts.get(key).copied().unwrap_or(0);
            (Counts { successes, trials }, self.expected_share(*rank, distinct))
        });
        Ok(found.collect())
    }

    /// Returns the share of the key with this rank by the distribution, if `distinct` keys have occurred.
    fn expected_share(&self, rank: u64, distinct: u64) -> f64 {
        let events = self.spec.events;
        match self.spec.keys {
            Keys::Distinct => 1.0 / events as f64,
            Keys::Uniform { keys } => 1.0 / keys as f64,
            Keys::Zipf { keys, exponent } => zipf_share(rank, keys, exponent),
            Keys::Repeats { recent_keys, .. } => Repeats { events, distinct, recent_keys }.share(rank),
        }
    }

    fn formula(&self) -> &'static str {
        match self.spec.keys {
            Keys::Distinct => "1/N",
            Keys::Uniform { .. } => "1/n for each of the n keys, because all keys are equally likely",
            Keys::Zipf { .. } => {
                "the share of all events that belong to the key with rank r. By Zipf's law with the exponent s for n \
                 keys, this share is r^-s / sum over i <= n of i^-s"
            }
            Keys::Repeats { .. } => {
                "the share of all events that belong to the r-th new key of the stream. For a stream of N events with \
                 D different keys, this share is (1 + (N - D)/D sum over r <= j <= D of 1/j) / N. The formula assumes \
                 that each repeat has the same probability for all keys that have occurred so far"
            }
        }
    }
}

fn counted(keys: impl Iterator<Item = u64>) -> HashMap<u64, u64> {
    let mut counts = HashMap::new();
    keys.for_each(|key| *counts.entry(key).or_default() += 1);
    counts
}

/// Returns the synthetic data sets of Koloniari et al., the stream of the tree, and streams of repeats.
fn drawn(run: &Run<'_>) -> [Vec<Drawn>; 2] {
    let events: u64 = run.scale.pick(100_000, 60_000, 20_000);
    let [zipf, uniform] = slicing::drawn_keys(events);
    let laws = vec![
        Drawn::new("Zipf, s = 1 (slicing)", StreamSpec::new(events, zipf)),
        Drawn::new("Zipf of the tree", tree::leaf_stream(run.scale)),
        Drawn::new("uniform (slicing)", StreamSpec::new(events, uniform)),
    ];
    let repeats = pipelining::DISTINCT_SHARES.map(|distinct_share| {
        let keys = Keys::Repeats { distinct_share, recent_keys: u64::MAX };
        let name = format!("{:.0} % distinct (pipelining)", 100.0 * distinct_share);
        Drawn::new(&name, StreamSpec::new(events, keys))
    });
    let clicks = Drawn::new("73 % distinct (clicks)", StreamSpec::new(events, logged::CLICKS));
    [laws, repeats.into_iter().chain([clicks]).collect()]
}

/// Returns the measured and the expected number of events for each leaf of the tree: the number of events that arrive
/// at the leaf, and the share of events that should arrive there. For L leaves, the expected share is
/// `h w + (1 - h)(1 - w)/(L - 1)`. Here w is the share of the keys whose home is the leaf, and h is the share of a key's
/// events that come from its home. The leaves are sorted by their expected share, greatest first.
fn leaves(spec: &StreamSpec, seed: u64) -> Result<Vec<(Counts, f64)>, EvalError> {
    let stream = spec.events(seed)?;
    let at_home = weights_at_home(spec, &stream);
    let all: f64 = at_home.iter().sum();
    let expected = at_home.iter().map(|weight| {
        let share = weight / all;
        spec.home_share * share + (1.0 - spec.home_share) * (1.0 - share) / (f64::from(spec.sites) - 1.0)
    });
    let mut successes = vec![0; spec.sites as usize];
    stream.for_each(|event| successes[event.site as usize] += 1);
    let counts = successes.into_iter().map(|successes| Counts { successes, trials: spec.events });
    let mut leaves: Vec<(Counts, f64)> = counts.zip(expected).collect();
    leaves.sort_by(|one, other| other.1.total_cmp(&one.1));
    Ok(leaves)
}

/// Returns for each site the popularity of the keys that have their home there, up to a common factor.
fn weights_at_home(spec: &StreamSpec, stream: &Events) -> Vec<f64> {
    let mut weights = vec![0.0; spec.sites as usize];
    if let Keys::Zipf { keys, exponent } = spec.keys {
        for rank in 1..=keys {
            weights[stream.home(stream.ranked(rank)) as usize] += (rank as f64).powf(-exponent);
        }
    }
    weights
}

/// Returns how often each key occurs, most frequent first.
fn falling(keys: &[u64]) -> Vec<u64> {
    let mut counts: Vec<u64> = counted(keys.iter().copied()).into_values().collect();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    counts
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let groups = drawn(run);
    let leaf_stream = tree::leaf_stream(run.scale);
    let runs = run.trials(|seed| {
        let mut found = Vec::new();
        for stream in groups.iter().flatten() {
            found.extend(stream.popularity(seed)?);
        }
        found.extend(leaves(&leaf_stream, seed)?);
        Ok(found)
    })?;
    let (counts, expected): (Vec<Vec<Counts>>, Vec<Vec<f64>>) =
        runs.into_iter().map(|run| run.into_iter().unzip::<_, _, Vec<_>, Vec<_>>()).unzip();
    let mut places = 0..;
    let mut sheets = Vec::new();
    for (group, title) in groups.iter().zip(["Popularity of keys that are drawn", "Popularity where keys are repeated"])
    {
        let series = group.iter().map(|stream| {
            let points = stream.ranks.iter().zip(places.by_ref());
            let points = points.map(|(rank, place)| pooled_with_expected(&counts, &expected, place).at(*rank as f64));
            Readings::new(stream.name.as_str(), stream.formula(), points)
        });
        sheets.push(popularity_sheet(title.to_owned(), series.collect()));
    }
    let of_leaves = (1..=leaf_stream.sites).zip(places);
    let of_leaves = of_leaves.map(|(leaf, place)| pooled_with_expected(&counts, &expected, place).at(leaf)).collect();
    sheets.extend(run.logs.iter().map(|log| log_sheet(log, run.seeds)));
    sheets.push(leaves_sheet(run, &leaf_stream, of_leaves));
    Ok(Findings {
        source: k11("section 7", "Figures 4(a), 4(b), 6"),
        parameters: vec![
            parameter("events of a stream", groups[0][0].spec.events),
            parameter("events of the tree's stream", leaf_stream.events),
            parameter("leaves", leaf_stream.sites),
            parameter("share of a key's events that come from its home leaf", leaf_stream.home_share),
            parameter("events of a log", "all"),
        ],
        sheets,
        notes: NOTES.map(str::to_owned).to_vec(),
    })
}

fn popularity_sheet(title: String, series: Vec<Readings>) -> Sheet {
    Sheet::new(title, Axis::log("rank of the key"), Axis::log("share of events"), series)
}

/// Returns a reading that is the same in every run, such as the reading of a log.
fn fixed(x: u64, count: u64, all: u64, runs: u32) -> Reading {
    let estimate = Estimate::of_values(&vec![count as f64 / all as f64; runs as usize], all);
    let estimate = Estimate { samples: all, ..estimate };
    Reading::unjudged(x as f64, estimate)
}

/// Returns Figures 4(a) and 6 for a log: its keys by popularity, its clients, and Zipf's law fitted to both.
fn log_sheet(log: &Log, runs: u32) -> Sheet {
    let mut series = Vec::new();
    let mut lines = Vec::new();
    for (keys, what) in
        [(&log.keys, "keys"), (&log.clients, "clients")].into_iter().filter(|(keys, _)| !keys.is_empty())
    {
        let counts = falling(keys);
        let all = keys.len() as u64;
        let distinct = counts.len() as u64;
        let ranks = ranks_to(distinct);
        let exponent = fitted_exponent(&counts);
        let fitted = ranks.iter().map(|rank| (*rank as f64, zipf_share(*rank, distinct, exponent)));
        lines.push(Line { name: format!("Zipf fitted to {what}: s = {exponent:.2}"), points: fitted.collect() });
        let points = ranks.iter().map(|rank| fixed(*rank, counts[*rank as usize - 1], all, runs));
        series.push(Readings::unjudged(format!("{what}, {distinct} distinct"), points));
    }
    popularity_sheet(format!("Figures 4(a), 6: popularity in {}", log.name), series).with_lines(lines)
}

/// Returns Figure 4(b): the stream of the tree, and each log with its clients hashed to leaves.
fn leaves_sheet(run: &Run<'_>, spec: &StreamSpec, drawn: Vec<Reading>) -> Sheet {
    let formula = "the share of all events that arrive at a given leaf of the tree. For a tree of L leaves, this \
                   share is h w + (1 - h)(1 - w)/(L - 1), where w is the share of the keys whose home is this leaf, \
                   and h is the share of a key's events that come from its home leaf";
    let mut series = vec![Readings::new("stream of the tree", formula, drawn)];
    // All runs use the same hash function, because the log is the same in all runs.
    let secret = FilterSecret::from_seed(0);
    for log in run.logs.iter().filter(|log| !log.clients.is_empty()) {
        let mut events = vec![0; spec.sites as usize];
        for client in &log.clients {
            events[reduce(secret.digest(&client.to_le_bytes()).lo, u64::from(spec.sites)) as usize] += 1;
        }
        events.sort_unstable_by(|one, other| other.cmp(one));
        let all = log.clients.len() as u64;
        let points = (1..).zip(events).map(|(place, count)| fixed(place, count, all, run.seeds));
        series.push(Readings::unjudged(format!("clients of {}", log.name), points));
    }
    let even = [1.0, f64::from(spec.sites)].map(|place| (place, 1.0 / f64::from(spec.sites)));
    Sheet::new(
        "Figure 4(b): events per leaf",
        Axis::linear("leaf, from the one with most events"),
        Axis::linear("share of events"),
        series,
    )
    .with_line("all leaves alike", even)
}

const NOTES: [&str; 4] = [
    "Synthetic keys are ordered by the rank that their distribution gives them, or by the order in which they first \
     occurred. They are not sorted by their measured frequency, because the first key would then occur more often in \
     every run than the formula says, and the last key less often. A comparison with the formula would then be \
     meaningless. For the same reason, the leaves of the tree are in the order of their expected shares.",
    "The keys of a log are sorted by how often they occurred. Their points are not compared with an expected value, \
     because a log is the same for every seed, so its points have no confidence interval. For comparison, a line \
     shows Zipf's law for the same number of keys with the most likely exponent (Clauset, Shalizi, Newman 2009, \
     section 3.1). The line does not fit the tail of the log, because many keys occur exactly once.",
    "In the tree of this experiment, a hash of the client determines the leaf at which an event arrives. Koloniari et \
     al. use the address of the client instead.",
    "The logs of Koloniari et al. are not public, and their text does not print the numbers of the figures, so there \
     are no printed values to compare with.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Scale;
    use crate::stats::Judged;

    #[test]
    fn ranks_end_with_the_last_one() {
        assert_eq!(ranks_to(1), [1]);
        assert_eq!(ranks_to(20), [1, 2, 5, 10, 20]);
        assert_eq!(ranks_to(37), [1, 2, 5, 10, 20, 37]);
    }

    #[test]
    fn streams_follow_their_laws_and_logs_are_shown_as_they_are() {
        // Of ten keys, the key of rank r occurs 2520/r times, each time from a different client.
        let keys = (1..=10u64).flat_map(|rank| vec![rank; 2520 / rank as usize]).collect();
        let log = Log { name: "harmonic".to_owned(), keys, clients: (0..7381).collect() };
        let run = Run { logs: &[log], ..Run::alone(22, 4, Scale::Tiny) };
        let document = EXPERIMENT.run(&run).unwrap();
        assert_eq!(document.count(Judged::Out), 0, "{document:#?}");
        let shown = &document.panels[2];
        assert!(shown.title.contains("harmonic") && shown.lines[0].name.ends_with("s = 1.00"), "{:?}", shown.lines);
        let shares: Vec<f64> = shown.series[0].points.iter().map(|point| point.mean * 7381.0).collect();
        assert!(shares.iter().zip([2520.0, 1260.0, 504.0, 252.0]).all(|(one, other)| (one - other).abs() < 1e-9));
        // Each of many clients sends one event. The leaves of the log are nearly equal, and those of the tree are not.
        let [tree, log] = [0, 1].map(|series| &document.panels[3].series[series].points);
        assert!((log.iter().map(|point| point.mean).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(log[0].mean < 1.2 / 24.0 && tree[0].mean > tree[23].mean, "{tree:?} {log:?}");
    }
}
