//! `firstseen-lab bench durability` and `firstseen-lab bench copies`: what a filter costs that survives failures.
//!
//! Promises: modes are measured in turns, in one run, on the disk of the folder for temporary files. Must not know: how a
//! journal is written, how copies are kept.

use std::io::{self, Write};

use firstseen_client::{Client, ConnectOptions};
use firstseen_filter::{Ability, Kind};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::ModesBenchArgs;
use super::figures::{Measured, of_first};
use super::flow::{Asks, Expected, WINDOW_MS, events_per_s};
use super::keys::Keys;
use super::local::LocalCluster;
use firstseen_cli::flags::filter::KindArg;

/// One mode; it is compared with the first mode of the list that it names.
struct Mode {
    name: &'static str,
    /// The flags that make its filter.
    flags: &'static [&'static str],
    /// The index of the mode that it is compared with.
    base: usize,
    /// Whether positions of one event lie in several slices, which not every kind can do.
    divides: bool,
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
        whole("memory", &["--durability", "memory"]),
        whole("1s", &["--durability", "1s"]),
        whole("durable", &["--durability", "durable"]),
    ],
};

/// What further copies cost, by slicing.
pub(super) const COPIES: Modes = Modes {
    nodes: 3,
    modes: &[
        whole("horizontal:3", &["--slicing", "horizontal:3"]),
        whole("horizontal:3, 1 copy", &["--slicing", "horizontal:3", "--copies", "1"]),
        divided("vertical:3", &["--slicing", "vertical:3"]),
        divided("vertical:3, safe", &["--slicing", "vertical:3", "--answer", "safe"]),
        divided("vertical:3, 1 copy", &["--slicing", "vertical:3", "--copies", "1"]),
    ],
};

/// A mode in which an event has one slice; it is compared with the first mode.
const fn whole(name: &'static str, flags: &'static [&'static str]) -> Mode {
    Mode { name, flags, base: 0, divides: false }
}

/// A mode of [`COPIES`] in which an event has several slices; it is compared with the first of these.
const fn divided(name: &'static str, flags: &'static [&'static str]) -> Mode {
    Mode { name, flags, base: 2, divides: true }
}

/// One mode with filters of one kind.
#[derive(Debug, Serialize)]
struct ModeFigures {
    mode: &'static str,
    kind: Kind,
    events_per_s: Measured,
    /// The rate as a share of the rate of the mode that it is compared with, of the same kind.
    of_base: f64,
    base: &'static str,
    /// The first kind that was measured, and its rate in this mode.
    first_kind: Kind,
    first_per_s: f64,
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
    let mut runs: Vec<Runs> = modes.iter().flat_map(|mode| Runs::of_kinds(mode, &args.kind)).collect();
    for number in 0..args.runs {
        for Runs { mode, kind, values } in &mut runs {
            values.push(measure(&cluster, &runtime, args, (mode, *kind), u64::from(number))?);
        }
    }
    let figures = runs.iter().map(|Runs { mode, kind, values }| {
        let (events_per_s, base) = (Measured::of(values.clone()), modes[mode.base].name);
        let base_of_kind = runs.iter().find(|runs| runs.mode.name == base && runs.kind == *kind);
        let first_kind = runs.iter().find(|runs| runs.mode.name == mode.name);
        let median_of = |runs: Option<&Runs>| runs.map_or(f64::NAN, |runs| Measured::of(runs.values.clone()).median);
        ModeFigures {
            mode: mode.name,
            kind: *kind,
            of_base: events_per_s.median / median_of(base_of_kind),
            base,
            first_kind: first_kind.map_or(*kind, |runs| runs.kind),
            first_per_s: median_of(first_kind),
            events_per_s,
        }
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

/// The measurements of one mode and kind.
struct Runs<'a> {
    mode: &'a Mode,
    kind: Kind,
    values: Vec<f64>,
}

impl<'a> Runs<'a> {
    /// Of those kinds for which there is the mode.
    fn of_kinds(mode: &'a Mode, kinds: &'a [KindArg]) -> impl Iterator<Item = Self> {
        let kinds = kinds.iter().map(|kind| Kind::from(*kind));
        kinds.filter(move |kind| !mode.divides || kind.can(Ability::Divide)).map(move |kind| Self {
            mode,
            kind,
            values: Vec::new(),
        })
    }
}

/// Measures one mode with a new filter of a kind, and drops the filter.
fn measure(
    cluster: &LocalCluster,
    runtime: &Runtime,
    args: &ModesBenchArgs,
    (mode, kind): (&Mode, Kind),
    number: u64,
) -> anyhow::Result<f64> {
    let (kind, capacity, window) = (kind.to_string(), args.events.to_string(), format!("{}s", WINDOW_MS / 1000));
    let definition = ["--kind", &kind, "--window", &window, "--capacity", &capacity];
    cluster.filter(&[&["create", "bench"], &definition[..], mode.flags].concat())?;
    let measured = runtime.block_on(async {
        let client = Client::connect(ConnectOptions {
            batch_events_max: args.batch,
            ..ConnectOptions::from(cluster.addresses())
        })
        .await?;
        events_per_s(
            &client.filter("bench").await?,
            Keys::new(number, args.events),
            args.batch,
            Expected::New,
            Asks::Observe,
        )
        .await
    });
    cluster.filter(&["drop", "bench", "--yes"])?;
    measured
}

impl Figures {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { events, batch_events, nodes, modes } = self;
        writeln!(out, "{events} events, batches of {batch_events}, nodes: {nodes}, medians (least to greatest)")?;
        for ModeFigures { mode, kind, events_per_s, of_base, base, first_kind, first_per_s } in modes {
            let of_first = of_first(*kind, events_per_s.median, *first_kind, *first_per_s);
            let Measured { median, least, greatest } = events_per_s;
            let [median, least, greatest] = [median, least, greatest].map(|per_s| per_s / 1e6);
            writeln!(
                out,
                "  {mode:<21} {median:>7.2} M events/s ({least:.2} to {greatest:.2}), {of_base:.2} of {base}, {of_first}"
            )?;
        }
        Ok(())
    }
}
