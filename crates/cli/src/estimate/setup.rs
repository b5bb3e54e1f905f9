//! From flags to a decaying filter, a clock, a parser and a state to go on from; everything that can be wrong is found
//! here, before any output is touched.

use std::io::{self, Read, Write};

use firstseen_filter::rates::plain;
use firstseen_filter::{
    CounterStorage, DecayRule, DecayingError, DecayingFilter, DecayingShape, FilterSecret, HASHES_MAX, Unit, Window,
    WindowClock, WindowRule,
};
use firstseen_records::RecordParser;
use serde::{Deserialize, Serialize};

use super::args::{DecayArgs, DecayRuleArg, EstimateArgs, StorageArg};
use crate::exit::UsageError;
use crate::size::Count;
use crate::state::{self, Definition, StateHeader};

/// No occurrence is too old to be counted: what is left of it only gets less.
const RULE: WindowRule = WindowRule { span_units: u64::MAX, lateness_units: 0 };

/// What a saved filter was built from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecayingDefinition {
    pub(super) shape: DecayingShape,
    pub(super) epoch: Window,
    future_max_ms: u64,
}

impl Definition for DecayingDefinition {
    fn describe(&self) -> String {
        let DecayingShape { cells, hashes, rule, storage } = self.shape;
        let rule = match rule {
            DecayRule::Literal { lambda } => format!("literal, lambda {lambda}"),
            DecayRule::Lasting { lambda, fraction_bits } => format!("lambda {lambda}, {fraction_bits} fractional bits"),
        };
        let storage = match storage {
            CounterStorage::Basic => "basic",
            CounterStorage::Extended { .. } => "extended",
        };
        format!("decaying, m {cells}, k {hashes}, {rule}, {storage} counters, epochs of {}", self.epoch)
    }
}

/// The filter and the clock that says in which epoch an event falls.
pub(super) struct Clocked {
    pub(super) filter: DecayingFilter,
    pub(super) clock: WindowClock,
}

impl Clocked {
    fn new(definition: &DecayingDefinition) -> anyhow::Result<Self> {
        let filter = DecayingFilter::new(definition.shape).map_err(|error| match error {
            DecayingError::Memory(_) => anyhow::Error::new(error),
            _ => UsageError(error.to_string()).into(),
        })?;
        let unit = unit(&definition.epoch)?;
        Ok(Self { filter, clock: WindowClock::new(unit, RULE, definition.future_max_ms) })
    }

    pub(super) fn write_body(&self, sink: &mut dyn Write) -> io::Result<()> {
        self.clock.write_body(sink)?;
        self.filter.write_body(sink)
    }

    fn read_body(&mut self, source: &mut dyn Read) -> io::Result<()> {
        self.clock.read_body(source)?;
        self.filter.read_body(source)
    }
}

/// What a run starts with.
pub(super) struct Setup {
    pub(super) clocked: Clocked,
    pub(super) parser: RecordParser,
    pub(super) header: StateHeader<DecayingDefinition>,
}

impl Setup {
    pub(super) fn new(args: &EstimateArgs) -> anyhow::Result<Self> {
        check(args)?;
        let saved = args.run.saved()?;
        let seed = state::seed(args.decay.seed, saved.as_ref());
        let definition = definition(&args.decay)?;
        let epochs = format!("--epoch {}", definition.epoch);
        let needs_time = unit(&definition.epoch)?.needs_time();
        let needs_time = needs_time.then_some((epochs.as_str(), "count in events (--epoch 1000000events)"));
        let parser = args.input.parser(needs_time, FilterSecret::from_seed(seed))?;
        let header = StateHeader { key: args.input.key_identity(), seed, definition };
        let mut clocked = Clocked::new(&header.definition)?;
        if let (Some(saved), Some(path)) = (saved, args.run.state.as_deref()) {
            saved.load(path, &header, |body| clocked.read_body(body))?;
        }
        Ok(Self { clocked, parser, header })
    }
}

fn check(args: &EstimateArgs) -> anyhow::Result<()> {
    let output = &args.output;
    let wrong = if args.input.source.is_some() {
        "--source counts duplicates, which `estimate` does not tell: to rank sources make them the --key"
    } else if output.min_estimate.is_some_and(|least| !least.is_finite() || least < 0.0) {
        "--min-estimate must be a number of occurrences, 0 or more"
    } else if output.min_estimate.is_some() && output.out.is_none() && output.writes_events_to_stdout() {
        "--min-estimate and --per-event - both write to standard output: give one of them a file (--out FILE)"
    } else {
        return Ok(());
    };
    Err(UsageError(wrong.to_owned()).into())
}

fn unit(epoch: &Window) -> anyhow::Result<Unit> {
    match *epoch {
        Window::Duration(ms) => Ok(Unit::Milliseconds(ms)),
        Window::Events(events) => Ok(Unit::Events(events)),
        _ => Err(UsageError(format!("an epoch cannot be {epoch}: write a duration (1h) or 1000000events")).into()),
    }
}

fn definition(args: &DecayArgs) -> anyhow::Result<DecayingDefinition> {
    let (cells, hashes) = size(args)?;
    let lambda = args.lambda;
    let rule = match args.rule {
        DecayRuleArg::Literal => DecayRule::Literal { lambda },
        DecayRuleArg::Lasting => DecayRule::Lasting { lambda, fraction_bits: args.fraction_bits },
    };
    let storage = match args.storage {
        StorageArg::Basic => CounterStorage::Basic,
        // C05 4: half as many extensions as cells.
        StorageArg::Extended => CounterStorage::Extended { extensions: u32::try_from(cells / 2).unwrap_or(u32::MAX) },
    };
    let shape = DecayingShape { cells, hashes, rule, storage };
    Ok(DecayingDefinition { shape, epoch: args.epoch.clone(), future_max_ms: args.future_max })
}

/// Cells and positions: a key never seen has an estimate above zero where all its cells are in use, so a plain filter's
/// formula gives the rate (C05 4.1).
fn size(args: &DecayArgs) -> anyhow::Result<(u64, u32)> {
    let Count(capacity) = args.capacity;
    let keys = capacity as f64;
    let sized = match (args.cells, args.hashes) {
        (Some(Count(cells)), hashes) => {
            let best = plain::best_hashes(cells as f64, keys).round().clamp(1.0, f64::from(HASHES_MAX)) as u32;
            return Ok((cells, hashes.unwrap_or(best)));
        }
        (None, Some(hashes)) => plain::size_with(keys, args.fpr, hashes),
        (None, None) => plain::size(keys, args.fpr),
    };
    let size = sized.map_err(|error| UsageError(error.to_string()))?;
    Ok((size.cells, size.hashes))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        decay: DecayArgs,
    }

    fn sized(flags: &str) -> anyhow::Result<(u64, u32)> {
        size(&Flags::parse_from(["estimate"].into_iter().chain(flags.split_whitespace())).decay)
    }

    #[test]
    fn sizes_follow_from_capacity_and_rate_or_are_given() {
        assert_eq!(sized("").unwrap(), (9_592_956, 7));
        assert_eq!(sized("--capacity 1000 --cells 9600").unwrap(), (9600, 7));
        assert_eq!(sized("--cells 5000 --hashes 3").unwrap(), (5000, 3));
        assert_eq!(sized("--capacity 1e6 --hashes 4").unwrap().1, 4);
        assert!(sized("--fpr 0").is_err() && sized("--fpr 1").is_err());
    }
}
