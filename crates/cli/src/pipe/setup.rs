//! Turns flags into the parts of a pipe. Every mistake in the flags is reported here, before the group is joined.

use std::time::{Duration, Instant};

use firstseen_embedded::{KindChoice, Stamps, drawn_seed, meant};
use firstseen_filter::{FilterSecret, FilterSpec, Kind, Window};
use firstseen_pipe::kafka::{Checked, Guarantee, KafkaInput, KafkaOutput, Properties, Targets, check_topics, open};
use firstseen_pipe::{CheckpointFolder, EventReader, KeySources, Parts, PipeError, Settings, UndecidedAction};
use firstseen_routing::{SlicedDefinition, Slicing};

use super::args::{GuaranteeArg, PipeArgs, UndecidedArg};
use crate::input::present_ms;
use crate::report::describe::describe;
use crate::text::numbers::grouped;
use crate::text::size::{ByteSize, Count};

/// Size of a batch in bytes at which it is delivered.
const BATCH_BYTES: usize = 16 << 20;

/// Settings that were checked against the topics.
pub(super) struct Setup {
    properties: Properties,
    checked: Checked,
    guarantee: Guarantee,
    /// Definition of the filters. `None` means that every message is copied.
    definition: Option<SlicedDefinition>,
    seed: u64,
    /// The folder of checkpoints, until the pipe takes it.
    checkpoints: std::cell::Cell<Option<CheckpointFolder>>,
}

/// Checks the flags and the topics.
pub(super) fn prepare(args: &PipeArgs) -> Result<Setup, PipeError> {
    if args.run.batch.0 == 0 {
        return Err(PipeError::Settings("--batch 0 delivers nothing; write at least 1".to_owned()));
    }
    if args.run.undecided == UndecidedArg::Aside && args.topics.dead_letter.is_none() {
        return Err(PipeError::Settings("--undecided aside needs a topic; name it with --dead-letter".to_owned()));
    }
    if args.run.shadow && args.topics.duplicates.is_some() {
        let text = "with --shadow duplicates are written to the output; leave --duplicates or --shadow out";
        return Err(PipeError::Settings(text.to_owned()));
    }
    let window = window(args)?;
    let properties = args.topics.kafka_config.as_deref().map(Properties::read).transpose()?.unwrap_or_default();
    let checkpoints = match (&args.run.state, &window) {
        (Some(folder), Some(_)) => Some(CheckpointFolder::open(folder, &args.topics.group)?),
        _ => None,
    };
    let seed = checkpoints.as_ref().map_or_else(drawn_seed, CheckpointFolder::seed);
    let definition = window.map(|window| definition(args, window, seed)).transpose()?;
    let checked = check_topics(
        &args.topics.from,
        &args.topics.to,
        args.topics.duplicates.as_ref(),
        args.topics.dead_letter.as_ref(),
        &properties,
        args.topics.allow_compacted,
    )?;
    checked.notes.iter().for_each(|line| notice!("firstseen: {line}"));
    let guarantee = guarantee(args, &checked)?;
    let checkpoints = std::cell::Cell::new(checkpoints);
    Ok(Setup { properties, checked, guarantee, definition, seed, checkpoints })
}

fn window(args: &PipeArgs) -> Result<Option<Window>, PipeError> {
    if args.events.window == "none" {
        return Ok(None);
    }
    let window = args.events.window.parse();
    window.map(Some).map_err(|error: firstseen_filter::WindowError| PipeError::Settings(error.to_string()))
}

/// Returns the definition of the filter of one partition.
fn definition(args: &PipeArgs, window: Window, seed: u64) -> Result<SlicedDefinition, PipeError> {
    let kind = args.events.kind.map_or(Kind::Bloom, Kind::from);
    let spec = FilterSpec {
        rate: args.events.fpr,
        capacity_events: args.events.capacity.map(|Count(events)| events),
        lateness_ms: args.events.lateness,
        future_max_ms: args.events.future_max.unwrap_or_else(|| window.future_default_ms()),
        seed,
        ..FilterSpec::new(kind, window)
    };
    let choice = match args.events.kind {
        Some(_) => KindChoice::only(spec),
        None => meant(&spec, Slicing::NONE, Stamps::OfEvents),
    };
    choice.definition(Slicing::NONE, None).map_err(|error| PipeError::Settings(error.to_string()))
}

fn guarantee(args: &PipeArgs, checked: &Checked) -> Result<Guarantee, PipeError> {
    match (args.run.guarantee, checked.is_other_cluster) {
        (Some(GuaranteeArg::ExactlyOnce), true) => Err(PipeError::Settings(
            "--guarantee exactly-once cannot hold: --from and --to are different clusters, and a transaction of Kafka \
             covers one; use --guarantee at-least-once, or write to the cluster of the input"
                .to_owned(),
        )),
        (Some(GuaranteeArg::AtLeastOnce), _) | (None, true) => Ok(Guarantee::AtLeastOnce),
        (Some(GuaranteeArg::ExactlyOnce) | None, false) => Ok(Guarantee::ExactlyOnce),
    }
}

impl Setup {
    /// Joins the group and begins transactions.
    pub(super) fn open(&self, args: &PipeArgs) -> Result<Parts<KafkaInput, KafkaOutput>, PipeError> {
        let secret = FilterSecret::from_seed(self.seed);
        let keys = KeySources::new(args.events.key.iter().cloned());
        let needs_time = self.definition.as_ref().is_some_and(|definition| definition.group.unit.needs_time());
        let reader = EventReader::new(keys, args.events.time.clone(), needs_time, secret.clone())?;
        let mut checkpoints = self.checkpoints.take();
        if let (Some(folder), Some(definition)) = (&mut checkpoints, &self.definition) {
            folder.set_filter(reader.identity(), definition);
        }
        let dead_letters = args.topics.dead_letter.as_ref().and_then(|address| address.topic().ok());
        let targets = Targets {
            output: args.topics.to.clone(),
            duplicates: args.topics.duplicates.as_ref().and_then(|address| address.topic().ok()).map(str::to_owned),
            dead_letters: dead_letters.map(str::to_owned).zip(self.checked.dead_letter_partitions),
            batch_bytes_max: self.checked.batch_bytes_max,
        };
        let opened = open(&args.topics.from, &args.topics.group, targets, &self.properties, self.guarantee)?;
        let definition = self.definition.clone();
        Ok(Parts {
            input: opened.0,
            output: opened.1,
            reader,
            secret,
            definition,
            checkpoints,
            clock: Box::new(Instant::now),
        })
    }

    /// Returns how the pipe works.
    pub(super) fn settings(&self, args: &PipeArgs) -> Settings {
        Settings {
            batch_events: usize::try_from(args.run.batch.0).unwrap_or(usize::MAX),
            batch_bytes: BATCH_BYTES,
            linger: Duration::from_millis(args.run.linger),
            undecided: match args.run.undecided {
                UndecidedArg::Pass => UndecidedAction::Pass,
                UndecidedArg::Aside => UndecidedAction::Aside,
            },
            is_shadow: args.run.shadow,
            has_duplicates: args.topics.duplicates.is_some(),
            has_dead_letters: args.topics.dead_letter.is_some(),
            until_end: args.run.until_end,
            present_ms,
        }
    }

    /// Returns the line that says what the pipe does and what it guarantees.
    pub(super) fn start_line(&self, args: &PipeArgs) -> String {
        let guarantee = match (self.guarantee, self.checked.is_other_cluster) {
            (Guarantee::ExactlyOnce, _) => {
                "exactly once for consumers with isolation.level=read_committed, because messages and offsets are \
                 committed in one transaction"
            }
            (Guarantee::AtLeastOnce, true) => {
                "at least once, because the topics are in different clusters: a crash can repeat the last batch"
            }
            (Guarantee::AtLeastOnce, false) => "at least once, as asked for: a crash can repeat the last batch",
        };
        let partitions: i32 = self.checked.input_partitions.values().sum();
        let compared = match &self.definition {
            None => "every message is copied".to_owned(),
            Some(definition) => {
                let kind = describe(definition);
                let bytes = definition.slice().map_or(0, |slice| slice.bytes_max());
                let size = if args.events.capacity.is_some() {
                    format!(", {} for each partition", ByteSize(bytes))
                } else {
                    String::new()
                };
                format!(
                    "each partition is compared with itself, so equal keys must be in the same partition; {} partitions, each \
                     with a filter of its own ({kind}{size})",
                    grouped(partitions.unsigned_abs().into())
                )
            }
        };
        format!("{} to {} as group `{}`: {guarantee}; {compared}", args.topics.from, args.topics.to, args.topics.group)
    }
}
