//! From flags to a filter, a parser and a state to go on from; everything that can be wrong is found here, before any
//! output is touched.

use firstseen_filter::{FilterSecret, FilterSpec};
use firstseen_records::RecordParser;
use firstseen_routing::{SlicedDefinition, SlicedFilter};

use super::DedupArgs;
use crate::exit::UsageError;
use crate::state::{self, StateHeader};

/// What a run starts with.
pub(super) struct Setup {
    pub(super) filter: SlicedFilter,
    pub(super) parser: RecordParser,
    pub(super) header: StateHeader<SlicedDefinition>,
    pub(super) secret: FilterSecret,
}

impl Setup {
    pub(super) fn new(args: &DedupArgs) -> anyhow::Result<Self> {
        let saved = args.run.saved()?;
        let seed = state::seed(args.filter.seed, saved.as_ref());
        let window = args.filter.window(&args.input.tz)?;
        let spec = args.filter.spec(window, seed);
        let definition = definition(&spec, args)?;
        let needs_time = definition.group.unit.needs_time();
        let secret = FilterSecret::from_seed(seed);
        let window = format!("window {}", spec.window);
        let needs_time = needs_time.then_some((window.as_str(), "--window 1000000events"));
        let parser = args.input.parser(needs_time, secret.clone())?;
        let header = StateHeader { key: args.input.key_identity(), seed, definition };
        let mut filter = SlicedFilter::build(&header.definition)?;
        if let (Some(saved), Some(path)) = (saved, args.run.state.as_deref()) {
            saved.load(path, &header, |body| filter.read_body(body))?;
        }
        Ok(Self { filter, parser, header, secret })
    }
}

fn definition(spec: &FilterSpec, args: &DedupArgs) -> anyhow::Result<SlicedDefinition> {
    let definition = SlicedDefinition::new(spec, args.filter.slicing);
    Ok(definition.map_err(|error| UsageError(error.to_string()))?)
}
