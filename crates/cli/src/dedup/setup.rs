//! Creates the filter of a run from its flags, and loads the saved state. Every mistake in the flags is
//! reported here, before the run changes any output file.

use firstseen_embedded::{Judge, KindChoice, Stamps, StateHeader};
use firstseen_filter::{ExactWindow, FilterSecret};
use firstseen_records::Records;
use firstseen_routing::{SlicedDefinition, SlicedFilter, Slicing};

use super::DedupArgs;
#[cfg(feature = "full")]
use super::LateArg;
use super::auto_lateness::{Chosen, choose};
use super::confirm::Confirm;
use super::lateness::{PastLateness, lateness_ms};
use super::local::LocalDecider;
#[cfg(feature = "full")]
use super::remote::Remote;
use crate::exit::UsageError;
use crate::flags::filter::{FilterArgs, LatenessArg};
use crate::flags::input::NeedsTime;
use crate::flags::run::VerifyArg;
use crate::form::Reading;
use crate::input::arrivals::check_saved;
use crate::input::queue::Queue;
use crate::input::{Times, present_ms};
use crate::state::{self, SavedState};
use crate::terminal::progress::Progress;

/// Filter that a run starts with, and what the run must know about it to read records.
pub(super) struct Setup<D> {
    pub(super) decider: D,
    pub(super) reading: Reading,
    /// Where the times of records come from.
    pub(super) times: Times,
}

/// Determines the lateness of the filter `here`, and returns the filter with this lateness. With `--lateness auto`, the
/// function chooses the lateness from the times of the first records.
///
/// The function returns `here` unchanged in three cases: if the flag is not given, if `here` continues a saved state,
/// and if the run uses the time of arrival as the time of each record.
pub(super) fn measure<R: Records>(
    here: LocalDecider,
    args: &DedupArgs,
    key: &str,
    times: Times,
    queue: &Queue<R>,
    progress: &Progress,
) -> anyhow::Result<LocalDecider> {
    if args.filter.lateness != Some(LatenessArg::Auto) || here.is_continued || times == Times::Arrival {
        return Ok(here);
    }
    let Chosen { lateness_ms, line } = choose(&here.header.definition.group, &queue.first_times_ms());
    progress.note(&line);
    let lateness = lateness_ms.map(LatenessArg::Ms);
    let filter = FilterArgs { lateness, seed: Some(here.header.seed), ..args.filter.clone() };
    Ok(self::here(args, key, &filter)?.decider)
}

/// Creates the setup of a run with a filter in this process. `key` describes how keys are made from records
/// ([`Form::key_identity`](crate::form::Form::key_identity)).
pub(super) fn here(args: &DedupArgs, key: &str, filter: &FilterArgs) -> anyhow::Result<Setup<LocalDecider>> {
    args.cluster.check_unused()?;
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
    let mut meant = filter.meant(window.clone(), seed, slicing, Stamps::OfEvents);
    let needs_time = definition(&meant, slicing, None)?.group.unit.needs_time();
    let secret = FilterSecret::from_seed(seed);
    let instead = "count in events (--window 1000000events)";
    let times = args.input.times(needs_time.then_some(NeedsTime { what: &words, instead }))?;
    if times == Times::Arrival {
        meant = filter.meant(window, seed, slicing, Stamps::OnArrival);
        // Time also passes while no record arrives. A record that arrives after a long pause must not count as too far
        // ahead of the last record.
        meant.change(|spec| spec.future_max_ms = u64::MAX);
    }
    let definition = definition(&meant, slicing, saved.as_ref().map(SavedState::definition))?;
    let mut reading = Reading { times: needs_time.then_some(times), secret, last_time_ms: None };
    let is_continued = saved.is_some();
    let header = StateHeader { key: key.to_owned(), seed, definition };
    let mut filter = SlicedFilter::build(&header.definition)?;
    if let (Some(saved), Some(path)) = (saved, args.run.state.as_deref()) {
        saved.load(path, &header, |body| filter.read_body(body))?;
        reading.last_time_ms = filter.now_ms().map(u64::cast_signed);
        if times == Times::Arrival {
            check_saved(filter.now_ms(), present_ms())?;
        }
    }
    let decider = LocalDecider {
        judge: Judge::of(filter, &header.definition),
        confirm: args.output.confirm.map(Confirm::new),
        exact: args.run.verify.map(|VerifyArg::Exact| ExactWindow::of(&header.definition.group)),
        lookup: args.run.lookup,
        ahead_ms: Vec::new(),
        times_ms: Vec::new(),
        past_lateness: PastLateness::default(),
        is_continued,
        header,
    };
    Ok(Setup { decider, reading, times })
}

/// Creates the setup of a run with a filter of a cluster.
#[cfg(feature = "full")]
pub(super) fn cluster<R: Records>(args: &DedupArgs) -> anyhow::Result<Setup<Remote<R>>> {
    if args.cluster.claims.is_some() && args.output.late == Some(LateArg::Duplicate) {
        let text = "with --claims, --late duplicate would drop what a run that died had claimed: leave one of them out";
        return Err(UsageError(text.to_owned()).into());
    }
    if args.cluster.claims.is_some() && args.input.is_readable_only_at_end() {
        let text = "--claims confirms records when they are stored, and a Parquet file can be read only at its end: use \
                    --format arrow, or leave --claims out";
        return Err(UsageError(text.to_owned()).into());
    }
    let remote = Remote::connect(&args.cluster, args.run.lookup)?;
    let secret = remote.secret();
    let window = remote.needs_time();
    let instead = "let the nodes stamp events (firstseen filter create --clock wall)";
    let needs_time = window.is_some();
    if remote.stamps_on_arrival() && args.input.has_record_times() {
        notice!(
            "firstseen: the nodes stamp the events of filter `{}` when they arrive (--clock wall), so the times of the records are \
             not used; to judge old records by their own times, use a filter that was created with --clock event",
            remote.name()
        );
    }
    let times = args.input.times(window.as_deref().map(|what| NeedsTime { what, instead }))?;
    let reading = Reading { times: needs_time.then_some(times), secret, last_time_ms: None };
    Ok(Setup { decider: remote, reading, times })
}

fn definition(
    meant: &KindChoice,
    slicing: Slicing,
    saved: Option<&SlicedDefinition>,
) -> anyhow::Result<SlicedDefinition> {
    Ok(meant.definition(slicing, saved).map_err(|error| UsageError(error.to_string()))?)
}
