//! Commands that ask about keys of several filters, or about filters.
//!
//! Promises: no filter is created or dropped outside of the sandbox. This module must not depend on how filters are created.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firstseen_backend::{Act, Asked, Guest, Patience, Refused};
use firstseen_client::{Filter, FilterError, Verdict};
use firstseen_resp::{Arguments, BloomInfoField, BloomOptions, Replies};
use firstseen_routing::{FilterVerb, Reason};
use futures_util::future::join_all;

use super::wanted::Errand;
use super::{Shared, claims, make, place};
use crate::form::{self, Form};
use crate::not_asked::NotAsked;
use crate::outbox::Outbox;
use crate::own_claims::OwnClaims;
use crate::sandbox::Made;
use crate::settings::{ForgetRule, GetRule, MissingRule, UndecidedRule};

/// The fields of `BF.INFO`, by the names that clients know.
const BLOOM_FIELDS: [(BloomInfoField, &str); 5] = [
    (BloomInfoField::Capacity, "Capacity"),
    (BloomInfoField::Size, "Size"),
    (BloomInfoField::Filters, "Number of filters"),
    (BloomInfoField::Items, "Number of items inserted"),
    (BloomInfoField::Expansion, "Expansion rate"),
];

/// Carries out such commands.
pub(super) struct Clerk<'a> {
    pub(super) shared: &'a Shared,
    pub(super) guest: &'a dyn Guest,
    pub(super) patience: &'a Patience,
    /// The claims of the connection.
    pub(super) own: &'a mut OwnClaims,
    /// The key that the connection has set last, if it has set it without an expiry.
    pub(super) last_set: Option<&'a [u8]>,
    pub(super) outbox: &'a mut Outbox,
}

impl Clerk<'_> {
    pub(super) async fn carry_out(&mut self, errand: Errand<'_>) {
        match errand {
            Errand::Exists(keys) => {
                let keys: Vec<&[u8]> = keys.iter().collect();
                self.known(&keys, Form::HowManyThere).await;
            }
            // Clients ask for a key of their own to learn whether they are replicas.
            Errand::Get(key) if self.shared.common.names.filters_of(key).is_empty() => self.outbox.replies().null(),
            Errand::Get(key) if self.shared.common.settings.get == GetRule::One => {
                self.known(&[key], Form::OneOrNothing).await;
            }
            Errand::Get(_) => self.refuse("ERR firstseen stores no values: ask EXISTS whether a key was seen"),
            Errand::Overwrite => self.refuse(
                "ERR firstseen stores no values, so it cannot overwrite them: SET key value NX EX seconds records a key that is new",
            ),
            Errand::Expire { key, expiry } => self.expire(key, expiry).await,
            Errand::Delete(keys) => self.delete(keys).await,
            Errand::Remove { filter, items } => self.remove(filter, items).await,
            Errand::Type(key) => {
                let is_filter = self.visible().iter().any(|name| name.as_bytes() == key);
                self.outbox.replies().simple(if is_filter { "MBbloom--" } else { "none" });
            }
            Errand::Filters => {
                let count = self.visible().len();
                self.outbox.replies().integer(i64::try_from(count).unwrap_or(i64::MAX));
            }
            Errand::Flush => self.flush().await,
            Errand::Reserve { filter, options } => self.reserve(filter, options).await,
            Errand::Count(filter) => self.count(filter).await,
            Errand::BloomInfo { filter, field } => match self.described(filter).await {
                Ok(filter) => {
                    let host = &self.shared.common.host;
                    let cell_bytes = host.cell_bytes(filter.name());
                    let made = self.made(&filter);
                    let items = match &made {
                        Some(made) => Some(made.inserted),
                        None => host.recorded_events(filter.name()).await,
                    };
                    let known = BloomInfo { cell_bytes, items, expansion: made.and_then(|made| made.expansion) };
                    bloom_info(self.outbox.replies(), &filter, &known, field);
                }
                Err(error) => self.refuse_filter(error),
            },
            Errand::Info(filter) => match self.described(filter).await {
                Ok(filter) => info(self.outbox.replies(), &filter),
                Err(error) => self.refuse_filter(error),
            },
            Errand::List => {
                let names = self.visible();
                self.outbox.replies().array(names.len());
                names.iter().for_each(|name| self.outbox.replies().bulk(name.as_bytes()));
            }
        }
    }

    async fn remove(&mut self, filter: &[u8], items: Arguments<'_>) {
        let Ok(name) = make::name_of(filter) else { return self.refuse(NotAsked::NotFound) };
        if let Err(refused) = self.guest.may(FilterVerb::Observe, &name, 0) {
            return self.refuse(NotAsked::from(refused));
        }
        match self.shared.filters.facts(&name).await.map_err(NotAsked::from) {
            Ok(facts) if facts.lease_max.is_some() => {
                let items: Vec<&[u8]> = items.iter().collect();
                let Self { shared, guest, patience, own, outbox, .. } = self;
                let releasing = claims::let_go((shared, *guest, patience), own, &name, &items);
                let released = outbox.wait_for(releasing).await;
                self.reply_count(released);
            }
            Ok(_) if self.ignores() => self.outbox.replies().integer(0),
            Ok(_) => self.refuse(place::cannot_forget(&name)),
            Err(NotAsked::NotFound) if self.ignores() || self.shared.common.settings.missing == MissingRule::Zero => {
                self.outbox.replies().integer(0);
            }
            Err(error) => self.refuse(error),
        }
    }

    fn reply_count(&mut self, count: Result<usize, NotAsked>) {
        match count {
            Ok(count) => self.outbox.replies().integer(i64::try_from(count).unwrap_or(i64::MAX)),
            Err(error) => self.refuse(error),
        }
    }

    /// Whether the reply to a command that wants an event forgotten is 0 instead of an error.
    fn ignores(&self) -> bool {
        self.shared.common.settings.forget == ForgetRule::Ignore
    }

    /// Replies how many events a filter of the sandbox has recorded.
    async fn count(&mut self, filter: &[u8]) {
        match self.described(filter).await {
            Ok(filter) => match self.made(&filter) {
                Some(made) => self.outbox.replies().integer(i64::try_from(made.inserted).unwrap_or(i64::MAX)),
                None => {
                    self.refuse(
                        "ERR firstseen does not count the events of a window: `firstseen top` shows about how many",
                    );
                }
            },
            Err(FilterError::NotFound { .. }) => self.outbox.replies().integer(0),
            Err(error) => self.refuse_filter(error),
        }
    }

    /// Replies which of these keys are known, in any of their filters.
    pub(super) async fn known(&mut self, keys: &[&[u8]], form: Form) {
        match self.found(keys).await {
            Ok((verdicts, ruled)) => {
                // Each filter's rule has said its word: what is undecided still is an error.
                let undecided = form::reply(self.outbox.replies(), form, UndecidedRule::Error, &verdicts, &[]);
                self.shared.common.counts.undecided.fetch_add((ruled + undecided) as u64, Ordering::Relaxed);
            }
            Err(error) => self.refuse(error),
        }
    }

    /// Looks for keys in all of their filters, with one call a filter. Returns a verdict for each key, and how many events a filter's
    /// rule has decided.
    pub(super) async fn found(&mut self, keys: &[&[u8]]) -> Result<(Vec<Verdict>, usize), NotAsked> {
        let mut by_filter: BTreeMap<&Arc<str>, Vec<usize>> = BTreeMap::new();
        for (place, key) in keys.iter().enumerate() {
            for filter in self.shared.common.names.filters_of(key) {
                by_filter.entry(filter).or_default().push(place);
            }
        }
        let (mut verdicts, mut ruled) = (vec![Verdict::FirstSeen; keys.len()], 0);
        let desk = (self.shared, self.guest, self.patience);
        let mut asking = Vec::with_capacity(by_filter.len());
        for (filter, places) in &by_filter {
            let items = places.iter().filter_map(|place| keys.get(*place).copied()).collect();
            asking.push(tested(desk, filter, items));
        }
        let all_found = self.outbox.wait_for(join_all(asking)).await;
        for ((filter, places), found) in by_filter.into_iter().zip(all_found) {
            let rule = self.shared.common.rules.undecided(filter);
            let found = match found {
                Ok(found) => found,
                Err(NotAsked::NotFound) if self.shared.common.settings.missing == MissingRule::Zero => continue,
                Err(NotAsked::NotFound) => return Err(place::missing(filter)),
                Err(NotAsked::Undecided(reason)) => vec![Verdict::Undecided(reason); places.len()],
                Err(error) => return Err(error),
            };
            for (place, verdict) in places.iter().zip(found) {
                // What one filter knows is known, whatever the others say; and to Redis a key that is held is there.
                let verdict = match (verdict, rule) {
                    (Verdict::Undecided(Reason::Claimed), _) => Verdict::Duplicate,
                    (Verdict::Undecided(_), UndecidedRule::New | UndecidedRule::Seen) => {
                        ruled += 1;
                        if rule == UndecidedRule::New { Verdict::FirstSeen } else { Verdict::Duplicate }
                    }
                    (verdict, _) => verdict,
                };
                if let Some(known) = verdicts.get_mut(*place).filter(|known| **known != Verdict::Duplicate)
                    && verdict != Verdict::FirstSeen
                {
                    *known = verdict;
                }
            }
        }
        Ok((verdicts, ruled))
    }

    pub(super) fn refuse(&mut self, error: impl Display) {
        self.shared.common.counts.refuse(self.outbox.replies(), error);
    }

    fn refuse_filter(&mut self, error: FilterError) {
        self.refuse(NotAsked::from(error));
    }

    fn made(&self, filter: &Filter) -> Option<Made> {
        self.shared.common.sandbox.as_ref()?.get(filter.name()).filter(|made| made.filter == filter.id())
    }

    async fn reserve(&mut self, name: &[u8], options: BloomOptions) {
        match self.described(name).await {
            Ok(_) => return self.refuse("ERR item exists"),
            Err(FilterError::NotFound { .. }) => {}
            Err(error) => return self.refuse_filter(error),
        }
        let Some(sandbox) = &self.shared.common.sandbox else {
            return self.refuse(
                "ERR filters are made by firstseen filter create, which asks for a window: BF.RESERVE does it in the sandbox alone",
            );
        };
        let made = match make::name_of(name) {
            Ok(name) => make::make(self.shared, sandbox, self.guest, &name, options).await,
            Err(error) => Err(error),
        };
        match made {
            Ok(()) => self.outbox.replies().simple("OK"),
            Err(error) => self.refuse(error),
        }
    }

    /// Drops filters of the sandbox, and releases events that the connection has claimed.
    async fn delete(&mut self, keys: Arguments<'_>) {
        let mut count = 0;
        let mut by_filter: BTreeMap<Arc<str>, Vec<&[u8]>> = BTreeMap::new();
        for key in keys {
            match self.dropped(key).await {
                Ok(true) => count += 1,
                Err(error) => return self.refuse(error),
                // In the sandbox such a name may be that of a filter, which nobody has made.
                Ok(false)
                    if self.shared.common.names.filters_of(key).is_empty()
                        && (self.ignores() || self.shared.common.sandbox.is_some()) => {}
                Ok(false) => match place::with_claims((self.shared, self.guest), key).await {
                    Ok(Ok((filter, _))) => by_filter.entry(filter).or_default().push(key),
                    Ok(Err(_)) if self.ignores() => {}
                    Ok(Err(filter)) => return self.refuse(place::cannot_forget(&filter)),
                    Err(error) => return self.refuse(error),
                },
            }
        }
        let mut released = Ok(count);
        for (filter, keys) in by_filter {
            let Self { shared, guest, patience, own, outbox, .. } = self;
            let releasing = claims::let_go((shared, *guest, patience), own, &filter, &keys);
            // What one filter cannot let go keeps nothing of the others.
            released = outbox.wait_for(releasing).await.and_then(|more| Ok(released? + more));
        }
        self.reply_count(released);
    }

    /// Drops a filter of the sandbox. Returns false if there is none of this name.
    async fn dropped(&self, key: &[u8]) -> Result<bool, String> {
        let (Some(sandbox), Ok(name)) = (&self.shared.common.sandbox, make::name_of(key)) else { return Ok(false) };
        make::drop_named(self.shared, sandbox, self.guest, &name).await
    }

    async fn flush(&mut self) {
        let Some(sandbox) = &self.shared.common.sandbox else {
            return self.refuse("ERR filters are dropped by firstseen filter drop: nobody drops all of them by a slip");
        };
        for name in sandbox.names() {
            if let Err(error) = make::drop_named(self.shared, sandbox, self.guest, &name).await {
                return self.refuse(error);
            }
        }
        self.outbox.replies().simple("OK");
    }

    /// Returns the names of the filters that the guest may know of.
    fn visible(&self) -> Vec<String> {
        let mut names = self.shared.filters.all();
        names.retain(|name| self.guest.sees(name));
        names
    }

    async fn described(&self, name: &[u8]) -> Result<Filter, FilterError> {
        let not_found =
            || FilterError::NotFound { name: String::from_utf8_lossy(name).into_owned(), there: Vec::new() };
        let name = Arc::<str>::from(std::str::from_utf8(name).map_err(|_| not_found())?);
        match self.guest.may(FilterVerb::Describe, &name, 0) {
            Ok(()) | Err(Refused::Spent(_)) => self.shared.filters.get(&name).await,
            Err(Refused::Forbidden(reason)) => Err(FilterError::Refused { name: name.to_string(), reason }),
            Err(Refused::Unknown) => {
                let reason = "say who you are: AUTH NAME TOKEN".to_owned();
                Err(FilterError::Refused { name: name.to_string(), reason })
            }
        }
    }
}

/// Looks up items in a filter.
async fn tested(
    (shared, guest, patience): (&Shared, &dyn Guest, &Patience),
    filter: &Arc<str>,
    items: Vec<&[u8]>,
) -> Result<Vec<Verdict>, NotAsked> {
    let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
    guest.may(FilterVerb::Lookup, filter, count).map_err(|refused| match refused {
        Refused::Spent(_) => NotAsked::Undecided(Reason::Overloaded),
        refused => NotAsked::from(refused),
    })?;
    let at_ms = shared.filters.now_ms();
    let asked = Asked { items: &items, names: &[], fences: &[], act: Act::Test, at_ms, times_ms: &[], ttl_ms: None };
    Ok(patience.ask(&shared.filters, filter, &asked).await?.verdicts)
}

/// The fields of `BF.INFO` that the definition of a filter does not have.
struct BloomInfo {
    cell_bytes: Option<u64>,
    /// The exact number in the sandbox, an estimate elsewhere.
    items: Option<u64>,
    expansion: Option<u16>,
}

fn bloom_info(replies: &mut Replies, filter: &Filter, known: &BloomInfo, field: Option<BloomInfoField>) {
    let (group, groups) = (&filter.definition().group, filter.definition().slicing.groups());
    let value = |field| match field {
        // Each group has its share of the events.
        BloomInfoField::Capacity => group.capacity_events.map(|events| events.saturating_mul(groups.into())),
        BloomInfoField::Size => known.cell_bytes,
        BloomInfoField::Filters => Some(1),
        BloomInfoField::Items => known.items,
        BloomInfoField::Expansion => known.expansion.map(u64::from),
    };
    let write = |replies: &mut Replies, field| match value(field) {
        Some(value) => replies.integer(i64::try_from(value).unwrap_or(i64::MAX)),
        None => replies.null(),
    };
    let Some(field) = field else {
        replies.map(BLOOM_FIELDS.len());
        for (field, name) in BLOOM_FIELDS {
            replies.bulk(name.as_bytes());
            write(replies, field);
        }
        return;
    };
    // Version 3 has a map of one entry, version 2 an array of one value.
    match replies.protocol() {
        firstseen_resp::Protocol::Resp2 => replies.array(1),
        firstseen_resp::Protocol::Resp3 => {
            replies.map(1);
            let name = BLOOM_FIELDS.iter().find(|(known, _)| *known == field).map_or("", |(_, name)| name);
            replies.bulk(name.as_bytes());
        }
    }
    write(replies, field);
}

fn info(replies: &mut Replies, filter: &Filter) {
    let group = &filter.definition().group;
    let texts = [
        ("filter", filter.name().to_owned()),
        ("window", group.window.to_string()),
        ("kind", group.cells.kind().to_string()),
        ("slicing", filter.definition().slicing.to_string()),
    ];
    replies.map(texts.len());
    for (name, text) in texts {
        replies.bulk(name.as_bytes());
        replies.bulk(text.as_bytes());
    }
}
