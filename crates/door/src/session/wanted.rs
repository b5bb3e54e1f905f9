//! What commands want to know of events, and how they are replied to.
//!
//! Must not know: connections, which filter a key belongs to.

use firstseen_resp::{
    Arguments, BloomRequest, ClaimRequest, ClaimedEvents, EventTime, FilterRequest, KeyRequest, Request, SetRequest,
    Submission,
};

use crate::form::{Form, Says};

/// To which filter events belong.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// To the one of this name.
    Filter(&'a [u8]),
    /// To the one to which the key is mapped that remembers for so many milliseconds, or as long as it likes.
    Key { key: &'a [u8], lifetime_ms: Option<u64> },
}

/// The events of a command.
#[derive(Clone, Copy)]
pub(super) enum Items<'a> {
    One(&'a [u8]),
    Many(Arguments<'a>),
}

impl<'a> Items<'a> {
    pub(super) fn count(self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(items) => items.len(),
        }
    }

    pub(super) fn iter(self) -> impl Iterator<Item = &'a [u8]> {
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
    pub(super) place: Place<'a>,
    pub(super) act: Wish<'a>,
    pub(super) form: Form,
    pub(super) items: Items<'a>,
    pub(super) time: EventTime,
    pub(super) submission: Option<Submission<'a>>,
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
