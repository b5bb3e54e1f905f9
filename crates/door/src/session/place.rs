//! Where the events of a command belong, and what is done with them there.
//!
//! Promises: a key whose life is longer than any of its filters remembers is refused, never cut short, and so is a claim whose lease
//! is longer than the filter grants. Must not know: what is replied.

use std::sync::Arc;
use std::time::Duration;

use firstseen_resp::EventTime;

use super::Shared;
use super::wanted::{Place, Wish};
use crate::filters::{Act, Facts, Remembers};
use crate::not_asked::NotAsked;
use crate::settings::ClaimRule;

/// What is done with events, and where.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) filter: Arc<str>,
    pub(super) act: Act,
    /// For how long they are remembered, where not for the window.
    pub(super) life_ms: Option<u64>,
    /// Whether they bring their times.
    pub(super) needs_times: bool,
}

/// What was found last: clients ask much the same again.
#[derive(Default)]
pub(super) struct Placed {
    named: Option<Arc<str>>,
    keyed: Option<Keyed>,
}

/// What was found for keys that begin alike and ask for the same time.
struct Keyed {
    prefix: usize,
    lifetime_ms: Option<u64>,
    /// Of the map that was looked at.
    version: u64,
    found: Found,
}

impl Placed {
    /// Looks for the filter of a command.
    pub(super) async fn find(
        &mut self,
        shared: &Shared,
        place: Place<'_>,
        wish: Wish<'_>,
        time: EventTime,
    ) -> Result<Found, NotAsked> {
        match (place, wish, time) {
            (Place::Filter(name), Wish::Test | Wish::Observe, EventTime::Now) => {
                let filter = match self.named.as_ref().filter(|named| named.as_bytes() == name) {
                    Some(named) => named.clone(),
                    None => self.named.insert(name_of(name)?).clone(),
                };
                let act = if wish == Wish::Test { Act::Test } else { Act::Observe };
                Ok(Found { filter, act, life_ms: None, needs_times: false })
            }
            (Place::Key { key, lifetime_ms }, Wish::Observe, _) => {
                let prefix = shared.common.names.prefix_of(key).ok_or_else(unmapped)?;
                let version = shared.filters.map_version();
                let is_same =
                    |was: &&Keyed| (was.prefix, was.lifetime_ms, was.version) == (prefix, lifetime_ms, version);
                if let Some(keyed) = self.keyed.as_ref().filter(is_same) {
                    return Ok(keyed.found.clone());
                }
                let found = keyed(shared, key, lifetime_ms).await?;
                self.keyed = Some(Keyed { prefix, lifetime_ms, version, found: found.clone() });
                Ok(found)
            }
            _ => find(shared, place, wish, time).await,
        }
    }
}

async fn find(shared: &Shared, place: Place<'_>, wish: Wish<'_>, time: EventTime) -> Result<Found, NotAsked> {
    match (place, wish) {
        (Place::Filter(name), Wish::Test | Wish::Observe) => named(shared, name, wish, time).await,
        (Place::Filter(name), _) => {
            let name = name_of(name)?;
            let facts = shared.filters.facts(&name).await?;
            claimed(name, facts, wish)
        }
        (Place::Key { key, lifetime_ms }, Wish::Test | Wish::Observe) => keyed(shared, key, lifetime_ms).await,
        (Place::Key { key, .. }, _) => {
            let (filter, facts) = with_claims(shared, key).await?;
            claimed(filter, facts, wish)
        }
    }
}

async fn named(shared: &Shared, name: &[u8], wish: Wish<'_>, time: EventTime) -> Result<Found, NotAsked> {
    let filter = name_of(name)?;
    let mut life_ms = None;
    match time {
        EventTime::Now => {}
        EventTime::NowFor { lifetime_ms } => {
            shared.filters.takes_life(&filter, lifetime_ms).await.map_err(NotAsked::wrong)?;
            life_ms = Some(lifetime_ms);
        }
        EventTime::At { .. } => {
            if shared.filters.facts(&filter).await.is_ok_and(|facts| !facts.needs_times) {
                return Err(NotAsked::wrong(
                    "events of the filter bring no times (its nodes stamp them, --clock wall): leave AT out",
                ));
            }
        }
    }
    let act = if wish == Wish::Test { Act::Test } else { Act::Observe };
    Ok(Found { filter, act, life_ms, needs_times: false })
}

/// A claim, or what ends one, by a filter that is like this.
fn claimed(filter: Arc<str>, facts: Facts, wish: Wish<'_>) -> Result<Found, NotAsked> {
    let lease_max = facts.lease_max.ok_or_else(|| {
        NotAsked::wrong(format_args!(
            "filter '{filter}' keeps no claims: firstseen filter create --claims 10s makes one"
        ))
    })?;
    let act = match wish {
        Wish::Claim(lease_ms) if Duration::from_millis(lease_ms) > lease_max => {
            return Err(too_long(&filter, lease_max));
        }
        Wish::Claim(lease_ms) => Act::Claim(Duration::from_millis(lease_ms)),
        Wish::Release(_) => Act::Release,
        Wish::Test | Wish::Observe | Wish::Confirm(_) => Act::Confirm,
    };
    Ok(Found { filter, act, life_ms: None, needs_times: facts.needs_times })
}

fn too_long(filter: &str, lease_max: Duration) -> NotAsked {
    NotAsked::wrong(format_args!(
        "invalid expire time: filter '{filter}' has claims of {} s at most, after which FS.CONFIRM or claim = \
         \"on-expiry-confirm\" records the event",
        lease_max.as_secs_f64()
    ))
}

/// The filter of a key that is set: of those to which it is mapped, the one with the shortest window that is as long as it asks for;
/// and the key's life, where that is shorter and the filter takes such. In a filter with claims the key is claimed.
async fn keyed(shared: &Shared, key: &[u8], lifetime_ms: Option<u64>) -> Result<Found, NotAsked> {
    let all = mapped(shared, key).await?;
    let longest = all.iter().max_by_key(|(_, facts)| facts.remembers).ok_or_else(unmapped)?;
    // Without a time the key is to stay: the filter that remembers for the longest does what can be done.
    let Some(lifetime_ms) = lifetime_ms else { return set(shared, longest, None) };
    let fits = |facts: &Facts| facts.remembers >= Remembers::ForMs(lifetime_ms);
    let fitting = all.iter().filter(|(_, facts)| fits(facts)).min_by_key(|(_, facts)| facts.remembers);
    let Some(shortest) = fitting else {
        let most = match longest.1.remembers {
            Remembers::ForMs(ms) => format!("{} s", ms as f64 / 1000.0),
            _ => "no time that EX could name".to_owned(),
        };
        return Err(NotAsked::wrong(format_args!("invalid expire time: filter '{}' remembers {most}", longest.0)));
    };
    let (filter, facts) = shortest;
    let mut found = set(shared, shortest, Some(lifetime_ms))?;
    // Where events have no lives of their own, or this one is nearly the window, it is remembered for the window.
    let is_shorter = facts.remembers > Remembers::ForMs(lifetime_ms) && found.act == Act::Observe;
    if is_shorter && shared.filters.takes_life(filter, lifetime_ms).await.is_ok() {
        found.life_ms = Some(lifetime_ms);
    }
    Ok(found)
}

fn set(shared: &Shared, (filter, facts): &(Arc<str>, Facts), lifetime_ms: Option<u64>) -> Result<Found, NotAsked> {
    let act = match facts.lease_max {
        None => Act::Observe,
        Some(lease_max) => match lifetime_ms.map(Duration::from_millis) {
            // What the door confirms is remembered for the window from then on.
            Some(life) if life > lease_max && shared.common.rules.claim(filter) == ClaimRule::Explicit => {
                return Err(too_long(filter, lease_max));
            }
            _ if shared.common.rules.claim(filter) == ClaimRule::OnExpiryConfirm => Act::Claim(lease_max),
            life => Act::Claim(life.unwrap_or(lease_max).min(lease_max)),
        },
    };
    Ok(Found { filter: filter.clone(), act, life_ms: None, needs_times: facts.needs_times })
}

/// Of the filters of a key, the one that keeps claims.
pub(super) async fn with_claims(shared: &Shared, key: &[u8]) -> Result<(Arc<str>, Facts), NotAsked> {
    let all = mapped(shared, key).await?;
    let first = all.first().map(|(filter, _)| filter.clone());
    let keeps = all.into_iter().find(|(_, facts)| facts.lease_max.is_some());
    keeps.ok_or_else(|| {
        let filter = first.as_deref().unwrap_or_default();
        NotAsked::wrong(format_args!("cannot forget: filter '{filter}' keeps no claims"))
    })
}

/// All filters of a key, and what they are like.
async fn mapped(shared: &Shared, key: &[u8]) -> Result<Vec<(Arc<str>, Facts)>, NotAsked> {
    let filters = shared.common.names.filters_of(key);
    if filters.is_empty() {
        return Err(unmapped());
    }
    let mut all = Vec::with_capacity(filters.len());
    for filter in filters {
        match shared.filters.facts(filter).await.map_err(NotAsked::from) {
            Ok(facts) => all.push((filter.clone(), facts)),
            Err(NotAsked::NotFound) => {
                return Err(NotAsked::wrong(format_args!(
                    "the key is mapped to filter `{filter}`, which there is not: firstseen filter create makes it"
                )));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

fn unmapped() -> NotAsked {
    NotAsked::wrong("no filter is mapped to this key: [[redis.prefix]] in the node's configuration maps keys")
}

fn name_of(name: &[u8]) -> Result<Arc<str>, NotAsked> {
    std::str::from_utf8(name).map(Arc::from).map_err(|_| NotAsked::NotFound)
}
