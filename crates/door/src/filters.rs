//! The filters that connections use, opened once for all of them.
//!
//! Promises: a filter that was dropped and made again under its name is found again with the next call; names that clients send
//! take bounded memory. Must not know: commands, replies.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use firstseen_client::{Client, Digest, Filter, FilterError, FilterSecret, SubmissionName, Verdict};
use firstseen_filter::Window;
use firstseen_routing::{Branch, FilterRecord, Reason};

/// Filters that are kept open at most; beyond that, one is opened for each call.
const OPEN_MAX: usize = 1024;

/// The filters of a cluster, by name.
pub(crate) struct Filters {
    client: Client,
    open: RwLock<HashMap<Arc<str>, Filter>>,
}

/// Events of one filter that are asked about together.
pub(crate) struct Asked<'a> {
    /// The events.
    pub(crate) items: &'a [&'a [u8]],
    /// The names of their submissions, one each, or none.
    pub(crate) names: &'a [SubmissionName],
    /// Whether they are recorded.
    pub(crate) records: bool,
    /// When they occurred, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// For how long they are remembered, where not for the window: [`Filters::takes_life`] has said that they can.
    pub(crate) life_ms: Option<u64>,
}

impl Filters {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, open: RwLock::default() }
    }

    /// The names of all filters.
    pub(crate) fn all(&self) -> Vec<String> {
        let map = self.client.map();
        map.filters.values().filter(|filter| is_of_users(filter)).map(|filter| filter.name.clone()).collect()
    }

    /// The filter of this name.
    ///
    /// # Errors
    /// As [`Client::filter`].
    pub(crate) async fn get(&self, name: &Arc<str>) -> Result<Filter, FilterError> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let map = self.client.map();
        if let Some(filter) = open {
            // One that was dropped, made again or altered since has another number.
            if map.filters.get(&filter.id()).is_some_and(|record| record.name == **name) {
                return Ok(filter);
            }
            self.forget(name);
        }
        // Names that are none cost a look at the map.
        let is_there = map.filter_named(name).is_some_and(|(_, record)| is_of_users(record));
        if map.version > 0 && !is_there {
            return Err(FilterError::NotFound { name: name.to_string(), there: Vec::new() });
        }
        self.open(name).await
    }

    /// Opens the filter of this name, of which the map may not tell yet.
    ///
    /// # Errors
    /// As [`Client::filter`].
    pub(crate) async fn open(&self, name: &Arc<str>) -> Result<Filter, FilterError> {
        let filter = self.client.filter(name).await?;
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if open.len() < OPEN_MAX {
            open.insert(name.clone(), filter.clone());
        }
        Ok(filter)
    }

    /// Forgets that the filter was opened.
    pub(crate) fn forget(&self, name: &str) {
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Asks about events of the filter of this name; one verdict each, in order.
    ///
    /// # Errors
    /// As [`Client::filter`]; events that cannot be asked about are undecided.
    pub(crate) async fn ask(&self, name: &Arc<str>, asked: &Asked<'_>) -> Result<Vec<Verdict>, FilterError> {
        let verdicts = self.ask_once(name, asked).await?;
        let is_gone = |verdict: &Verdict| *verdict == Verdict::Undecided(Reason::UnknownFilter);
        if verdicts.iter().all(is_gone) {
            self.forget(name);
            return self.ask_once(name, asked).await;
        }
        Ok(verdicts)
    }

    async fn ask_once(&self, name: &Arc<str>, asked: &Asked<'_>) -> Result<Vec<Verdict>, FilterError> {
        let filter = self.get(name).await?;
        let hash =
            |secret: &FilterSecret| -> Vec<Digest> { asked.items.iter().map(|item| secret.digest(item)).collect() };
        let digests = hash(filter.secret());
        let times_ms = if filter.needs_times() { vec![asked.at_ms; digests.len()] } else { Vec::new() };
        let verdicts = match (asked.records, asked.names, asked.life_ms) {
            (true, _, Some(life_ms)) => filter.observe_digests_for(&digests, (asked.at_ms, life_ms), &hash).await,
            (false, ..) => filter.test_digests_or(&digests, &times_ms, &hash).await,
            (true, [], None) => filter.observe_digests_or(&digests, &times_ms, &hash).await,
            (true, names, None) => filter.observe_digests_as_or(names, &digests, &times_ms, &hash).await,
        };
        Ok(verdicts.unwrap_or_else(|error| {
            tracing::debug!(filter = &**name, %error, "a call of the door has failed");
            vec![Verdict::Undecided(Reason::Invalid); digests.len()]
        }))
    }

    /// Whether events of the filter of this name can be remembered for `life_ms` instead of its window.
    ///
    /// # Errors
    /// Why not.
    pub(crate) async fn takes_life(&self, name: &Arc<str>, life_ms: u64) -> Result<(), String> {
        let filter = self.get(name).await.map_err(|error| error.to_string())?;
        filter.takes_life(life_ms).map_err(|error| error.to_string())
    }

    /// For how long the filter of this name remembers.
    ///
    /// # Errors
    /// As [`Client::filter`].
    pub(crate) async fn remembers(&self, name: &Arc<str>) -> Result<Remembers, FilterError> {
        let filter = self.get(name).await?;
        Ok(match filter.definition().group.window {
            Window::Duration(ms) => Remembers::ForMs(ms),
            Window::Unbounded => Remembers::ForEver,
            _ => Remembers::NoTime,
        })
    }

    /// Whether events of the filter of this name bring their times.
    ///
    /// # Errors
    /// As [`Client::filter`].
    pub(crate) async fn needs_times(&self, name: &Arc<str>) -> Result<bool, FilterError> {
        Ok(self.get(name).await?.needs_times())
    }
}

/// For how long a filter remembers; what remembers for longer is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Remembers {
    /// That is no time: until so many events have come, or the next hour.
    NoTime,
    /// For so many milliseconds.
    ForMs(u64),
    ForEver,
}

/// Whether users have given the filter its name: levels of trees and what an alteration leaves have others.
fn is_of_users(filter: &FilterRecord) -> bool {
    filter.line.closed.is_none() && filter.branch.as_ref().is_none_or(Branch::is_root)
}
