//! From flags to a decaying filter, a clock, a parser and a state to continue from; every mistake in the flags is found
//! here, before any output is touched.

use std::io::{self, Read, Write};

use anyhow::bail;
use firstseen_filter::{
    CellDefinition, CounterStorage, DecayRule, DecayingCells, DecayingError, DecayingFilter, DecayingShape,
    FilterDefinition, FilterSecret, FrequencySpec, Window, WindowClock,
};
use firstseen_records::RecordParser;
use serde::{Deserialize, Serialize};

use super::args::{DecayArgs, DecayRuleArg, EstimateArgs, StorageArg};
use crate::exit::UsageError;
use crate::flags::input::NeedsTime;
use crate::input::Times;
use crate::input::arrivals::check_saved;
use crate::input::present_ms;
use crate::report::describe::clock_flag;
use crate::state::{self, Definition, StateHeader};
use crate::text::size::Count;

/// What a saved filter was built from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecayingDefinition {
    pub(super) shape: DecayingShape,
    pub(super) epoch: Window,
    future_max_ms: u64,
}

impl Definition for DecayingDefinition {
    fn answers_like(&self, other: &Self) -> bool {
        self == other
    }

    fn asked_like(&self, _: &Self) -> Self {
        self.clone()
    }

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

    fn flags(&self) -> Vec<(&'static str, String)> {
        let clock = clock_flag(&self.epoch, self.future_max_ms);
        vec![("--epoch", self.epoch.to_string()), ("--lambda", self.shape.rule.lambda().to_string()), clock]
    }
}

/// The filter, and the clock that gives the epoch of an event.
pub(super) struct Clocked {
    pub(super) filter: DecayingFilter,
    pub(super) clock: WindowClock,
    /// How far ahead of the others an event's time may be to be accepted without their confirmation; none where times
    /// do not matter.
    step_ms: Option<u64>,
}

impl Clocked {
    fn new(resolved: &FilterDefinition, shape: DecayingShape) -> anyhow::Result<Self> {
        let filter = DecayingFilter::new(shape).map_err(|error| match error {
            DecayingError::Memory(_) => anyhow::Error::new(error),
            _ => UsageError(error.to_string()).into(),
        })?;
        let clock = WindowClock::new(resolved.unit.clone(), resolved.rule, resolved.future_max_ms);
        Ok(Self { filter, clock, step_ms: resolved.unit.needs_time().then_some(resolved.future_max_ms) })
    }

    pub(super) fn step_ms(&self) -> Option<u64> {
        self.step_ms
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

/// What a run starts with: filter, clock, parser, state.
pub(super) struct Setup {
    pub(super) clocked: Clocked,
    pub(super) parser: RecordParser,
    pub(super) times: Times,
    pub(super) header: StateHeader<DecayingDefinition>,
}

impl Setup {
    pub(super) fn new(args: &EstimateArgs) -> anyhow::Result<Self> {
        check(args)?;
        let saved = args.run.saved()?;
        let seed = state::seed(args.decay.seed, saved.as_ref());
        let mut resolved = resolved(&args.decay)?;
        let CellDefinition::Decaying(DecayingCells { shape }) = resolved.cells else {
            bail!("frequencies were resolved to kind {}", resolved.cells.kind())
        };
        let needs_time = resolved.unit.needs_time();
        let epochs = format!("--epoch {}", resolved.window);
        let instead = "count in events (--epoch 1000000events)";
        let times = args.input.times(needs_time.then_some(NeedsTime { what: &epochs, instead }))?;
        if times == Times::Arrival {
            // Time passes also while no record comes: no arrival is too far ahead of the last one.
            resolved.future_max_ms = u64::MAX;
        }
        let (epoch, future_max_ms) = (resolved.window.clone(), resolved.future_max_ms);
        let definition = DecayingDefinition { shape, epoch, future_max_ms };
        let parser = args.input.parser(needs_time.then_some(times), FilterSecret::from_seed(seed))?;
        let header = StateHeader { key: args.input.key_identity(), seed, definition };
        let mut clocked = Clocked::new(&resolved, shape)?;
        if let (Some(saved), Some(path)) = (saved, args.run.state.as_deref()) {
            saved.load(path, &header, |body| clocked.read_body(body))?;
            if times == Times::Arrival {
                check_saved(clocked.clock.now_ms(), present_ms())?;
            }
        }
        Ok(Self { clocked, parser, times, header })
    }
}

fn check(args: &EstimateArgs) -> anyhow::Result<()> {
    let output = &args.output;
    let wrong = if args.input.source.is_some() {
        "--source counts duplicates, which `estimate` does not find: to rank sources make them the --key"
    } else if output.min_estimate.is_some_and(|least| !least.is_finite() || least < 0.0) {
        "--min-estimate must be a number of occurrences, 0 or more"
    } else if output.min_estimate.is_some() && output.out.is_none() && output.writes_events_to_stdout() {
        "--min-estimate and --per-event - both write to standard output: give one of them a file (--out FILE)"
    } else {
        return Ok(());
    };
    Err(UsageError(wrong.to_owned()).into())
}

/// The definition that the flags ask for, worked out as for a filter of a cluster.
fn resolved(args: &DecayArgs) -> anyhow::Result<FilterDefinition> {
    let (Count(capacity_keys), lambda) = (args.capacity, args.lambda);
    let rule = match args.rule {
        DecayRuleArg::Literal => DecayRule::Literal { lambda },
        DecayRuleArg::Lasting => DecayRule::Lasting { lambda, fraction_bits: args.fraction_bits },
    };
    let spec = FrequencySpec {
        rule,
        capacity_keys,
        rate: args.fpr,
        cells: args.cells.map(|Count(cells)| cells),
        hashes: args.hashes,
        basic: args.storage == StorageArg::Basic,
        future_max_ms: args.future_max.unwrap_or_else(|| args.epoch.future_default_ms()),
        ..FrequencySpec::new(args.epoch.clone(), lambda)
    };
    spec.resolve().map_err(|error| UsageError(error.to_string()).into())
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
        let flags = Flags::parse_from(["estimate"].into_iter().chain(flags.split_whitespace()));
        match resolved(&flags.decay)?.cells {
            CellDefinition::Decaying(DecayingCells { shape }) => Ok((shape.cells, shape.hashes)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sizes_follow_from_capacity_and_rate_or_are_given() {
        assert_eq!(sized("").unwrap(), (9_592_956, 7));
        assert_eq!(sized("--capacity 1000 --cells 9600").unwrap(), (9600, 7));
        assert_eq!(sized("--cells 5000 --hashes 3").unwrap(), (5000, 3));
        assert_eq!(sized("--capacity 1e6 --hashes 4").unwrap().1, 4);
        assert!(sized("--fpr 0").is_err() && sized("--fpr 1").is_err());
    }

    #[test]
    fn storage_and_decay_are_those_asked_for() {
        let shape = |flags: &str| {
            let flags = Flags::parse_from(["estimate"].into_iter().chain(flags.split_whitespace()));
            let CellDefinition::Decaying(DecayingCells { shape }) = resolved(&flags.decay).unwrap().cells else {
                panic!("decaying")
            };
            (shape.rule, shape.storage)
        };
        let (lasting, literal) =
            (DecayRule::Lasting { lambda: 0.9, fraction_bits: 6 }, DecayRule::Literal { lambda: 0.5 });
        let half = CounterStorage::Extended { extensions: 2500 };
        assert_eq!(shape("--lambda 0.9 --fraction-bits 6 --cells 5000"), (lasting, half));
        assert_eq!(shape("--rule literal --storage basic"), (literal, CounterStorage::Basic));
    }
}
