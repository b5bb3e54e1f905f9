//! `firstseen-lab bench tree` measures a filter over three sites that are far from each other, as a flat filter and as
//! a tree.
//!
//! The benchmark of filter trees compares three designs: a flat filter, which is not a tree, a tree whose leaves
//! remember only new events, and a tree whose leaves remember all events. The designs are measured alternately, each
//! time with a new filter.
//!
//! The measurement fails in two cases: if an event does not get a definite verdict, or if an event that is sent again
//! is not reported as a duplicate.

mod figures;
mod sites;
mod stream;
mod wan;

use std::time::Duration;

use clap::{Args, value_parser};
use hdrhistogram::Histogram;

use super::figures::Measured;
use figures::{Design, DesignFigures, Found, LinkFigures, TreeFigures};
use sites::Sites;
use stream::Latencies;
use wan::Traffic;

/// Designs that are compared, with the flags of `firstseen filter create` for each, apart from the slicing.
const DESIGNS: [(Design, &[&str]); 3] =
    [(Design::Flat, &[]), (Design::Sparse, &["--tree", "sparse"]), (Design::Dense, &["--tree", "dense"])];
/// Places in which the event of a measured call can be found. A new event is found nowhere. A repeated event is found
/// in the flat filter, or at the root or a leaf of a tree. The latency of a call depends on this place, so latencies
/// are reported separately for each place.
const FOUND: [Found; 4] = [Found::New, Found::Flat, Found::Root, Found::Leaf];

/// All runs of one design.
struct Bench {
    design: Design,
    flags: &'static [&'static str],
    /// Latencies in the order of [`FOUND`].
    latencies_us: [Histogram<u64>; FOUND.len()],
    events_per_s: Vec<f64>,
    traffic: Traffic,
}

/// Flags of `firstseen-lab bench tree`.
#[derive(Debug, Args)]
pub struct TreeArgs {
    /// Events of one measurement over all sites; the filter has capacity for as many
    #[arg(long, value_name = "N", default_value_t = 600_000, value_parser = value_parser!(u64).range(10_000..))]
    events: u64,
    /// Slicing of the flat filter and of the roots of the trees
    #[arg(long, value_name = "SLICING", default_value = "horizontal:3")]
    slicing: String,
    /// Time from one site to another, one way, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 25, value_parser = value_parser!(u64).range(0..=1000))]
    delay_ms: u64,
    /// Measurements of each result; the median is printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=99))]
    runs: u32,
}

pub(super) fn measure(args: &TreeArgs) -> anyhow::Result<TreeFigures> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let sites = Sites::start(Duration::from_millis(args.delay_ms)).await?;
        let measured = at_sites(&sites, args).await;
        sites.end().await;
        measured
    })
}

async fn at_sites(sites: &Sites, args: &TreeArgs) -> anyhow::Result<TreeFigures> {
    let mut benches = Vec::new();
    for (design, flags) in DESIGNS {
        let latencies_us = [Histogram::new(3)?, Histogram::new(3)?, Histogram::new(3)?, Histogram::new(3)?];
        benches.push(Bench { design, flags, latencies_us, events_per_s: Vec::new(), traffic: Traffic::default() });
    }
    for number in 0..args.runs {
        for bench in &mut benches {
            bench.run(sites, args, u64::from(number)).await?;
        }
    }
    let flat = Measured::of(benches[0].events_per_s.clone()).median;
    let events = args.events * u64::from(args.runs);
    Ok(TreeFigures {
        slicing: args.slicing.clone(),
        delay_ms: args.delay_ms,
        events: args.events,
        runs: args.runs,
        local_share: stream::LOCAL_SHARE,
        designs: benches.into_iter().map(|bench| bench.figures(flat, events)).collect(),
    })
}

impl Bench {
    async fn run(&mut self, sites: &Sites, args: &TreeArgs, number: u64) -> anyhow::Result<()> {
        // The capacity includes the calls that are measured one by one.
        let capacity = (args.events + stream::LATENCY_EVENTS).to_string();
        let definition = ["--window", "1h", "--clock", "wall", "--capacity", &capacity, "--slicing", &args.slicing];
        sites.filter(&[&["create", "bench"], &definition[..], self.flags].concat()).await?;
        let latencies = stream::latencies(sites, number).await?;
        self.add(&latencies)?;
        let before = sites.traffic();
        self.events_per_s.push(stream::events_per_s(sites, args.events, number).await?);
        self.traffic.add(&sites.traffic().since(&before));
        sites.filter(&["drop", "bench", "--yes"]).await
    }

    fn add(&mut self, latencies: &Latencies) -> anyhow::Result<()> {
        for (found, latency) in latencies {
            if let Some(place) = FOUND.iter().position(|known| known == found) {
                self.latencies_us[place].record(u64::try_from(latency.as_micros())?)?;
            }
        }
        Ok(())
    }

    fn figures(self, flat_events_per_s: f64, events: u64) -> DesignFigures {
        let repeats: u64 = FOUND
            .iter()
            .zip(&self.latencies_us)
            .filter(|(found, _)| **found != Found::New)
            .map(|(_, all)| all.len())
            .sum();
        let events_per_s = Measured::of(self.events_per_s);
        let latencies = FOUND.into_iter().zip(&self.latencies_us).filter(|(_, all)| !all.is_empty());
        let links = sites::pairs().map(|(one, other)| {
            let (bytes, messages) = self.traffic.between(one, other);
            LinkFigures {
                between: [wan::NAMES[one], wan::NAMES[other]],
                bytes_per_event: bytes as f64 / events as f64,
                messages_per_1000_events: 1e3 * messages as f64 / events as f64,
            }
        });
        DesignFigures {
            design: self.design,
            latencies: latencies.map(|(found, all)| found.latency(all, repeats)).collect(),
            ratio_to_flat: events_per_s.median / flat_events_per_s,
            events_per_s,
            links: links.collect(),
        }
    }
}
