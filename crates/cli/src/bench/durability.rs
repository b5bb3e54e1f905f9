//! `firstseen bench durability`: what it costs that a filter survives.
//!
//! Promises: modes are measured in turns, in one run, on the disk of the folder for temporary files. Must not know: how a
//! journal is written.

use std::io::{self, Write};

use firstseen_client::Client;
use serde::Serialize;
use tokio::runtime::Runtime;

use super::DurabilityBenchArgs;
use super::figures::Measured;
use super::flow::{WINDOW_MS, events_per_s};
use super::keys::Keys;
use super::local::LocalCluster;

/// What is compared; the first is what the others are measured by.
const MODES: [&str; 3] = ["memory", "1s", "durable"];

/// One mode of durability.
#[derive(Debug, Serialize)]
struct ModeFigures {
    durability: &'static str,
    events_per_s: Measured,
    of_memory: f64,
}

/// Everything that is printed.
#[derive(Debug, Serialize)]
struct Figures {
    events: u64,
    batch_events: u32,
    modes: Vec<ModeFigures>,
}

pub(super) fn run(args: &DurabilityBenchArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let cluster = LocalCluster::start(1, false)?;
    let mut values = MODES.map(|_| Vec::new());
    for number in 0..args.runs {
        for (mode, values) in MODES.iter().zip(&mut values) {
            values.push(measure(&cluster, &runtime, args, mode, u64::from(number))?);
        }
    }
    let measured = values.map(Measured::of);
    let memory = measured[0].median;
    let modes = MODES.iter().zip(measured).map(|(durability, events_per_s)| ModeFigures {
        durability,
        of_memory: events_per_s.median / memory,
        events_per_s,
    });
    let figures = Figures { events: args.events, batch_events: args.batch, modes: modes.collect() };
    let mut out = io::stdout().lock();
    match args.json {
        true => serde_json::to_writer_pretty(&mut out, &figures)?,
        false => figures.print(&mut out)?,
    }
    Ok(())
}

/// With a new filter, which is dropped.
fn measure(
    cluster: &LocalCluster,
    runtime: &Runtime,
    args: &DurabilityBenchArgs,
    mode: &str,
    number: u64,
) -> anyhow::Result<f64> {
    let (capacity, window) = (args.events.to_string(), format!("{}s", WINDOW_MS / 1000));
    let definition = ["--kind", "generations", "--window", &window, "--capacity", &capacity, "--durability", mode];
    cluster.filter(&[&["create", "bench"], &definition[..]].concat())?;
    let measured = runtime.block_on(async {
        let client = Client::builder().seeds(cluster.addresses()).batch_events_max(args.batch).connect().await?;
        events_per_s(&client.filter("bench").await?, Keys::new(number, args.events), args.batch).await
    });
    cluster.filter(&["drop", "bench"])?;
    measured
}

impl Figures {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "{} events, batches of {}, one node, medians (least to greatest)",
            self.events, self.batch_events
        )?;
        for ModeFigures { durability, events_per_s: Measured { median, least, greatest }, of_memory } in &self.modes {
            let millions = |per_s: &f64| per_s / 1e6;
            writeln!(
                out,
                "  {durability:<8} {:>7.2} M events/s ({:.2} to {:.2}), {of_memory:.2} of memory",
                millions(median),
                millions(least),
                millions(greatest),
            )?;
        }
        Ok(())
    }
}
