//! Counts the records of a run by answer, and finds the keys and sources that occur most often. An input may have any
//! number of different keys, so only the most frequent keys are tracked, and the memory is bounded.

use firstseen_filter::{Digest, FilterSecret};
use firstseen_records::{ParsedBlock, Records};

use crate::report::Counts;
use crate::report::heavy::{Counted, HeavyHitters};

/// Maximum number of keys, or sources, that are counted individually at the same time.
const TRACKED_MAX: usize = 4096;
/// Number of keys or sources that a report shows.
const SHOWN: usize = 10;

/// The counts of a run.
pub(super) struct Tally {
    /// Numbers of records by answer.
    pub(super) counts: Counts,
    /// Late records that count as first-seen although they were not judged, because the user did not choose what
    /// happens to them.
    pub(super) late_unjudged: u64,
    repeated: HeavyHitters,
    sources: Option<Sources>,
}

struct Sources {
    secret: FilterSecret,
    duplicates: HeavyHitters,
    first_seen: HeavyHitters,
}

/// One event of a batch.
pub(super) struct Event<'a, R> {
    /// Block that contains the event.
    pub(super) block: &'a R,
    /// The parsed records of its batch.
    pub(super) parsed: &'a ParsedBlock,
    /// Index of the event in its batch.
    pub(super) index: usize,
}

impl Tally {
    /// Creates counts that start at zero. Sources are counted if the input has them.
    pub(super) fn new(has_source: bool, secret: &FilterSecret) -> Self {
        let sources = has_source.then(|| Sources {
            secret: secret.clone(),
            duplicates: HeavyHitters::new(TRACKED_MAX),
            first_seen: HeavyHitters::new(TRACKED_MAX),
        });
        Self { counts: Counts::default(), late_unjudged: 0, repeated: HeavyHitters::new(TRACKED_MAX), sources }
    }

    /// Counts an event that is first-seen.
    #[inline]
    pub(super) fn first_seen<R>(&mut self, event: &Event<'_, R>) {
        self.counts.first_seen += 1;
        if let Some(sources) = &mut self.sources {
            count_source(&mut sources.first_seen, &sources.secret, event);
        }
    }

    /// Counts an event that is a duplicate.
    #[inline]
    pub(super) fn duplicate<R: Records>(&mut self, event: &Event<'_, R>) {
        self.counts.duplicates += 1;
        let Digest { lo, .. } = event.parsed.digests()[event.index];
        self.repeated.count(lo, || event.block.key_parts(event.parsed, event.index).join(" "));
        if let Some(sources) = &mut self.sources {
            count_source(&mut sources.duplicates, &sources.secret, event);
        }
    }

    /// Returns the keys that were repeated most often.
    pub(super) fn top_keys(&self) -> Vec<Counted> {
        significant(&self.repeated)
    }

    /// Returns the sources with the most duplicates, and the sources with the most first-seen events.
    pub(super) fn top_sources(&self) -> Option<(Vec<Counted>, Vec<Counted>)> {
        let sources = self.sources.as_ref()?;
        Some((significant(&sources.duplicates), significant(&sources.first_seen)))
    }
}

/// Returns the greatest counts whose certain part is at least half. Smaller certain parts are noise of a full sketch.
fn significant(hitters: &HeavyHitters) -> Vec<Counted> {
    let mut top = hitters.top(SHOWN);
    top.retain(|counted| counted.error <= counted.count / 2);
    top
}

fn count_source<R>(hitters: &mut HeavyHitters, secret: &FilterSecret, event: &Event<'_, R>) {
    if let Some(source) = event.parsed.source(event.index) {
        hitters.count(secret.digest(source).lo, || String::from_utf8_lossy(source).into_owned());
    }
}
