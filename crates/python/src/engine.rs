//! A filter with its counts and its saved form. This module does not depend on Python.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use firstseen_embedded::{Access, Judge, Lock, LockError, StateError, StateFile, StateHeader, can_contain, save};
use firstseen_filter::Digest;
use firstseen_filter::snapshot::{self, SnapshotError, UnverifiedSnapshot};
use firstseen_routing::{Answer, SlicedBuildError, SlicedDefinition, SlicedFilter};
use thiserror::Error;

use crate::batch::Batch;
use crate::code;

/// Number of verdicts of each sort since the filter was made or loaded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) first_seen: u64,
    pub(crate) duplicates: u64,
    pub(crate) undecided: u64,
}

/// A filter with its counts.
pub(crate) struct Engine {
    header: StateHeader<SlicedDefinition>,
    judge: Judge,
    counts: Counts,
}

/// Reason why a filter cannot be loaded.
#[derive(Debug, Error)]
pub(crate) enum LoadError {
    /// The file is missing, unreadable or damaged.
    #[error(transparent)]
    State(#[from] StateError),
    /// The bytes are damaged.
    #[error("cannot load the filter from these bytes")]
    Bytes(#[from] SnapshotError),
    /// The bytes are too few for the filter that they describe.
    #[error("the saved filter is damaged: it is too short for its cells")]
    TooShort,
    /// The size of the file cannot be determined.
    #[error("cannot read the size of the state")]
    Size(#[from] io::Error),
    /// The filter cannot be built.
    #[error("the saved filter cannot be built")]
    Build(#[from] SlicedBuildError),
}

/// Reason why a filter cannot be saved.
#[derive(Debug, Error)]
pub(crate) enum SaveError {
    /// Another process keeps the state.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The file cannot be written.
    #[error(transparent)]
    State(#[from] StateError),
}

impl Engine {
    /// Creates an empty filter.
    pub(crate) fn new(header: StateHeader<SlicedDefinition>) -> Result<Self, SlicedBuildError> {
        let filter = SlicedFilter::build(&header.definition)?;
        Ok(Self::of(header, filter))
    }

    fn of(header: StateHeader<SlicedDefinition>, filter: SlicedFilter) -> Self {
        let judge = Judge::of(filter, &header.definition);
        Self { header, judge, counts: Counts::default() }
    }

    /// Loads the filter of a state file. `None` means that there is no such file.
    pub(crate) fn load(path: &Path) -> Result<Option<Self>, LoadError> {
        let Some(file) = StateFile::open(path)? else { return Ok(None) };
        let mut filter = built(file.header(), fs::metadata(path)?.len())?;
        let header = file.header().clone();
        file.read(|body| filter.read_body(body))?;
        Ok(Some(Self::of(header, filter)))
    }

    /// Reads the filter from the bytes that [`Self::to_bytes`] has returned.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, LoadError> {
        let snapshot = UnverifiedSnapshot::<_, StateHeader<SlicedDefinition>>::open(bytes)?;
        let header = snapshot.header().clone();
        let mut filter = built(&header, bytes.len() as u64)?;
        snapshot.verify(|body: &mut dyn Read| filter.read_body(body))?;
        Ok(Self::of(header, filter))
    }

    /// Replaces the state file at `path`. The error says why it cannot be written.
    pub(crate) fn save(&self, path: &Path) -> Result<(), SaveError> {
        let _lock = Lock::of(path)?;
        Ok(save(path, &self.header, |body| self.judge.filter().write_body(body))?)
    }

    /// Returns the bytes of a state file.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, SnapshotError> {
        let mut bytes = Vec::new();
        snapshot::write(&mut bytes, &self.header, |body: &mut dyn Write| self.judge.filter().write_body(body))?;
        Ok(bytes)
    }

    pub(crate) fn header(&self) -> &StateHeader<SlicedDefinition> {
        &self.header
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    pub(crate) fn judge(&mut self) -> &mut Judge {
        &mut self.judge
    }

    /// Returns the time that an event gets if it arrives now. Time never goes back, even if the clock of the machine
    /// does.
    pub(crate) fn arrival_ms(&self, present_ms: u64) -> u64 {
        present_ms.max(self.judge.filter().now_ms().unwrap_or(0))
    }

    /// Judges a batch.
    pub(crate) fn judged(&mut self, access: Access, batch: Batch<Digest>, present_ms: u64) -> Vec<u8> {
        if access == Access::Lookup {
            self.judge.begin_lookups();
        }
        self.judge.filter_mut().show_present_ms(present_ms);
        let mut answers = vec![Answer::Undecided; batch.keys().len()];
        self.judge.answer(access, batch.keys(), batch.times_ms(), &mut answers);
        let codes = batch.with(answers.into_iter().map(code::of));
        if access == Access::Observe {
            self.count(&codes);
        }
        codes
    }

    fn count(&mut self, codes: &[u8]) {
        let Counts { first_seen, duplicates, undecided } = &mut self.counts;
        for code in codes {
            match *code {
                code::FIRST_SEEN => *first_seen += 1,
                code::DUPLICATE => *duplicates += 1,
                _ => *undecided += 1,
            }
        }
    }
}

/// Builds the empty filter that `header` describes, if `source_bytes` bytes can contain it.
fn built(header: &StateHeader<SlicedDefinition>, source_bytes: u64) -> Result<SlicedFilter, LoadError> {
    if !can_contain(source_bytes, &header.definition) {
        return Err(LoadError::TooShort);
    }
    Ok(SlicedFilter::build(&header.definition)?)
}
