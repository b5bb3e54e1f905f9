//! Commands that ask about events, as what is asked and how it is replied.
//!
//! Must not know: how events travel, which filter a key belongs to.

use std::sync::Arc;

use firstseen_client::{SubmissionName, Verdict};
use firstseen_resp::{
    Arguments, BloomRequest, ClaimRequest, ClaimedEvents, EventTime, FilterRequest, KeyRequest, Request, SetRequest,
    Submission,
};

use super::place::{Found, Place};
use super::{Next, Session, claims};
use crate::events::Question;
use crate::form::{self, Form, Says};
use crate::not_asked::NotAsked;

/// The events of a command.
#[derive(Clone, Copy)]
pub(super) enum Items<'a> {
    One(&'a [u8]),
    Many(Arguments<'a>),
}

impl<'a> Items<'a> {
    fn count(self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(items) => items.len(),
        }
    }

    fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let (one, many) = match self {
            Self::One(item) => (Some(item), None),
            Self::Many(items) => (None, Some(items)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// What a command wants to know of events.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    place: Place<'a>,
    act: Wish<'a>,
    form: Form,
    items: Items<'a>,
    time: EventTime,
    submission: Option<Submission<'a>>,
}

/// What is to be done with events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish<'a> {
    Test,
    Observe,
    /// For so many milliseconds.
    Claim(u64),
    /// By this fence, or by the connection's own claims.
    Confirm(Option<&'a [u8]>),
    Release(Option<&'a [u8]>),
}

/// What a command wants to know of events of one filter; the command where it wants something else.
pub(super) fn of(request: Request<'_>) -> Result<Wanted<'_>, Request<'_>> {
    let wanted = |place, act, form, items| Wanted { place, act, form, items, time: EventTime::Now, submission: None };
    let named = |filter, act, form, items| wanted(Place::Filter(filter), act, form, items);
    let keyed = |key, lifetime_ms, form| wanted(Place::Key { key, lifetime_ms }, Wish::Observe, form, Items::One(key));
    Ok(match request {
        Request::Keys(KeyRequest::SetIfNew { key, lifetime_ms, .. }) => keyed(key, lifetime_ms, Form::OkOrNothing),
        Request::Keys(KeyRequest::SetNx { key, .. }) => keyed(key, None, Form::Integer(Says::New)),
        Request::Sets(SetRequest::Add { filter, items }) => {
            named(filter, Wish::Observe, Form::Count(Says::New), Items::Many(items))
        }
        Request::Sets(SetRequest::Contains { filter, item }) => {
            named(filter, Wish::Test, Form::Integer(Says::Seen), Items::One(item))
        }
        Request::Sets(SetRequest::ContainsEach { filter, items }) => {
            named(filter, Wish::Test, Form::Integers(Says::Seen), Items::Many(items))
        }
        Request::Bloom(BloomRequest::Add { filter, item }) => {
            named(filter, Wish::Observe, Form::Boolean(Says::New), Items::One(item))
        }
        Request::Bloom(BloomRequest::AddEach { filter, items } | BloomRequest::Insert { filter, items, .. }) => {
            named(filter, Wish::Observe, Form::Booleans(Says::New), Items::Many(items))
        }
        Request::Bloom(BloomRequest::Contains { filter, item }) => {
            named(filter, Wish::Test, Form::Boolean(Says::Seen), Items::One(item))
        }
        Request::Bloom(BloomRequest::ContainsEach { filter, items }) => {
            named(filter, Wish::Test, Form::Booleans(Says::Seen), Items::Many(items))
        }
        Request::Filters(FilterRequest::Observe { filter, submission, time, items }) => {
            Wanted { submission, time, ..named(filter, Wish::Observe, Form::Codes, Items::Many(items)) }
        }
        Request::Filters(FilterRequest::Test { filter, items }) => {
            named(filter, Wish::Test, Form::Codes, Items::Many(items))
        }
        Request::Claims(request) => of_claims(request),
        other => return Err(other),
    })
}

fn of_claims(request: ClaimRequest<'_>) -> Wanted<'_> {
    let (events, act, with_fence) = match request {
        ClaimRequest::Claim { events, lease_ms, with_fence } => (events, Wish::Claim(lease_ms), with_fence),
        ClaimRequest::Confirm { events, fence } => (events, Wish::Confirm(fence), false),
        ClaimRequest::Release { events, fence } => (events, Wish::Release(fence), false),
    };
    let (place, items) = match events {
        ClaimedEvents::Key(key) => (Place::Key { key, lifetime_ms: None }, Items::One(key)),
        ClaimedEvents::Items { filter, items } => (Place::Filter(filter), Items::Many(items)),
    };
    let form = match (items, with_fence) {
        (Items::One(_), false) => Form::Code,
        (Items::One(_), true) => Form::CodeAndFence,
        (Items::Many(_), false) => Form::Codes,
        (Items::Many(_), true) => Form::CodesAndFences,
    };
    Wanted { place, act, form, items, time: EventTime::Now, submission: None }
}

impl Session {
    /// Adds a command to those that travel together, or sends these first.
    pub(super) async fn gather(&mut self, wanted: Wanted<'_>) -> Next {
        let Wanted { place, act, form, items, time, submission } = wanted;
        // Who holds what is known only when the claims before have been asked for.
        if self.gathered.has_claims() && matches!(act, Wish::Confirm(_) | Wish::Release(_)) {
            self.finish().await;
        }
        let found = match self.placed.find(&self.shared, place, act, time).await {
            Ok(_) if submission.is_some() && matches!(time, EventTime::NowFor { .. }) => Err(NotAsked::wrong(
                "ID and TTL do not go together: a retry is told its first verdict for the retry horizon",
            )),
            found => found,
        };
        let held = match &found {
            Ok(found) => claims::held(&mut self.claims, found, act, items.iter()),
            Err(_) => Ok(claims::Shown::default()),
        };
        let (Found { filter, act, life_ms, .. }, shown) = match found.and_then(|found| Ok((found, held?))) {
            Ok(found) => found,
            Err(error) => {
                self.finish().await;
                return self.not_asked(place, form, items.count(), &error);
            }
        };
        let at_ms = match time {
            EventTime::At { unix_ms } => Some(unix_ms),
            EventTime::Now | EventTime::NowFor { .. } => shown.at_ms,
        };
        let question = Question { filter, act, at_ms, life_ms };
        // Names are of all events of a call, or of none.
        if submission.is_some() || !self.gathered.takes(&question, items.count()) {
            self.finish().await;
        }
        self.gathered.add(question, form, items.iter());
        self.gathered.show(&shown.fences);
        if let Some(Submission { source, first_number }) = submission {
            let source = source_number(source);
            let names = (first_number..).take(items.count()).map(|number| SubmissionName { source, number });
            self.gathered.name(names);
            self.finish().await;
        }
        Next::Go
    }

    /// Replies to a command whose events cannot be asked about.
    fn not_asked(&mut self, place: Place<'_>, form: Form, events: usize, error: &NotAsked) -> Next {
        let NotAsked::Undecided(reason) = error else {
            self.refuse(error);
            return Next::Go;
        };
        let filter = match place {
            Place::Filter(name) => std::str::from_utf8(name).ok().map(Arc::<str>::from),
            Place::Key { key, .. } => self.shared.common.names.filters_of(key).first().cloned(),
        };
        let rule = self.shared.common.rules.undecided(filter.as_deref().unwrap_or_default());
        let undecided = form::reply(&mut self.replies, form, rule, &vec![Verdict::Undecided(*reason); events], &[]);
        self.shared.common.counts.undecided.fetch_add(undecided as u64, std::sync::atomic::Ordering::Relaxed);
        Next::Go
    }
}

/// The number of a source that has a name: its digits, or what its bytes hash to.
fn source_number(name: &[u8]) -> u128 {
    let digits = std::str::from_utf8(name).ok().and_then(|name| name.parse::<u128>().ok());
    digits.unwrap_or_else(|| xxhash_rust::xxh3::xxh3_128(name))
}
