//! Where the events of a command belong, and what is done with them there.
//!
//! Promises: a key whose life is longer than any of its filters remembers is refused, never cut short, and so is a claim whose lease
//! is longer than the filter grants; who has no right on a filter learns nothing of it, not even whether it is there. Must not know:
//! what is replied.

use std::sync::Arc;
use std::time::Duration;

use firstseen_resp::EventTime;

use firstseen_routing::FilterVerb;

use super::Shared;
use super::wanted::{Place, Wish};
use crate::filters::{Act, Facts, Remembers};
use crate::host::Guest;
use crate::not_asked::NotAsked;
use crate::settings::ClaimRule;

/// Who looks for a filter, and where.
pub(super) type Seeker<'a> = (&'a Shared, &'a dyn Guest);

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

/// How much is kept of what was found, and bytes of a name that is.
const KEPT_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 256;

/// What was found lately: clients ask much the same again.
#[derive(Default)]
pub(super) struct Placed {
    named: Vec<Arc<str>>,
    keyed: Vec<Keyed>,
    /// Of the map that was looked at.
    version: u64,
}

/// What was found for keys that begin alike and ask for the same time.
struct Keyed {
    prefix: usize,
    lifetime_ms: Option<u64>,
    found: Found,
}

impl Placed {
    /// Looks for the filter of a command.
    pub(super) async fn find(
        &mut self,
        seeker: Seeker<'_>,
        place: Place<'_>,
        wish: Wish<'_>,
        time: EventTime,
    ) -> Result<Found, NotAsked> {
        match (place, wish, time) {
            (Place::Filter(name), Wish::Test | Wish::Observe, EventTime::Now) => {
                let act = if wish == Wish::Test { Act::Test } else { Act::Observe };
                Ok(Found { filter: self.named(name)?, act, life_ms: None, needs_times: false })
            }
            (Place::Key { key, lifetime_ms }, Wish::Observe, _) => self.keyed(seeker, key, lifetime_ms).await,
            _ => find(seeker, place, wish, time).await,
        }
    }

    fn named(&mut self, name: &[u8]) -> Result<Arc<str>, NotAsked> {
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
        (shared, guest): Seeker<'_>,
        key: &[u8],
        lifetime_ms: Option<u64>,
    ) -> Result<Found, NotAsked> {
        let prefix = shared.common.names.prefix_of(key).ok_or_else(unmapped)?;
        let version = shared.filters.map_version();
        if version != self.version || self.keyed.len() >= KEPT_MAX {
            self.keyed.clear();
            self.version = version;
        }
        let is_same = |was: &&Keyed| (was.prefix, was.lifetime_ms) == (prefix, lifetime_ms);
        if let Some(keyed) = self.keyed.iter().find(is_same) {
            return Ok(keyed.found.clone());
        }
        let found = keyed((shared, guest), key, lifetime_ms).await?;
        self.keyed.push(Keyed { prefix, lifetime_ms, found: found.clone() });
        Ok(found)
    }
}

async fn find(seeker: Seeker<'_>, place: Place<'_>, wish: Wish<'_>, time: EventTime) -> Result<Found, NotAsked> {
    let (shared, guest) = seeker;
    match (place, wish) {
        (Place::Filter(name), Wish::Test | Wish::Observe) => named(seeker, name, wish, time).await,
        (Place::Filter(name), _) => {
            let name = name_of(name)?;
            must(guest, FilterVerb::Observe, &name)?;
            let facts = shared.filters.facts(&name).await?;
            claimed(name, facts, wish)
        }
        (Place::Key { key, lifetime_ms }, Wish::Test | Wish::Observe) => keyed(seeker, key, lifetime_ms).await,
        (Place::OnlyOf { key }, _) => {
            let filter = shared.common.names.only_filter([key].into_iter()).ok_or_else(unmapped)?.clone();
            Ok(Found { filter, act: Act::Test, life_ms: None, needs_times: false })
        }
        (Place::Key { key, .. }, _) => {
            let (filter, facts) = match with_claims(seeker, key).await? {
                Ok(keeps) => keeps,
                Err(filter) => return Err(no_claims(&filter)),
            };
            claimed(filter, facts, wish)
        }
    }
}

/// Refuses who has no right on a filter, in the same words whether it is there or not.
fn must(guest: &dyn Guest, verb: FilterVerb, filter: &str) -> Result<(), NotAsked> {
    guest.may(verb, filter, 0).map_err(|refused| NotAsked::Refused(refused.to_string()))
}

async fn named((shared, guest): Seeker<'_>, name: &[u8], wish: Wish<'_>, time: EventTime) -> Result<Found, NotAsked> {
    let filter = name_of(name)?;
    let act = if wish == Wish::Test { Act::Test } else { Act::Observe };
    must(guest, act.verb(), &filter)?;
    let mut life_ms = None;
    match time {
        EventTime::Now => {}
        EventTime::NowFor { lifetime_ms } => {
            let life = shared.filters.life(&filter, lifetime_ms).await?.map_err(NotAsked::wrong)?;
            // Ticks are longer than milliseconds, and a life may fit that is longer than the window.
            let remembers = shared.filters.facts(&filter).await?.remembers;
            if remembers < Remembers::ForMs(lifetime_ms) {
                return Err(beyond(&filter, remembers));
            }
            life_ms = Some(life);
        }
        EventTime::At { .. } => {
            if shared.filters.facts(&filter).await.is_ok_and(|facts| !facts.needs_times) {
                return Err(NotAsked::wrong(
                    "events of the filter bring no times (its nodes stamp them, --clock wall): leave AT out",
                ));
            }
        }
    }
    Ok(Found { filter, act, life_ms, needs_times: false })
}

/// A claim, or what ends one, by a filter that is like this.
fn claimed(filter: Arc<str>, facts: Facts, wish: Wish<'_>) -> Result<Found, NotAsked> {
    let lease_max = facts.lease_max.ok_or_else(|| no_claims(&filter))?;
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

/// What is said to who wants something forgotten that was not claimed.
pub(super) fn cannot_forget(filter: &str) -> NotAsked {
    NotAsked::wrong(format_args!(
        "cannot forget: filter '{filter}' keeps no claims, and so forgets by time alone. forget = \"ignore\" in [redis] has 0 replied"
    ))
}

fn no_claims(filter: &str) -> NotAsked {
    NotAsked::wrong(format_args!(
        "filter '{filter}' keeps no claims: firstseen filter create --claims 10s makes one that does"
    ))
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
async fn keyed(seeker: Seeker<'_>, key: &[u8], lifetime_ms: Option<u64>) -> Result<Found, NotAsked> {
    let (shared, _) = seeker;
    let all = mapped(seeker, key).await?;
    let longest = all.iter().max_by_key(|(_, facts)| facts.remembers).ok_or_else(unmapped)?;
    // Without a time the key is to stay: the filter that remembers for the longest does what can be done.
    let Some(lifetime_ms) = lifetime_ms else { return set(shared, longest, None) };
    let fits = |facts: &Facts| facts.remembers >= Remembers::ForMs(lifetime_ms);
    let fitting = all.iter().filter(|(_, facts)| fits(facts)).min_by_key(|(_, facts)| facts.remembers);
    let Some(shortest) = fitting else {
        return Err(beyond(&longest.0, longest.1.remembers));
    };
    let (filter, facts) = shortest;
    let mut found = set(shared, shortest, Some(lifetime_ms))?;
    // Where events have no lives of their own, or this one is nearly the window, it is remembered for the window.
    let is_shorter = facts.remembers > Remembers::ForMs(lifetime_ms) && found.act == Act::Observe;
    if is_shorter {
        found.life_ms = shared.filters.life(filter, lifetime_ms).await?.ok();
    }
    Ok(found)
}

/// What is said to who asks for a life that is longer than what a filter remembers.
fn beyond(filter: &str, remembers: Remembers) -> NotAsked {
    let most = match remembers {
        Remembers::ForMs(ms) => format!("{} s", ms as f64 / 1000.0),
        _ => "no time that EX could name".to_owned(),
    };
    NotAsked::wrong(format_args!("invalid expire time: filter '{filter}' remembers {most}"))
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

/// Of the filters of a key, the one that keeps claims; where none does, the name of the first.
pub(super) async fn with_claims(
    seeker: Seeker<'_>,
    key: &[u8],
) -> Result<Result<(Arc<str>, Facts), Arc<str>>, NotAsked> {
    let all = mapped(seeker, key).await?;
    let first = all.first().map(|(filter, _)| filter.clone()).ok_or_else(unmapped)?;
    Ok(all.into_iter().find(|(_, facts)| facts.lease_max.is_some()).ok_or(first))
}

/// All filters of a key, and what they are like; a key takes the right on all of them.
async fn mapped((shared, guest): Seeker<'_>, key: &[u8]) -> Result<Vec<(Arc<str>, Facts)>, NotAsked> {
    let filters = shared.common.names.filters_of(key);
    if filters.is_empty() {
        return Err(unmapped());
    }
    filters.iter().try_for_each(|filter| must(guest, FilterVerb::Observe, filter))?;
    let mut all = Vec::with_capacity(filters.len());
    for filter in filters {
        match shared.filters.facts(filter).await.map_err(NotAsked::from) {
            Ok(facts) => all.push((filter.clone(), facts)),
            Err(NotAsked::NotFound) => return Err(missing(filter)),
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// What is said where a key is mapped to a filter that there is not.
pub(super) fn missing(filter: &str) -> NotAsked {
    NotAsked::wrong(format_args!(
        "the key is mapped to filter `{filter}`, which there is not: firstseen filter create makes it"
    ))
}

fn unmapped() -> NotAsked {
    NotAsked::wrong("no filter is mapped to this key: [[redis.prefix]] in the node's configuration maps keys")
}

fn name_of(name: &[u8]) -> Result<Arc<str>, NotAsked> {
    std::str::from_utf8(name).map(Arc::from).map_err(|_| NotAsked::NotFound)
}
