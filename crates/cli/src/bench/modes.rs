//! `firstseen bench durability` and `firstseen bench copies`: what a filter costs that survives failures.
//!
//! Promises: modes are measured in turns, in one run, on the disk of the folder for temporary files. Must not know: how a
//! journal is written, how copies are kept.

use std::io::{self, Write};

use firstseen_client::Client;
use serde::Serialize;
use tokio::runtime::Runtime;

use super::ModesBenchArgs;
use super::figures::Measured;
use super::flow::{Expected, WINDOW_MS, events_per_s};
use super::keys::Keys;
use super::local::LocalCluster;

/// One mode; it is compared with the first mode of the list that it names.
struct Mode {
    name: &'static str,
    /// The flags that make its filter.
    flags: &'static [&'static str],
    /// The index of the mode that it is compared with.
    base: usize,
}

/// The modes that are compared, and over how many nodes.
pub(super) struct Modes {
    nodes: u32,
    modes: &'static [Mode],
}

/// What a journal costs.
pub(super) const DURABILITY: Modes = Modes {
    nodes: 1,
    modes: &[
        Mode { name: "memory", flags: &["--durability", "memory"], base: 0 },
        Mode { name: "1s", flags: &["--durability", "1s"], base: 0 },
        Mode { name: "durable", flags: &["--durability", "durable"], base: 0 },
    ],
};

/// What further copies cost, by slicing.
pub(super) const COPIES: Modes = Modes {
    nodes: 3,
    modes: &[
        Mode { name: "horizontal:3", flags: &["--slicing", "horizontal:3"], base: 0 },
        Mode { name: "horizontal:3, 1 copy", flags: &["--slicing", "horizontal:3", "--copies", "1"], base: 0 },
        Mode { name: "vertical:3", flags: &["--slicing", "vertical:3"], base: 2 },
        Mode { name: "vertical:3, safe", flags: &["--slicing", "vertical:3", "--answer", "safe"], base: 2 },
        Mode { name: "vertical:3, 1 copy", flags: &["--slicing", "vertical:3", "--copies", "1"], base: 2 },
    ],
};

/// One mode.
#[derive(Debug, Serialize)]
struct ModeFigures {
    mode: &'static str,
    events_per_s: Measured,
    /// The rate as a share of the rate of the mode that it is compared with.
    of_base: f64,
    base: &'static str,
}

/// Everything that is printed.
#[derive(Debug, Serialize)]
struct Figures {
    events: u64,
    batch_events: u32,
    nodes: u32,
    modes: Vec<ModeFigures>,
}

pub(super) fn run(args: &ModesBenchArgs, Modes { nodes, modes }: &Modes) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let cluster = LocalCluster::start(*nodes, false)?;
    let mut values: Vec<Vec<f64>> = modes.iter().map(|_| Vec::new()).collect();
    for number in 0..args.runs {
        for (mode, values) in modes.iter().zip(&mut values) {
            values.push(measure(&cluster, &runtime, args, mode.flags, u64::from(number))?);
        }
    }
    let measured: Vec<Measured> = values.into_iter().map(Measured::of).collect();
    let figures = modes.iter().zip(&measured).map(|(mode, events_per_s)| ModeFigures {
        mode: mode.name,
        events_per_s: events_per_s.clone(),
        of_base: events_per_s.median / measured[mode.base].median,
        base: modes[mode.base].name,
    });
    let figures = Figures { events: args.events, batch_events: args.batch, nodes: *nodes, modes: figures.collect() };
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &figures)?
    } else {
        figures.print(&mut out)?
    }
    Ok(())
}

/// Measures one mode with a new filter, and drops the filter.
fn measure(
    cluster: &LocalCluster,
    runtime: &Runtime,
    args: &ModesBenchArgs,
    flags: &[&str],
    number: u64,
) -> anyhow::Result<f64> {
    let (capacity, window) = (args.events.to_string(), format!("{}s", WINDOW_MS / 1000));
    let definition = ["--kind", "generations", "--window", &window, "--capacity", &capacity];
    cluster.filter(&[&["create", "bench"], &definition[..], flags].concat())?;
    let measured = runtime.block_on(async {
        let client = Client::builder().seeds(cluster.addresses()).batch_events_max(args.batch).connect().await?;
        events_per_s(&client.filter("bench").await?, Keys::new(number, args.events), args.batch, Expected::New).await
    });
    cluster.filter(&["drop", "bench", "--yes"])?;
    measured
}

impl Figures {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { events, batch_events, nodes, modes } = self;
        writeln!(out, "{events} events, batches of {batch_events}, nodes: {nodes}, medians (least to greatest)")?;
        for ModeFigures { mode, events_per_s: Measured { median, least, greatest }, of_base, base } in modes {
            let [median, least, greatest] = [median, least, greatest].map(|per_s| per_s / 1e6);
            writeln!(
                out,
                "  {mode:<21} {median:>7.2} M events/s ({least:.2} to {greatest:.2}), {of_base:.2} of {base}"
            )?;
        }
        Ok(())
    }
}
