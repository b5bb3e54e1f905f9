//! Commands that ask about events, as what is asked and how it is replied.
//!
//! Promises: a key whose life is longer than any of its filters remembers is refused, never cut short. Must not know: how events
//! travel.

use std::sync::Arc;

use firstseen_client::{FilterError, SubmissionName};
use firstseen_resp::{Arguments, BloomRequest, EventTime, FilterRequest, KeyRequest, Request, SetRequest, Submission};

use super::{Next, Session};
use crate::events::Question;
use crate::filters::Remembers;
use crate::form::{Form, Says};

/// The events of a command.
#[derive(Clone, Copy)]
pub(super) enum Items<'a> {
    One(&'a [u8]),
    Many(Arguments<'a>),
}

/// To which filter events belong.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// To the one of this name.
    Filter(&'a [u8]),
    /// To the one to which the key is mapped that remembers for so many milliseconds, or as long as it likes.
    Key { key: &'a [u8], lifetime_ms: Option<u64> },
}

/// What a command wants to know of events.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    place: Place<'a>,
    records: bool,
    form: Form,
    items: Items<'a>,
    time: EventTime,
    submission: Option<Submission<'a>>,
}

/// What a command wants to know of events of one filter; the command where it wants something else.
pub(super) fn of(request: Request<'_>) -> Result<Wanted<'_>, Request<'_>> {
    let wanted =
        |place, records, form, items| Wanted { place, records, form, items, time: EventTime::Now, submission: None };
    let named = |filter, records, form, items| wanted(Place::Filter(filter), records, form, items);
    let keyed = |key, lifetime_ms, form| wanted(Place::Key { key, lifetime_ms }, true, form, Items::One(key));
    Ok(match request {
        Request::Keys(KeyRequest::SetIfNew { key, lifetime_ms, .. }) => keyed(key, lifetime_ms, Form::OkOrNothing),
        Request::Keys(KeyRequest::SetNx { key, .. }) => keyed(key, None, Form::Integer(Says::New)),
        Request::Sets(SetRequest::Add { filter, items }) => {
            named(filter, true, Form::Count(Says::New), Items::Many(items))
        }
        Request::Sets(SetRequest::Contains { filter, item }) => {
            named(filter, false, Form::Integer(Says::Seen), Items::One(item))
        }
        Request::Sets(SetRequest::ContainsEach { filter, items }) => {
            named(filter, false, Form::Integers(Says::Seen), Items::Many(items))
        }
        Request::Bloom(BloomRequest::Add { filter, item }) => {
            named(filter, true, Form::Boolean(Says::New), Items::One(item))
        }
        Request::Bloom(BloomRequest::AddEach { filter, items } | BloomRequest::Insert { filter, items, .. }) => {
            named(filter, true, Form::Booleans(Says::New), Items::Many(items))
        }
        Request::Bloom(BloomRequest::Contains { filter, item }) => {
            named(filter, false, Form::Boolean(Says::Seen), Items::One(item))
        }
        Request::Bloom(BloomRequest::ContainsEach { filter, items }) => {
            named(filter, false, Form::Booleans(Says::Seen), Items::Many(items))
        }
        Request::Filters(FilterRequest::Observe { filter, submission, time, items }) => {
            Wanted { submission, time, ..named(filter, true, Form::Codes, Items::Many(items)) }
        }
        Request::Filters(FilterRequest::Test { filter, items }) => {
            named(filter, false, Form::Codes, Items::Many(items))
        }
        other => return Err(other),
    })
}

impl Session {
    /// Adds a command to those that travel together, or sends these first.
    pub(super) async fn gather(&mut self, wanted: Wanted<'_>) -> Next {
        let Wanted { place, records, form, items, time, submission } = wanted;
        let found = match place {
            Place::Filter(name) => match std::str::from_utf8(name) {
                Ok(name) => Ok((Arc::<str>::from(name), None)),
                Err(_) => Err("ERR not found".to_owned()),
            },
            Place::Key { key, lifetime_ms } => self.filter_of(key, lifetime_ms).await,
        };
        let found = match (found, time) {
            (Ok((filter, _)), EventTime::NowFor { lifetime_ms }) => {
                let taken = self.shared.filters.takes_life(&filter, lifetime_ms).await;
                taken.map(|()| (filter, Some(lifetime_ms))).map_err(|reason| format!("ERR {reason}"))
            }
            (found, _) => found,
        };
        let (filter, life_ms) = match found {
            Ok(found) => found,
            Err(error) => {
                self.finish().await;
                self.refuse(error);
                return Next::Go;
            }
        };
        let at_ms = match time {
            EventTime::Now | EventTime::NowFor { .. } => None,
            EventTime::At { unix_ms } => {
                if matches!(self.shared.filters.needs_times(&filter).await, Ok(false)) {
                    self.finish().await;
                    self.refuse(
                        "ERR events of the filter bring no times (its nodes stamp them, --clock wall): leave AT out",
                    );
                    return Next::Go;
                }
                Some(unix_ms)
            }
        };
        if submission.is_some() && life_ms.is_some() {
            self.finish().await;
            self.refuse("ERR ID and TTL do not go together: a retry is told its first verdict for the retry horizon");
            return Next::Go;
        }
        let question = Question { filter, records, at_ms, life_ms };
        let events = match items {
            Items::One(_) => 1,
            Items::Many(items) => items.len(),
        };
        // Names are of all events of a call, or of none.
        if submission.is_some() || !self.gathered.takes(&question, events) {
            self.finish().await;
        }
        match items {
            Items::One(item) => self.gathered.add(question, form, std::iter::once(item)),
            Items::Many(items) => self.gathered.add(question, form, items.iter()),
        }
        if let Some(Submission { source, first_number }) = submission {
            let source = source_number(source);
            let names = (first_number..).take(events).map(|number| SubmissionName { source, number });
            self.gathered.name(names);
            self.finish().await;
        }
        Next::Go
    }

    /// The filter of a key: of those to which it is mapped, the one with the shortest window that is as long as it asks for; and the
    /// key's life, where that is shorter and the filter takes such.
    async fn filter_of(&mut self, key: &[u8], lifetime_ms: Option<u64>) -> Result<(Arc<str>, Option<u64>), String> {
        let shared = self.shared.clone();
        let mapped = shared.names.filters_of(key);
        let Some(first) = mapped.first() else {
            return Err("ERR no filter is mapped to this key: [[redis.prefix]] in the node's configuration maps keys"
                .to_owned());
        };
        let mut all = Vec::with_capacity(mapped.len());
        for filter in mapped {
            match shared.filters.remembers(filter).await {
                Ok(remembers) => all.push((remembers, filter)),
                Err(FilterError::NotFound { .. }) => {
                    return Err(format!(
                        "ERR the key is mapped to filter `{filter}`, which there is not: firstseen filter create makes it"
                    ));
                }
                Err(error) => return Err(format!("UNDECIDED NotReady: {error}")),
            }
        }
        let longest = all.iter().max_by_key(|(remembers, _)| *remembers).map_or(first, |(_, filter)| filter);
        // Without a time the key is to stay: the filter that remembers for the longest does what can be done.
        let Some(lifetime_ms) = lifetime_ms else { return Ok((Arc::clone(longest), None)) };
        let fits = |remembers: &Remembers| *remembers >= Remembers::ForMs(lifetime_ms);
        let shortest = all.iter().filter(|(remembers, _)| fits(remembers)).min_by_key(|(remembers, _)| *remembers);
        let Some((remembers, filter)) = shortest else {
            let most = match all.iter().map(|(remembers, _)| *remembers).max() {
                Some(Remembers::ForMs(ms)) => format!("{} s", ms as f64 / 1000.0),
                _ => "no time that EX could name".to_owned(),
            };
            return Err(format!("ERR invalid expire time: filter '{longest}' remembers {most}"));
        };
        // Where events have no lives of their own, or this one is nearly the window, it is remembered for the window.
        let is_shorter = *remembers > Remembers::ForMs(lifetime_ms);
        let takes_life = is_shorter && shared.filters.takes_life(filter, lifetime_ms).await.is_ok();
        Ok((Arc::clone(filter), takes_life.then_some(lifetime_ms)))
    }
}

/// The number of a source that has a name: its digits, or what its bytes hash to.
fn source_number(name: &[u8]) -> u128 {
    let digits = std::str::from_utf8(name).ok().and_then(|name| name.parse::<u128>().ok());
    digits.unwrap_or_else(|| xxhash_rust::xxh3::xxh3_128(name))
}
