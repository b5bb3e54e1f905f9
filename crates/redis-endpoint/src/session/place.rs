//! Finds the filter for the events of a command, and the operation to perform on them.
//!
//! Keys and claims that no filter can store are rejected here. A key with an expiry is rejected if no filter of the key
//! can remember it for that long. A claim is rejected if its lease is longer than the filter allows.
//!
//! If a client has no right to a filter, the error is the same whether or not the filter exists. A client can therefore
//! not find out the names of other filters.
//!
//! This module does not depend on replies.

use std::sync::Arc;
use std::time::Duration;

use firstseen_backend::{ClientSession, EventOperation, Facts, KeptTtl, Retention};
use firstseen_resp::{EventTime, Expiry};

use firstseen_routing::{FilterVerb, Reason};

use super::event_query::{Action, Place};
use super::{Requester, Shared};
use crate::command_rejected::CommandRejected;
use crate::settings::ClaimRule;

/// Filter for some events, and the operation to perform on them.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) filter: Arc<str>,
    /// Other filters that a key is mapped to, if the key is being set.
    pub(super) others: Arc<[Arc<str>]>,
    pub(super) act: EventOperation,
    /// Time to live of the events in milliseconds. `None` means the filter's window.
    pub(super) ttl_ms: Option<u64>,
    /// Whether the events must carry their times.
    pub(super) needs_times: bool,
}

impl Found {
    /// Creates the result for events of a single filter, which remembers them for its window.
    fn alone(filter: Arc<str>, act: EventOperation) -> Self {
        Self { filter, others: Arc::default(), act, ttl_ms: None, needs_times: false }
    }
}

/// Maximum number of cached results, and maximum length of a filter name in them, in bytes.
const KEPT_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 256;

/// Cache of recent results, because clients repeat similar commands.
#[derive(Default)]
pub(super) struct Placed {
    named: Vec<Arc<str>>,
    keyed: Vec<Keyed>,
    /// Version of the cluster map that the results are based on.
    version: u64,
}

/// Result for keys with the same prefix and expiry.
struct Keyed {
    prefix: usize,
    ttl_ms: Option<u64>,
    found: Found,
}

impl Placed {
    /// Finds the filter of a command.
    pub(super) async fn find(
        &mut self,
        requester: Requester<'_>,
        place: Place<'_>,
        action: Action<'_>,
        time: EventTime,
    ) -> Result<Found, CommandRejected> {
        match (place, action, time) {
            (Place::Filter(name), Action::Test | Action::Observe, EventTime::Now) => {
                let act = if action == Action::Test { EventOperation::Test } else { EventOperation::Observe };
                Ok(Found::alone(self.named(name)?, act))
            }
            (Place::Key { key, expiry }, Action::Observe, _) => {
                self.keyed(requester, key, ttl_ms(expiry, requester.shared.filters.now_ms())?).await
            }
            _ => find(requester, place, action, time).await,
        }
    }

    fn named(&mut self, name: &[u8]) -> Result<Arc<str>, CommandRejected> {
        if let Some(named) = self.named.iter().find(|named| named.as_bytes() == name) {
            return Ok(named.clone());
        }
        let named = name_of(name)?;
        if self.named.len() >= KEPT_MAX {
            self.named.clear();
        }
        if name.len() <= NAME_BYTES_MAX {
            self.named.push(named.clone());
        }
        Ok(named)
    }

    async fn keyed(
        &mut self,
        requester: Requester<'_>,
        key: &[u8],
        ttl_ms: Option<u64>,
    ) -> Result<Found, CommandRejected> {
        let shared = requester.shared;
        let prefix = shared.common.names.prefix_of(key).ok_or_else(|| CommandRejected::unmapped(key))?;
        let version = shared.filters.map_version();
        if version != self.version || self.keyed.len() >= KEPT_MAX {
            self.keyed.clear();
            self.version = version;
        }
        if let Some(known) = self.keyed.iter().find(|known| known.prefix == prefix && known.ttl_ms == ttl_ms) {
            return Ok(known.found.clone());
        }
        let found = keyed(requester, key, ttl_ms).await?;
        self.keyed.push(Keyed { prefix, ttl_ms, found: found.clone() });
        Ok(found)
    }
}

async fn find(
    requester: Requester<'_>,
    place: Place<'_>,
    action: Action<'_>,
    time: EventTime,
) -> Result<Found, CommandRejected> {
    let Requester { shared, client_session, .. } = requester;
    match (place, action) {
        (Place::Filter(name), Action::Test | Action::Observe) => named(requester, name, action, time).await,
        (Place::Filter(name), _) => {
            let name = name_of(name)?;
            must(client_session, FilterVerb::Observe, &name)?;
            let facts = shared.filters.facts(&name).await?;
            claimed(name, facts, action)
        }
        (Place::Key { key, expiry }, Action::Test | Action::Observe) => {
            keyed(requester, key, ttl_ms(expiry, shared.filters.now_ms())?).await
        }
        (Place::OnlyOf { key }, _) => {
            let filter = shared.common.names.only_filter([key].into_iter());
            let filter = filter.ok_or_else(|| CommandRejected::unmapped(key))?.clone();
            Ok(Found::alone(filter, EventOperation::Test))
        }
        (Place::Key { key, .. }, _) => match with_claims(requester, key).await? {
            Ok(filter) => claimed(filter.name, filter.facts, action),
            Err(name) => Err(no_claims(&name)),
        },
    }
}

/// Rejects a client that does not have the right on a filter. The error text is the same whether or not the filter
/// exists.
fn must(client_session: &dyn ClientSession, verb: FilterVerb, filter: &str) -> Result<(), CommandRejected> {
    client_session.may(verb, filter, 0).map_err(CommandRejected::from)
}

async fn named(
    Requester { shared, client_session, .. }: Requester<'_>,
    name: &[u8],
    action: Action<'_>,
    time: EventTime,
) -> Result<Found, CommandRejected> {
    let filter = name_of(name)?;
    let act = if action == Action::Test { EventOperation::Test } else { EventOperation::Observe };
    must(client_session, act.verb(), &filter)?;
    let mut ttl_ms = None;
    match time {
        EventTime::Now => {}
        EventTime::NowWithTtl { ttl_ms: asked_ms } => {
            // The filter counts in ticks, which are longer than a millisecond. A time to live could therefore fit
            // although it exceeds the window.
            let remembers = shared.filters.facts(&filter).await?.remembers;
            if remembers < Retention::ForMs(asked_ms) {
                return Err(beyond(&filter, remembers));
            }
            ttl_ms = kept_ttl(shared, &filter, asked_ms).await?;
        }
        EventTime::At { .. } => {
            if shared.filters.facts(&filter).await.is_ok_and(|facts| !facts.needs_times) {
                return Err(CommandRejected::wrong(
                    "events of the filter bring no times (its nodes stamp them, --clock wall): leave AT out",
                ));
            }
        }
    }
    Ok(Found { ttl_ms, ..Found::alone(filter, act) })
}

/// Returns the operation for a claim, a confirmation or a release in a filter.
fn claimed(filter: Arc<str>, facts: Facts, action: Action<'_>) -> Result<Found, CommandRejected> {
    let lease_max = facts.lease_max.ok_or_else(|| no_claims(&filter))?;
    let act = match action {
        Action::Claim(lease_ms) if Duration::from_millis(lease_ms) > lease_max => {
            return Err(too_long(&filter, lease_max));
        }
        Action::Claim(lease_ms) => claim(Duration::from_millis(lease_ms)),
        Action::Release(_) => EventOperation::Release,
        Action::Test | Action::Observe | Action::Confirm(_) => EventOperation::Confirm,
    };
    Ok(Found { needs_times: facts.needs_times, ..Found::alone(filter, act) })
}

/// Creates the error for deleting an event that was not claimed.
pub(super) fn unclaimed_delete_error(filter: &str) -> CommandRejected {
    CommandRejected::wrong(format_args!(
        "cannot forget: filter '{filter}' keeps no claims, so it forgets events only by time. With forget = \"ignore\" in [redis] \
         the reply is 0"
    ))
}

fn no_claims(filter: &str) -> CommandRejected {
    CommandRejected::wrong(format_args!(
        "filter '{filter}' keeps no claims: firstseen filter create --claims 10s makes one that does"
    ))
}

fn too_long(filter: &str, lease_max: Duration) -> CommandRejected {
    CommandRejected::wrong(format_args!(
        "invalid expire time: filter '{filter}' has claims of {} s at most, after which FS.CONFIRM or claim = \
         \"on-expiry-confirm\" records the event",
        lease_max.as_secs_f64()
    ))
}

/// Selects the filter in which a key is set, among all filters that the key is mapped to. If the key has an expiry, the
/// function selects the filter with the shortest window that covers the expiry. If the key has no expiry, it selects
/// the filter with the longest window. If the selected filter supports claims, the key is claimed in that filter
/// instead of being recorded at once.
///
/// The result also contains the other filters of the key. The caller must look up the key in these filters, because the
/// key counts as new only if no filter knows it.
async fn keyed(requester: Requester<'_>, key: &[u8], ttl_ms: Option<u64>) -> Result<Found, CommandRejected> {
    let all = mapped(requester, key).await?;
    let found = chosen(requester.shared, key, &all, ttl_ms).await?;
    let others = all.into_iter().map(|filter| filter.name).filter(|name| *name != found.filter).collect();
    Ok(Found { others, ..found })
}

async fn chosen(
    shared: &Shared,
    key: &[u8],
    all: &[MappedFilter],
    ttl_ms: Option<u64>,
) -> Result<Found, CommandRejected> {
    let longest = all.iter().max_by_key(|filter| filter.facts.remembers);
    let longest = longest.ok_or_else(|| CommandRejected::unmapped(key))?;
    let ttl_ms = match ttl_ms {
        // The key has no expiry, so the filter with the longest window is used.
        None => return set(shared, longest, None),
        // The expiry has already passed. The key is looked up, but not recorded.
        Some(0) => return Ok(Found::alone(longest.name.clone(), EventOperation::Test)),
        Some(ttl_ms) => ttl_ms,
    };
    let asked = Retention::ForMs(ttl_ms);
    let mut fitting: Vec<&MappedFilter> = all.iter().filter(|filter| filter.facts.remembers >= asked).collect();
    fitting.sort_by_key(|filter| filter.facts.remembers);
    let mut refused = beyond(&longest.name, longest.facts.remembers);
    for (nth, filter) in fitting.into_iter().enumerate() {
        match set_for(shared, filter, ttl_ms).await {
            Ok(found) => return Ok(found),
            Err(error) if nth == 0 => refused = error,
            Err(_) => {}
        }
    }
    Err(refused)
}

/// Returns the operation for a key that is set in this filter for at most its window.
async fn set_for(shared: &Shared, filter: &MappedFilter, ttl_ms: u64) -> Result<Found, CommandRejected> {
    let found = set(shared, filter, Some(ttl_ms))?;
    let is_recorded =
        matches!(found.act, EventOperation::Observe | EventOperation::Claim { is_confirmed_by_endpoint: true, .. });
    let ttl_ms = if is_recorded { kept_ttl(shared, &filter.name, ttl_ms).await? } else { None };
    Ok(Found { ttl_ms, ..found })
}

/// Returns the time to live that the filter applies for a requested one, or `None` if it equals the window.
pub(super) async fn kept_ttl(shared: &Shared, filter: &Arc<str>, ttl_ms: u64) -> Result<Option<u64>, CommandRejected> {
    match shared.filters.kept_ttl(filter, ttl_ms).await? {
        KeptTtl::Ms(ttl_ms) => Ok(Some(ttl_ms)),
        KeptTtl::Window => Ok(None),
        KeptTtl::Refused(reason) => Err(CommandRejected::wrong(format_args!("invalid expire time: {reason}"))),
    }
}

/// Returns the time to live that a command gives a key, in milliseconds: 0 if it has already passed, and `None` if the
/// command sets no expiry.
pub(super) fn ttl_ms(expiry: Option<Expiry>, now_ms: Result<u64, Reason>) -> Result<Option<u64>, CommandRejected> {
    Ok(match expiry {
        None => None,
        Some(Expiry::In { ttl_ms }) => Some(ttl_ms),
        Some(Expiry::At { unix_ms }) => Some(unix_ms.saturating_sub(now_ms.map_err(CommandRejected::Undecided)?)),
    })
}

/// Creates the error for a time to live that is longer than the filter's window.
pub(super) fn beyond(filter: &str, remembers: Retention) -> CommandRejected {
    let most = match remembers {
        Retention::ForMs(ms) => format!("{} s", ms as f64 / 1000.0),
        _ => "no time that EX could name".to_owned(),
    };
    CommandRejected::wrong(format_args!(
        "invalid expire time: filter '{filter}' remembers {most}: ask for that at most, or give such keys a filter with a longer \
         window (filter create --window)"
    ))
}

fn set(shared: &Shared, filter: &MappedFilter, ttl_ms: Option<u64>) -> Result<Found, CommandRejected> {
    let MappedFilter { name, facts } = filter;
    let act = match (facts.lease_max, ttl_ms.map(Duration::from_millis)) {
        (None, _) => EventOperation::Observe,
        // The key becomes free again when the claim ends, so the lease serves as the expiry.
        (Some(lease_max), Some(ttl)) if ttl <= lease_max => claim(ttl),
        (Some(lease), _) if shared.common.rules.claim(name) == ClaimRule::OnExpiryConfirm => {
            EventOperation::Claim { lease, is_confirmed_by_endpoint: true }
        }
        (Some(lease_max), None) => claim(lease_max),
        (Some(lease_max), Some(_)) => return Err(too_long(name, lease_max)),
    };
    Ok(Found { needs_times: facts.needs_times, ..Found::alone(name.clone(), act) })
}

fn claim(lease: Duration) -> EventOperation {
    EventOperation::Claim { lease, is_confirmed_by_endpoint: false }
}

/// Returns the filter of a key that allows claims. If no filter of the key does, returns the name of the first filter
/// as the error.
pub(super) async fn with_claims(
    requester: Requester<'_>,
    key: &[u8],
) -> Result<Result<MappedFilter, Arc<str>>, CommandRejected> {
    let all = mapped(requester, key).await?;
    let first = all.first().map(|filter| filter.name.clone());
    let first = first.ok_or_else(|| CommandRejected::unmapped(key))?;
    Ok(all.into_iter().find(|filter| filter.facts.lease_max.is_some()).ok_or(first))
}

/// Filter that a key is mapped to.
pub(super) struct MappedFilter {
    pub(super) name: Arc<str>,
    pub(super) facts: Facts,
}

/// Returns all filters of a key. The user needs the right on each of them.
async fn mapped(
    Requester { shared, client_session, .. }: Requester<'_>,
    key: &[u8],
) -> Result<Vec<MappedFilter>, CommandRejected> {
    let filters = shared.common.names.filters_of(key);
    if filters.is_empty() {
        return Err(CommandRejected::unmapped(key));
    }
    filters.iter().try_for_each(|filter| must(client_session, FilterVerb::Observe, filter))?;
    let mut all = Vec::with_capacity(filters.len());
    for filter in filters {
        match shared.filters.facts(filter).await.map_err(CommandRejected::from) {
            Ok(facts) => all.push(MappedFilter { name: filter.clone(), facts }),
            Err(CommandRejected::NotFound) => return Err(missing(filter)),
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Creates the error for a key that is mapped to a filter which does not exist.
pub(super) fn missing(filter: &str) -> CommandRejected {
    CommandRejected::wrong(format_args!(
        "the key is mapped to filter `{filter}`, which does not exist: create it with firstseen filter create"
    ))
}

fn name_of(name: &[u8]) -> Result<Arc<str>, CommandRejected> {
    std::str::from_utf8(name).map(Arc::from).map_err(|_| CommandRejected::NotFound)
}
