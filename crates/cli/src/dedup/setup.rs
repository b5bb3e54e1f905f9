//! From flags to a filter, a parser and a state to go on from; everything that can be wrong is found here, before any
//! output is touched.

use std::path::Path;

use firstseen_filter::{FilterSecret, FilterSpec};
use firstseen_records::RecordParser;
use firstseen_routing::{SlicedDefinition, SlicedFilter};

use super::DedupArgs;
use super::state::{SavedState, StateHeader, check_writable};
use crate::exit::UsageError;

/// What a run starts with.
pub(super) struct Setup {
    pub(super) filter: SlicedFilter,
    pub(super) parser: RecordParser,
    pub(super) header: StateHeader,
    pub(super) secret: FilterSecret,
}

impl Setup {
    pub(super) fn new(args: &DedupArgs) -> anyhow::Result<Self> {
        let saved = args.output.state.as_deref().map(open_state).transpose()?.flatten();
        let seed = args.filter.seed.or(saved.as_ref().map(SavedState::seed)).unwrap_or_else(random_seed);
        let window = args.filter.window(&args.input.tz)?;
        let spec = args.filter.spec(window, seed);
        let definition = definition(&spec, args)?;
        let needs_time = definition.group.unit.needs_time();
        let config = args.input.parser_config(needs_time);
        if needs_time && config.time.is_none() {
            return Err(UsageError(format!(
                "window {} needs to know when events occurred: name the field with --time, or count in events \
                 (--window 1000000events)",
                spec.window
            ))
            .into());
        }
        let secret = FilterSecret::from_seed(seed);
        let parser = RecordParser::new(config, secret.clone()).map_err(|error| UsageError(error.to_string()))?;
        let header = StateHeader { key: args.input.key_identity(), seed, definition };
        let mut filter = SlicedFilter::build(&header.definition)?;
        if let (Some(saved), Some(path)) = (saved, args.output.state.as_deref()) {
            saved.load(path, &header, &mut filter)?;
        }
        Ok(Self { filter, parser, header, secret })
    }
}

fn definition(spec: &FilterSpec, args: &DedupArgs) -> anyhow::Result<SlicedDefinition> {
    let definition = SlicedDefinition::new(spec, args.filter.slicing);
    Ok(definition.map_err(|error| UsageError(error.to_string()))?)
}

fn open_state(path: &Path) -> anyhow::Result<Option<SavedState>> {
    check_writable(path)?;
    SavedState::open(path)
}

/// A seed that nobody who sends events can know.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library keys its hash maps from the system's randomness.
    std::hash::RandomState::new().build_hasher().finish()
}
