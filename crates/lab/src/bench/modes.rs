//! Two benchmarks that measure the cost of surviving failures. `firstseen-lab bench durability` compares filters with
//! and without a journal, and `firstseen-lab bench copies` compares filters with and without additional copies.
//!
//! The filters are measured alternately in one run. Journals are written to the folder for temporary files, so the
//! results depend on the disk of that folder.

use std::io::{self, Write};

use clap::Args;
use firstseen_cli::flags::filter::KindArg;
use firstseen_filter::{Ability, Kind};
use serde::Serialize;

use super::figures::{Measured, of_first};
use super::flow::{Expected, FlowOperation, events_per_s};
use super::keys::Keys;
use super::local::{LocalCluster, NewFilter};
use super::{Figures, PageTable, Size};

/// Flags of `firstseen-lab bench durability` and `firstseen-lab bench copies`.
#[derive(Debug, Args)]
pub struct ModesArgs {
    #[command(flatten)]
    size: Size,
    /// Kind of filter to measure; may be given several times, and rates are compared with those of the first kind
    #[arg(long, value_name = "KIND", value_enum, default_value = "generations")]
    kind: Vec<KindArg>,
}

/// Mode of a filter, which is compared with another mode.
struct Mode {
    name: &'static str,
    /// Flags that create the filter.
    flags: &'static [&'static str],
    /// Index of the mode that this mode is compared with.
    base: usize,
    /// Whether the positions of one event are spread over several slices. Not every kind supports that.
    divides: bool,
}

/// Modes that are compared, and the number of nodes.
pub(super) struct Modes {
    /// Name of the table on the page.
    table: &'static str,
    nodes: u32,
    modes: &'static [Mode],
}

/// Modes that show the cost of a journal.
pub(super) const DURABILITY: Modes = Modes {
    table: "durability",
    nodes: 1,
    modes: &[
        whole("memory", &["--durability", "memory"]),
        whole("1s", &["--durability", "1s"]),
        whole("durable", &["--durability", "durable"]),
    ],
};

/// Modes that show the cost of further copies for different slicings.
pub(super) const COPIES: Modes = Modes {
    table: "copies",
    nodes: 3,
    modes: &[
        whole("horizontal:3", &["--slicing", "horizontal:3"]),
        whole("horizontal:3, 1 copy", &["--slicing", "horizontal:3", "--copies", "1"]),
        divided("vertical:3", &["--slicing", "vertical:3"]),
        divided("vertical:3, safe", &["--slicing", "vertical:3", "--answer", "safe"]),
        divided("vertical:3, 1 copy", &["--slicing", "vertical:3", "--copies", "1"]),
    ],
};

/// Returns a mode in which one slice holds all positions of an event. It is compared with the first mode.
const fn whole(name: &'static str, flags: &'static [&'static str]) -> Mode {
    Mode { name, flags, base: 0, divides: false }
}

/// Returns a mode of the benchmark [`COPIES`] in which the positions of an event are spread over several slices.
///
/// The results of this mode are compared with those of the mode `vertical:3`, which is called its base. The base also
/// spreads the positions over several slices. It differs in two points: it has no additional copies, and it does not
/// wait for the replies of all slices.
const fn divided(name: &'static str, flags: &'static [&'static str]) -> Mode {
    Mode { name, flags, base: 2, divides: true }
}

/// Results of one mode with filters of one kind.
#[derive(Debug, Serialize)]
struct ModeFigures {
    mode: &'static str,
    kind: Kind,
    events_per_s: Measured,
    /// Rate as a share of the rate of the mode that this mode is compared with, for the same kind.
    of_base: f64,
    base: &'static str,
    /// First kind that was measured. The next field is its rate in this mode.
    first_kind: Kind,
    first_per_s: f64,
}

/// All results of the benchmark.
#[derive(Debug, Serialize)]
pub(super) struct ModesFigures {
    #[serde(skip)]
    table: &'static str,
    events: u64,
    batch_events: u32,
    nodes: u32,
    modes: Vec<ModeFigures>,
}

pub(super) fn measure(args: &ModesArgs, Modes { table, nodes, modes }: &Modes) -> anyhow::Result<ModesFigures> {
    let size = args.size;
    let cluster = LocalCluster::start(*nodes, false)?;
    let mut runs: Vec<Runs> = modes.iter().flat_map(|mode| Runs::of_kinds(mode, &args.kind)).collect();
    for number in 0..size.runs {
        for Runs { mode, kind, values } in &mut runs {
            values.push(rate(&cluster, size, mode, *kind, u64::from(number))?);
        }
    }
    let figures = runs.iter().map(|of| {
        let base = modes[of.mode.base].name;
        let events_per_s = Measured::of(of.values.clone());
        let base_of_kind = runs.iter().find(|other| other.mode.name == base && other.kind == of.kind);
        let first_kind = runs.iter().find(|other| other.mode.name == of.mode.name);
        ModeFigures {
            mode: of.mode.name,
            kind: of.kind,
            of_base: events_per_s.median / base_of_kind.map_or(f64::NAN, Runs::median),
            base,
            first_kind: first_kind.map_or(of.kind, |first| first.kind),
            first_per_s: first_kind.map_or(f64::NAN, Runs::median),
            events_per_s,
        }
    });
    let modes = figures.collect();
    Ok(ModesFigures { table, events: size.events, batch_events: size.batch, nodes: *nodes, modes })
}

/// Measurements of one mode and kind.
struct Runs<'a> {
    mode: &'a Mode,
    kind: Kind,
    values: Vec<f64>,
}

impl<'a> Runs<'a> {
    /// Returns empty measurements of a mode for those kinds that support the mode.
    fn of_kinds(mode: &'a Mode, kinds: &'a [KindArg]) -> impl Iterator<Item = Self> {
        let kinds = kinds.iter().map(|kind| Kind::from(*kind));
        kinds.filter(move |kind| !mode.divides || kind.can(Ability::Divide)).map(move |kind| Self {
            mode,
            kind,
            values: Vec::new(),
        })
    }

    fn median(&self) -> f64 {
        Measured::of(self.values.clone()).median
    }
}

/// Measures the events per second of one mode, with a new filter of this kind.
fn rate(cluster: &LocalCluster, size: Size, mode: &Mode, kind: Kind, number: u64) -> anyhow::Result<f64> {
    let kind = kind.to_string();
    let flags = [&["--kind", kind.as_str()], mode.flags].concat();
    cluster.with_client(NewFilter::bench(size.events, &flags), size.batch, async |filter| {
        events_per_s(filter, Keys::new(number, size.events), size.batch, Expected::New, FlowOperation::Observe).await
    })
}

impl Figures for ModesFigures {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { events, batch_events, nodes, modes, .. } = self;
        writeln!(out, "{events} events, batches of {batch_events}, nodes: {nodes}, medians (least to greatest)")?;
        for ModeFigures { mode, kind, events_per_s, of_base, base, first_kind, first_per_s } in modes {
            let of_first = of_first(*kind, events_per_s.median, *first_kind, *first_per_s);
            let rate = events_per_s.wide_millions();
            writeln!(out, "  {mode:<21} {rate}, {of_base:.2} of {base}, {of_first}")?;
        }
        Ok(())
    }

    fn tables(&self) -> Vec<PageTable> {
        let first_kind = self.modes.iter().filter(|figures| figures.kind == figures.first_kind);
        let rows = first_kind.map(|figures| {
            let of_base = format!("{:.2}", figures.of_base);
            vec![format!("`{}`", figures.mode), figures.events_per_s.in_table(), of_base]
        });
        vec![PageTable::new(self.table, &["", "M events/s", "of the first"], rows)]
    }
}
