//! Results of the benchmark of filter trees, and their output. Ratios are computed from medians of the same run.

use std::io::{self, Write};

use firstseen_cli::text::table::Table;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::super::figures::Measured;
use super::super::open_loop::quantile_ms;
use super::super::{Figures, PageTable};

/// Design of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Design {
    /// Slices at all sites, without levels.
    Flat,
    /// A tree with a leaf at each site, which remembers the events that were new.
    Sparse,
    /// A tree with a leaf at each site, which remembers every event that it has asked the root about.
    Dense,
}

/// Result for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Found {
    /// The event is not a repeat.
    New,
    /// The event is a repeat, and was found by a filter without levels.
    Flat,
    /// The event is a repeat, and was found at the root.
    Root,
    /// The event is a repeat, and was found at the leaf.
    Leaf,
}

/// Latencies of the calls whose events were found in the same place.
#[derive(Debug, Serialize)]
pub(super) struct FoundFigures {
    pub(super) found: Found,
    /// Share of the repeats that were found in this place. `None` for new events.
    pub(super) share: Option<f64>,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

impl Found {
    /// Returns the latencies of the calls whose events were found here, and their share of `repeats` repeats.
    pub(super) fn latency(self, latencies_us: &Histogram<u64>, repeats: u64) -> FoundFigures {
        let p50_ms = quantile_ms(latencies_us, 0.5);
        let p99_ms = quantile_ms(latencies_us, 0.99);
        let share = (self != Self::New).then(|| latencies_us.len() as f64 / repeats as f64);
        FoundFigures { found: self, share, p50_ms, p99_ms }
    }

    fn name(self) -> &'static str {
        match self {
            Self::New => "new events",
            Self::Flat => "repeats",
            Self::Root => "repeats found at the root",
            Self::Leaf => "repeats found at the leaf",
        }
    }
}

/// Traffic between two sites in both directions. It includes everything else that a cluster sends.
#[derive(Debug, Serialize)]
pub(super) struct LinkFigures {
    pub(super) between: [&'static str; 2],
    /// Bytes per event. The events of all sites count, regardless of the site that received them.
    pub(super) bytes_per_event: f64,
    pub(super) messages_per_1000_events: f64,
}

/// Results of one design.
#[derive(Debug, Serialize)]
pub(super) struct DesignFigures {
    pub(super) design: Design,
    pub(super) latencies: Vec<FoundFigures>,
    pub(super) events_per_s: Measured,
    pub(super) ratio_to_flat: f64,
    pub(super) links: Vec<LinkFigures>,
}

/// All results of the benchmark.
#[derive(Debug, Serialize)]
pub(in super::super) struct TreeFigures {
    /// Slicing of the flat filter and of the trees' roots.
    pub(super) slicing: String,
    pub(super) delay_ms: u64,
    pub(super) events: u64,
    pub(super) runs: u32,
    pub(super) local_share: f64,
    pub(super) designs: Vec<DesignFigures>,
}

impl Design {
    fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Sparse => "sparse tree",
            Self::Dense => "dense tree",
        }
    }
}

impl Figures for TreeFigures {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { slicing, delay_ms, events, runs, local_share, designs } = self;
        writeln!(
            out,
            "three sites, {delay_ms} ms apart one way, filters {slicing}; {events} events, half of them repeats, {:.0} % of these at their \
             own site; {runs} runs, medians (least to greatest)",
            100.0 * local_share
        )?;
        let mut latencies = Table::new(&["single calls", "", "share of repeats", "p50", "p99"]);
        let mut streams = Table::new(&["batches", "events/s", "", "of flat"]);
        let mut links = Table::new(&["between", "", "bytes an event", "messages per 1,000 events"]);
        for design in designs {
            let name = design.design.name();
            for FoundFigures { found, share, p50_ms, p99_ms } in &design.latencies {
                latencies.row([
                    name.to_owned(),
                    found.name().to_owned(),
                    share.map_or_else(String::new, |share| format!("{:.1} %", 100.0 * share)),
                    format!("{p50_ms:.2} ms"),
                    format!("{p99_ms:.2} ms"),
                ]);
            }
            let Measured { median, least, greatest } = design.events_per_s;
            let range = format!("({least:.0} to {greatest:.0})");
            streams.row([name.to_owned(), format!("{median:.0}"), range, format!("{:.2}", design.ratio_to_flat)]);
            for LinkFigures { between: [one, other], bytes_per_event, messages_per_1000_events } in &design.links {
                links.row([
                    name.to_owned(),
                    format!("{one} and {other}"),
                    format!("{bytes_per_event:.2}"),
                    format!("{messages_per_1000_events:.2}"),
                ]);
            }
        }
        write!(out, "{}\n{}\n{}", latencies.text(), streams.text(), links.text())
    }

    fn tables(&self) -> Vec<PageTable> {
        let mut calls = Vec::new();
        for design in &self.designs {
            calls.extend(design.latencies.iter().map(|found| {
                let name = format!("{}, {}", design.design.name(), found.found.name());
                let share = found.share.map_or_else(String::new, |share| format!("{:.0} %", 100.0 * share));
                vec![name, share, format!("{:.2} ms", found.p50_ms), format!("{:.2} ms", found.p99_ms)]
            }));
        }
        let batches = self.designs.iter().map(|design| {
            let links = design.links.len() as f64;
            let bytes: f64 = design.links.iter().map(|link| link.bytes_per_event).sum();
            let messages: f64 = design.links.iter().map(|link| link.messages_per_1000_events).sum();
            vec![
                design.design.name().to_owned(),
                design.events_per_s.rounded(),
                format!("{:.2}", design.ratio_to_flat),
                format!("{:.1}", bytes / links),
                format!("{:.2}", messages / links),
            ]
        });
        vec![
            PageTable::new("tree-calls", &["single calls", "share of repeats", "p50", "p99"], calls),
            PageTable::new("tree-batches", &BATCHES, batches),
        ]
    }
}

/// Heading of the table of batches in docs/reference/performance.md.
const BATCHES: [&str; 5] =
    ["batches", "events/s", "of flat", "bytes an event, each of three links", "messages per 1,000 events, each link"];
