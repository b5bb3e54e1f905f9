//! Creates the decaying filter of a run from its flags, and loads the saved state. Every mistake in the
//! flags is reported here, before the run changes any output file.

use anyhow::bail;
use firstseen_embedded::StateHeader;
use firstseen_filter::{
    CellDefinition, DecayRule, DecayingCells, DecayingError, DecayingFilter, FilterDefinition, FilterSecret,
    FrequencySpec, WindowClock,
};

use super::args::{DecayArgs, DecayRuleArg, EstimateArgs, EstimateFormat, StorageArg};
use super::definition::DecayingDefinition;
use super::exact::ExactFrequencies;
use super::frequencies::{Frequencies, PlacedEvents};
use crate::exit::UsageError;
use crate::flags::input::NeedsTime;
use crate::form::Reading;
use crate::input::arrivals::check_saved;
use crate::input::{Times, present_ms};
use crate::state;
use crate::text::size::Count;

/// Filter, clock and state that a run starts with, and what the run must know about them to read records.
pub(super) struct Setup {
    pub(super) frequencies: Frequencies,
    pub(super) reading: Reading,
    pub(super) times: Times,
}

impl Setup {
    /// `key` describes how keys are made from records ([`Form::key_identity`](crate::form::Form::key_identity)).
    pub(super) fn new(args: &EstimateArgs, key: String) -> anyhow::Result<Self> {
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
            // Time also passes while no record arrives. A record that arrives after a long pause must not count as too
            // far ahead of the last record.
            resolved.future_max_ms = u64::MAX;
        }
        let FilterDefinition { window, unit, rule, future_max_ms, .. } = resolved;
        let definition = DecayingDefinition { shape, epoch: window, future_max_ms };
        let secret = FilterSecret::from_seed(seed);
        let reading = Reading { times: needs_time.then_some(times), secret, last_time_ms: None };
        let filter = DecayingFilter::new(shape).map_err(|error| match error {
            DecayingError::Memory(_) => anyhow::Error::new(error),
            _ => UsageError(error.to_string()).into(),
        })?;
        let exact = args.run.verify.map(|_| ExactFrequencies::new(shape.rule.lambda(), shape.rule.epsilon()));
        let mut frequencies = Frequencies {
            filter,
            clock: WindowClock::new(unit, rule, future_max_ms),
            step_ms: needs_time.then_some(future_max_ms),
            header: StateHeader { key, seed, definition },
            exact,
            lookup: args.run.lookup,
            times_ms: Vec::new(),
            placed: PlacedEvents::default(),
        };
        if let (Some(saved), Some(path)) = (saved, args.run.state.as_deref()) {
            let header = frequencies.header.clone();
            saved.load(path, &header, |body| frequencies.read_body(body))?;
            if times == Times::Arrival {
                check_saved(frequencies.clock.now_ms(), present_ms())?;
            }
        }
        Ok(Self { frequencies, reading, times })
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
    } else if output.per_event.is_some() && args.input.has_columns() && output.per_event_format == EstimateFormat::Text
    {
        "--per-event writes a record after its estimate, which is for text: use --per-event-format json, which writes the \
         key"
    } else {
        return Ok(());
    };
    Err(UsageError(wrong.to_owned()).into())
}

/// Returns the definition that the flags ask for. It is derived in the same way as for a filter of a cluster.
fn resolved(args: &DecayArgs) -> anyhow::Result<FilterDefinition> {
    let Count(capacity_keys) = args.capacity;
    let lambda = args.lambda;
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
    use firstseen_filter::CounterStorage;

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
