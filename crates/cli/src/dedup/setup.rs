//! From flags to a filter, a parser and a state to continue from; every mistake in the flags is found here, before any
//! output is touched.

use firstseen_filter::{ExactWindow, FilterSecret};
use firstseen_records::RecordParser;
use firstseen_routing::{SlicedDefinition, SlicedFilter, Slicing};

use super::auto_lateness::{Chosen, choose};
use super::beyond::BeyondWindow;
use super::engine::Source;
use super::here::Here;
use super::lateness::{PastLateness, lateness_ms};
use super::remote::Remote;
use super::{DedupArgs, LateArg};
use crate::dedup::confirm::Confirm;
use crate::exit::UsageError;
use crate::flags::filter::{FilterArgs, LatenessArg};
use crate::flags::input::NeedsTime;
use crate::flags::run::VerifyArg;
use crate::input::arrivals::check_saved;
use crate::input::present_ms;
use crate::input::{Input, Times};
use crate::kind::{Meant, Stamps};
use crate::state::{self, SavedState, StateHeader};

/// What a run starts with: filter, parser, state.
pub(super) struct Setup {
    pub(super) source: Source,
    pub(super) parser: RecordParser,
    pub(super) times: Times,
    pub(super) secret: FilterSecret,
}

impl Setup {
    pub(super) fn new(args: &DedupArgs) -> anyhow::Result<Self> {
        if args.cluster.cluster.is_empty() { Self::here(args, &args.filter) } else { Self::cluster(args) }
    }

    /// The filter of `source`, with the lateness that the first records of `input` need, if flags ask for that. A saved
    /// filter keeps its lateness.
    pub(super) fn measure(source: Source, args: &DedupArgs, times: Times, input: &Input) -> anyhow::Result<Source> {
        let Source::Here(here) = &source else { return Ok(source) };
        if args.filter.lateness != Some(LatenessArg::Auto) || here.is_continued || times == Times::Arrival {
            return Ok(source);
        }
        let Chosen { lateness_ms, line } = choose(&here.header.definition.group, &input.first_times_ms());
        notice!("{line}");
        let lateness = lateness_ms.map(LatenessArg::Ms);
        let filter = FilterArgs { lateness, seed: Some(here.header.seed), ..args.filter.clone() };
        Ok(Self::here(args, &filter)?.source)
    }

    fn here(args: &DedupArgs, filter: &FilterArgs) -> anyhow::Result<Self> {
        if args.cluster.tls.is_given() {
            return Err(UsageError(
                "--tls-ca, --tls-cert, --tls-key and --token-file are for --cluster: leave them out".to_owned(),
            )
            .into());
        }
        let saved = args.run.saved::<SlicedDefinition>()?;
        let seed = state::seed(filter.seed, saved.as_ref());
        let window = filter.window(&args.input.tz)?;
        let slicing = filter.slicing.unwrap_or(Slicing::NONE);
        let of_saved = saved.as_ref().filter(|_| filter.lateness == Some(LatenessArg::Auto));
        let lateness = of_saved.map(|saved| LatenessArg::Ms(lateness_ms(&saved.definition().group)));
        let filter = &FilterArgs { lateness: lateness.or(filter.lateness), ..filter.clone() };
        let words = format!("window {window}");
        let meant = |stamps| filter.meant(window.clone(), seed, slicing, stamps);
        let needs_time = definition(&meant(Stamps::OfEvents), slicing, None)?.group.unit.needs_time();
        let secret = FilterSecret::from_seed(seed);
        let instead = "count in events (--window 1000000events)";
        let times = args.input.times(needs_time.then_some(NeedsTime { what: &words, instead }))?;
        let meant = if times == Times::Arrival {
            let mut meant = meant(Stamps::OnArrival);
            // Time passes also while no record comes: no arrival is too far ahead of the last one.
            meant.change(|spec| spec.future_max_ms = u64::MAX);
            meant
        } else {
            meant(Stamps::OfEvents)
        };
        let definition = definition(&meant, slicing, saved.as_ref().map(SavedState::definition))?;
        let mut parser = args.input.parser(needs_time.then_some(times), secret.clone())?;
        let is_continued = saved.is_some();
        let header = StateHeader { key: args.input.key_identity(), seed, definition };
        let mut filter = SlicedFilter::build(&header.definition)?;
        if let (Some(saved), Some(path)) = (saved, args.run.state.as_deref()) {
            saved.load(path, &header, |body| filter.read_body(body))?;
            if let Some(now_ms) = filter.now_ms() {
                parser.continue_from(now_ms.cast_signed());
            }
            if times == Times::Arrival {
                check_saved(filter.now_ms(), present_ms())?;
            }
        }
        let beyond = BeyondWindow::new(&header.definition.group.window, filter.now_ms().unwrap_or(0));
        let source = Source::Here(Box::new(Here {
            filter,
            confirm: args.output.confirm.map(Confirm::new),
            exact: args.run.verify.map(|VerifyArg::Exact| ExactWindow::of(&header.definition.group)),
            lookup: args.run.lookup,
            times_ms: Vec::new(),
            stamps: Vec::new(),
            past_lateness: PastLateness::default(),
            beyond,
            is_continued,
            header,
        }));
        Ok(Self { source, parser, times, secret })
    }

    fn cluster(args: &DedupArgs) -> anyhow::Result<Self> {
        if args.cluster.claims.is_some() && args.output.late == Some(LateArg::Duplicate) {
            let text =
                "with --claims, --late duplicate would drop what a run that died had claimed: leave one of them out";
            return Err(UsageError(text.to_owned()).into());
        }
        let remote = Remote::connect(&args.cluster, args.run.lookup)?;
        let (secret, window) = (remote.secret(), remote.needs_time());
        let instead = "let the nodes stamp events (firstseen filter create --clock wall)";
        let needs_time = window.is_some();
        let times = args.input.times(window.as_deref().map(|what| NeedsTime { what, instead }))?;
        let parser = args.input.parser(needs_time.then_some(times), secret.clone())?;
        Ok(Self { source: Source::Cluster(Box::new(remote)), parser, times, secret })
    }
}

fn definition(meant: &Meant, slicing: Slicing, saved: Option<&SlicedDefinition>) -> anyhow::Result<SlicedDefinition> {
    Ok(meant.definition(slicing, saved).map_err(|error| UsageError(error.to_string()))?)
}
