//! Executes commands that ask about keys of several filters, or about filters.
//!
//! Filters are created and dropped only in the sandbox mode.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firstseen_backend::{EventCall, EventOperation, Refused};
use firstseen_client::{Filter, FilterError, Verdict};
use firstseen_resp::{Arguments, BloomInfoField, BloomOptions, Replies};
use firstseen_routing::{FilterVerb, Reason};
use futures_util::future::join_all;

use super::event_query::FilterCommand;
use super::{Requester, claims, make, place};
use crate::command_rejected::CommandRejected;
use crate::outbox::Outbox;
use crate::own_claims::OwnClaims;
use crate::reply_shape::{self, ReplyShape};
use crate::sandbox::Made;
use crate::settings::{ForgetRule, GetRule, MissingRule, UndecidedRule};

/// Fields of the reply to `BF.INFO`, with the names that client libraries expect.
const BLOOM_FIELDS: [(BloomInfoField, &str); 5] = [
    (BloomInfoField::Capacity, "Capacity"),
    (BloomInfoField::Size, "Size"),
    (BloomInfoField::Filters, "Number of filters"),
    (BloomInfoField::Items, "Number of items inserted"),
    (BloomInfoField::Expansion, "Expansion rate"),
];

/// Handler for these commands.
pub(super) struct CommandHandler<'a> {
    pub(super) requester: Requester<'a>,
    /// Claims of the connection.
    pub(super) own: &'a mut OwnClaims,
    /// Key that the connection has set most recently, if it was set without an expiry.
    pub(super) last_set: Option<&'a [u8]>,
    pub(super) outbox: &'a mut Outbox,
}

impl CommandHandler<'_> {
    pub(super) async fn carry_out(&mut self, command: FilterCommand<'_>) {
        match command {
            FilterCommand::Exists(keys) => {
                let keys: Vec<&[u8]> = keys.iter().collect();
                let names = &self.requester.shared.common.names;
                // The reply 0 would tell a program with a mistyped prefix that all of its events are new.
                match keys.iter().find(|key| names.filters_of(key).is_empty()) {
                    Some(key) => self.refuse(CommandRejected::unmapped(key)),
                    None => self.known(&keys, ReplyShape::HowManyThere).await,
                }
            }
            // Some client libraries read a private key to find out whether the server is a replica.
            FilterCommand::Get(key) if self.requester.shared.common.names.filters_of(key).is_empty() => self.outbox.replies().null(),
            FilterCommand::Get(key) if self.requester.shared.common.settings.get == GetRule::One => {
                self.known(&[key], ReplyShape::OneOrNothing).await;
            }
            FilterCommand::Get(_) => self.refuse("ERR firstseen stores no values: ask EXISTS whether a key was seen"),
            FilterCommand::Overwrite => self.refuse(
                "ERR firstseen stores no values, so it cannot overwrite them: SET key value NX EX seconds records a key that is new",
            ),
            FilterCommand::Expire { key, expiry } => self.expire(key, expiry).await,
            FilterCommand::Delete(keys) => self.delete(keys).await,
            FilterCommand::Remove { filter, items } => self.remove(filter, items).await,
            FilterCommand::Type(key) => {
                let is_filter = self.visible().iter().any(|name| name.as_bytes() == key);
                self.outbox.replies().simple(if is_filter { "MBbloom--" } else { "none" });
            }
            FilterCommand::Filters => {
                let count = self.visible().len();
                self.outbox.replies().integer(i64::try_from(count).unwrap_or(i64::MAX));
            }
            FilterCommand::Flush => self.flush().await,
            FilterCommand::Reserve { filter, options } => self.reserve(filter, options).await,
            FilterCommand::Count(filter) => self.count(filter).await,
            FilterCommand::BloomInfo { filter, field } => match self.described(filter).await {
                Ok(filter) => {
                    let host = &self.requester.shared.common.host;
                    let cell_bytes = host.cell_bytes(filter.info().name);
                    let made = self.made(&filter);
                    let items = match &made {
                        Some(made) => Some(made.inserted),
                        None => host.recorded_events(filter.info().name).await,
                    };
                    let known = BloomInfo { cell_bytes, items, expansion: made.and_then(|made| made.expansion) };
                    bloom_info(self.outbox.replies(), &filter, &known, field);
                }
                Err(error) => self.refuse_filter(error),
            },
            FilterCommand::Info(name) => match self.described(name).await {
                Ok(filter) => info(self.outbox.replies(), &filter),
                Err(error) => self.refuse(CommandRejected::from(error).naming(name)),
            },
            FilterCommand::List => {
                let names = self.visible();
                self.outbox.replies().array(names.len());
                names.iter().for_each(|name| self.outbox.replies().bulk(name.as_bytes()));
            }
        }
    }

    async fn remove(&mut self, filter: &[u8], items: Arguments<'_>) {
        let Ok(name) = make::name_of(filter) else { return self.refuse(CommandRejected::NotFound.naming(filter)) };
        if let Err(refused) = self.requester.client_session.may(FilterVerb::Observe, &name, 0) {
            return self.refuse(CommandRejected::from(refused));
        }
        match self.requester.shared.filters.facts(&name).await.map_err(CommandRejected::from) {
            Ok(facts) if facts.lease_max.is_some() => {
                let items: Vec<&[u8]> = items.iter().collect();
                let releasing = claims::release(self.requester, self.own, &name, &items);
                let released = self.outbox.wait_for(releasing).await;
                self.reply_count(released);
            }
            Ok(_) if self.ignores() => self.outbox.replies().integer(0),
            Ok(_) => self.refuse(place::unclaimed_delete_error(&name)),
            Err(CommandRejected::NotFound)
                if self.ignores() || self.requester.shared.common.settings.missing == MissingRule::Zero =>
            {
                self.outbox.replies().integer(0);
            }
            Err(error) => self.refuse(error.naming(filter)),
        }
    }

    fn reply_count(&mut self, count: Result<usize, CommandRejected>) {
        match count {
            Ok(count) => self.outbox.replies().integer(i64::try_from(count).unwrap_or(i64::MAX)),
            Err(error) => self.refuse(error),
        }
    }

    /// Returns whether the reply to a command that deletes an event is 0 instead of an error.
    fn ignores(&self) -> bool {
        self.requester.shared.common.settings.forget == ForgetRule::Ignore
    }

    /// Replies with the number of events that a filter of the sandbox has recorded.
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

    /// Replies which of these keys exist in any of their filters.
    pub(super) async fn known(&mut self, keys: &[&[u8]], form: ReplyShape) {
        match self.found(keys).await {
            Ok((verdicts, ruled)) => {
                // The rule of each filter has already been applied, so a verdict that is still undecided is an error.
                let undecided = reply_shape::reply(self.outbox.replies(), form, UndecidedRule::Error, &verdicts, &[]);
                self.requester.shared.common.counts.undecided.fetch_add((ruled + undecided) as u64, Ordering::Relaxed);
            }
            Err(error) => self.refuse(error),
        }
    }

    /// Looks up keys in all filters that the keys are mapped to, with one call for each filter. If a filter cannot
    /// decide an event, a setting of that filter may say which verdict is used instead of undecided. Returns a verdict
    /// for each key, and the number of undecided verdicts that were replaced in this way.
    pub(super) async fn found(&mut self, keys: &[&[u8]]) -> Result<(Vec<Verdict>, usize), CommandRejected> {
        let mut by_filter: BTreeMap<&Arc<str>, Vec<usize>> = BTreeMap::new();
        for (place, key) in keys.iter().enumerate() {
            for filter in self.requester.shared.common.names.filters_of(key) {
                by_filter.entry(filter).or_default().push(place);
            }
        }
        let mut verdicts = vec![Verdict::FirstSeen; keys.len()];
        let mut ruled = 0;
        let mut asking = Vec::with_capacity(by_filter.len());
        for (filter, places) in &by_filter {
            let items = places.iter().filter_map(|place| keys.get(*place).copied()).collect();
            asking.push(tested(self.requester, filter, items));
        }
        let all_found = self.outbox.wait_for(join_all(asking)).await;
        for ((filter, places), found) in by_filter.into_iter().zip(all_found) {
            let rule = self.requester.shared.common.rules.undecided(filter);
            let found = match found {
                Ok(found) => found,
                Err(CommandRejected::NotFound)
                    if self.requester.shared.common.settings.missing == MissingRule::Zero =>
                {
                    continue;
                }
                Err(CommandRejected::NotFound) => return Err(place::missing(filter)),
                Err(CommandRejected::Undecided(reason)) => vec![Verdict::Undecided(reason); places.len()],
                Err(error) => return Err(error),
            };
            for (place, verdict) in places.iter().zip(found) {
                // A key that one filter knows exists, whatever other filters say. A key that a consumer holds also
                // counts as existing for Redis commands.
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
        self.requester.shared.common.counts.refuse(self.outbox.replies(), error);
    }

    fn refuse_filter(&mut self, error: FilterError) {
        self.refuse(CommandRejected::from(error));
    }

    fn made(&self, filter: &Filter) -> Option<Made> {
        self.requester
            .shared
            .common
            .sandbox
            .as_ref()?
            .get(filter.info().name)
            .filter(|made| made.filter == filter.info().id)
    }

    async fn reserve(&mut self, name: &[u8], options: BloomOptions) {
        match self.described(name).await {
            Ok(_) => return self.refuse("ERR item exists"),
            Err(FilterError::NotFound { .. }) => {}
            Err(error) => return self.refuse_filter(error),
        }
        let Some(sandbox) = &self.requester.shared.common.sandbox else {
            return self.refuse(
                "ERR create filters with firstseen filter create, because they need a window: BF.RESERVE \
                 works only in the sandbox",
            );
        };
        let made = match make::name_of(name) {
            Ok(name) => make::make(self.requester.shared, sandbox, self.requester.client_session, &name, options).await,
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
                // In sandbox mode the name may be that of a filter which no client has created yet.
                Ok(false)
                    if self.requester.shared.common.names.filters_of(key).is_empty()
                        && (self.ignores() || self.requester.shared.common.sandbox.is_some()) => {}
                Ok(false) => match place::with_claims(self.requester, key).await {
                    Ok(Ok(filter)) => by_filter.entry(filter.name).or_default().push(key),
                    Ok(Err(_)) if self.ignores() => {}
                    Ok(Err(filter)) => return self.refuse(place::unclaimed_delete_error(&filter)),
                    Err(error) => return self.refuse(error),
                },
            }
        }
        let mut released = Ok(count);
        for (filter, keys) in by_filter {
            let releasing = claims::release(self.requester, self.own, &filter, &keys);
            // If a filter cannot release its keys, the other filters still release theirs.
            released = self.outbox.wait_for(releasing).await.and_then(|more| Ok(released? + more));
        }
        self.reply_count(released);
    }

    /// Drops a filter of the sandbox. Returns `false` if there is no such filter.
    async fn dropped(&self, key: &[u8]) -> Result<bool, String> {
        let (Some(sandbox), Ok(name)) = (&self.requester.shared.common.sandbox, make::name_of(key)) else {
            return Ok(false);
        };
        make::drop_named(self.requester.shared, sandbox, self.requester.client_session, &name).await
    }

    async fn flush(&mut self) {
        let Some(sandbox) = &self.requester.shared.common.sandbox else {
            return self.refuse("ERR drop filters with firstseen filter drop: no command drops all of them at once");
        };
        for name in sandbox.names() {
            if let Err(error) =
                make::drop_named(self.requester.shared, sandbox, self.requester.client_session, &name).await
            {
                return self.refuse(error);
            }
        }
        self.outbox.replies().simple("OK");
    }

    /// Returns the names of the filters that the user may see.
    fn visible(&self) -> Vec<String> {
        let mut names = self.requester.shared.filters.all();
        names.retain(|name| self.requester.client_session.sees(name));
        names
    }

    async fn described(&self, name: &[u8]) -> Result<Filter, FilterError> {
        let Ok(name) = std::str::from_utf8(name).map(Arc::<str>::from) else {
            let name = String::from_utf8_lossy(name).into_owned();
            return Err(FilterError::NotFound { name, there: Vec::new() });
        };
        match self.requester.client_session.may(FilterVerb::Describe, &name, 0) {
            Ok(()) | Err(Refused::Spent(_)) => self.requester.shared.filters.get(&name).await,
            Err(Refused::Forbidden(reason)) => Err(FilterError::Refused { name: name.to_string(), reason }),
            Err(Refused::Unknown) => {
                let reason = "authenticate first: AUTH NAME TOKEN".to_owned();
                Err(FilterError::Refused { name: name.to_string(), reason })
            }
        }
    }
}

/// Looks up items in a filter.
async fn tested(
    Requester { shared, client_session, patience }: Requester<'_>,
    filter: &Arc<str>,
    items: Vec<&[u8]>,
) -> Result<Vec<Verdict>, CommandRejected> {
    let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
    client_session.may(FilterVerb::Lookup, filter, count).map_err(|refused| match refused {
        Refused::Spent(_) => CommandRejected::Undecided(Reason::Overloaded),
        refused => CommandRejected::from(refused),
    })?;
    let asked = EventCall::new(&items, EventOperation::Test, shared.filters.now_ms());
    Ok(patience.ask(&shared.filters, filter, &asked).await?.verdicts)
}

/// Fields of the `BF.INFO` reply that are not part of the filter's definition.
struct BloomInfo {
    cell_bytes: Option<u64>,
    /// Number of items. The number is exact for filters of the sandbox, and an estimate for other filters.
    items: Option<u64>,
    expansion: Option<u16>,
}

fn bloom_info(replies: &mut Replies, filter: &Filter, known: &BloomInfo, field: Option<BloomInfoField>) {
    let Some(field) = field else {
        replies.map(BLOOM_FIELDS.len());
        for (field, name) in BLOOM_FIELDS {
            replies.bulk(name.as_bytes());
            bloom_field(replies, filter, known, field);
        }
        return;
    };
    // RESP version 3 expects a map with one entry, and version 2 an array with one value.
    match replies.protocol() {
        firstseen_resp::Protocol::Resp2 => replies.array(1),
        firstseen_resp::Protocol::Resp3 => {
            replies.map(1);
            let name = BLOOM_FIELDS.iter().find(|(known, _)| *known == field).map_or("", |(_, name)| name);
            replies.bulk(name.as_bytes());
        }
    }
    bloom_field(replies, filter, known, field);
}

fn bloom_field(replies: &mut Replies, filter: &Filter, known: &BloomInfo, field: BloomInfoField) {
    let definition = filter.info().definition;
    let value = match field {
        // Each slice group has its share of the events, so the capacities of all groups are added.
        BloomInfoField::Capacity => {
            definition.group.capacity_events.map(|events| events.saturating_mul(definition.slicing.groups().into()))
        }
        BloomInfoField::Size => known.cell_bytes,
        BloomInfoField::Filters => Some(1),
        BloomInfoField::Items => known.items,
        BloomInfoField::Expansion => known.expansion.map(u64::from),
    };
    match value {
        Some(value) => replies.integer(i64::try_from(value).unwrap_or(i64::MAX)),
        None => replies.null(),
    }
}

fn info(replies: &mut Replies, filter: &Filter) {
    let group = &filter.info().definition.group;
    let texts = [
        ("filter", filter.info().name.to_owned()),
        ("window", group.window.to_string()),
        ("kind", group.cells.kind().to_string()),
        ("slicing", filter.info().definition.slicing.to_string()),
    ];
    replies.map(texts.len());
    for (name, text) in texts {
        replies.bulk(name.as_bytes());
        replies.bulk(text.as_bytes());
    }
}
