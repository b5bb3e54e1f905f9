//! Results of benchmarks, and their output. Ratios are computed from medians of the same run.

use std::io::{self, Write};

use firstseen_cli::text::numbers::grouped;
use firstseen_filter::Kind;
use serde::Serialize;

use super::open_loop::Latency;
use super::{Figures, PageTable};

/// Results of repeated measurements of one quantity.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Measured {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) greatest: f64,
}

impl Measured {
    pub(super) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let [least, .., greatest] = values[..] else {
            let only = values.first().copied().unwrap_or_default();
            return Self { median: only, least: only, greatest: only };
        };
        Self { median: values[values.len() / 2], least, greatest }
    }

    /// Formats rates of events as text that is aligned in a column.
    pub(super) fn wide_millions(&self) -> String {
        let [median, least, greatest] = [self.median, self.least, self.greatest].map(|rate| rate / 1e6);
        format!("{median:>7.2} M events/s ({least:.2} to {greatest:.2})")
    }

    /// Formats rates of events as text.
    pub(super) fn millions(&self) -> String {
        self.wide_millions().trim_start().to_owned()
    }

    /// Formats the median of rates of events for a column in millions.
    pub(super) fn in_table(&self) -> String {
        format!("{:.2}", self.median / 1e6)
    }

    /// Formats the values as integers.
    pub(super) fn rounded(&self) -> String {
        let Self { median, least, greatest } = self;
        format!("{median:.0} ({least:.0} to {greatest:.0})")
    }

    /// Formats rates of calls as text.
    pub(super) fn thousands(&self) -> String {
        let [median, least, greatest] = [self.median, self.least, self.greatest].map(|rate| rate / 1e3);
        format!("{median:.1} k calls/s ({least:.1} to {greatest:.1})")
    }
}

/// Results of a client with a cluster of a given size.
#[derive(Debug, Serialize)]
pub(super) struct Side {
    pub(super) kind: Kind,
    pub(super) nodes: u32,
    pub(super) tls: bool,
    pub(super) events_per_s: Measured,
    pub(super) single_calls_per_s: Option<f64>,
    /// Latencies of single calls at each rate.
    pub(super) latencies: Vec<Latency>,
}

/// Results of `bench cluster`.
#[derive(Debug, Serialize)]
pub(super) struct ClusterFigures {
    pub(super) events: u64,
    pub(super) batch_events: u32,
    pub(super) clusters: Vec<Side>,
    pub(super) redis: Option<RedisFigures>,
}

/// Results of Redis in the same run.
#[derive(Debug, Serialize)]
pub(super) struct RedisFigures {
    pub(super) events_per_s: Measured,
    /// Latencies of single calls over several connections at each rate.
    pub(super) latencies: Vec<Latency>,
}

impl Side {
    /// Describes the nodes in words.
    fn name(&self) -> String {
        let nodes = if self.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", self.nodes) };
        if self.tls { nodes + ", TLS" } else { nodes }
    }
}

impl Figures for ClusterFigures {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{} events, batches of {}, medians (least to greatest)", self.events, self.batch_events)?;
        for side in &self.clusters {
            let Measured { median, .. } = side.events_per_s;
            let one_node = self.clusters.iter().find(|other| other.kind == side.kind).unwrap_or(side);
            let of_one_node = median / one_node.events_per_s.median;
            let mut alike = self.clusters.iter().filter(|other| other.nodes == side.nodes && other.tls == side.tls);
            let first = alike.next().unwrap_or(side);
            let of_first = of_first(side.kind, median, first.kind, first.events_per_s.median);
            let rate = side.events_per_s.wide_millions();
            writeln!(out, "  {:<14} {rate}, {of_one_node:.2} of one node, {of_first}", side.name())?;
            if let Some(calls_per_s) = side.single_calls_per_s {
                writeln!(out, "  {:<14} {calls_per_s:>9.0} single calls/s, 64 in flight", "")?;
            }
            print_latencies(&side.latencies, out)?;
        }
        let Some(redis) = &self.redis else {
            return writeln!(out, "  redis          left out: no redis-server is installed, or --no-redis");
        };
        let one_node = self.clusters.first().map_or(f64::NAN, |side| side.events_per_s.median);
        let times = one_node / redis.events_per_s.median;
        let rate = redis.events_per_s.wide_millions();
        writeln!(out, "  {:<14} {rate}; one node does {times:.1} times as many", "redis")?;
        print_latencies(&redis.latencies, out)
    }

    fn tables(&self) -> Vec<PageTable> {
        let one_node = self.clusters.first().map_or(f64::NAN, |side| side.events_per_s.median);
        let redis = self.redis.as_ref();
        let sides = self.clusters.iter().map(|side| {
            let share = side.events_per_s.median / one_node;
            vec![side.name(), side.events_per_s.millions(), format!("{share:.2} of one node")]
        });
        let redis_rate = redis.map(|redis| {
            let times = one_node / redis.events_per_s.median;
            let compared = format!("one node does {times:.1} times as many");
            vec!["Redis".to_owned(), redis.events_per_s.millions(), compared]
        });
        let rates = PageTable::new("cluster", &["", "events a second", ""], sides.chain(redis_rate));
        let latencies = self.clusters.first().map_or(&[][..], |side| side.latencies.as_slice());
        let columns: Vec<String> = latencies.iter().map(|latency| grouped(latency.asked_per_s() as u64)).collect();
        let heading: Vec<&str> = ["calls a second"].into_iter().chain(columns.iter().map(String::as_str)).collect();
        let sides = self.clusters.iter().map(|side| (side.name(), &side.latencies));
        let sides = sides.chain(redis.map(|redis| ("Redis".to_owned(), &redis.latencies)));
        let calls = sides.map(|(name, latencies)| {
            [name].into_iter().chain(latencies.iter().map(Latency::in_table)).collect::<Vec<String>>()
        });
        vec![rates, PageTable::new("single-calls", &heading, calls)]
    }
}

/// Returns the name of the kind. If another kind was measured first, the rate as a share of that kind's rate is added.
pub(super) fn of_first(kind: Kind, per_s: f64, first: Kind, first_per_s: f64) -> String {
    if kind == first { kind.to_string() } else { format!("{kind}: {:.2} of {first}", per_s / first_per_s) }
}

fn print_latencies(latencies: &[Latency], out: &mut dyn Write) -> io::Result<()> {
    latencies.iter().try_for_each(|latency| writeln!(out, "  {:<14} at {latency}", ""))
}
