//! Translates commands to questions about events, with the form of their reply.
//!
//! This module does not depend on connections or on the definitions of filters.

use firstseen_resp::{
    Arguments, BloomInfoField, BloomOptions, BloomRequest, ClaimRequest, ClaimedEvents, ConnectionRequest, EventTime,
    Expiry, FilterRequest, KeyRequest, Request, ScriptRequest, ServerRequest, SetRequest, Submission,
    SubscriptionRequest, TransactionRequest,
};

use super::delayed_sets::{HeldSet, SetCommand};
use crate::names::Names;
use crate::reply_shape::{Polarity, ReplyShape};
use crate::settings::GetRule;

/// Way to find the filter of some events.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// Filter with this name.
    Filter(&'a [u8]),
    /// Filter that the key is mapped to, and that can keep the key until its expiry.
    Key { key: &'a [u8], expiry: Option<Expiry> },
    /// The only filter that the key is mapped to.
    OnlyOf { key: &'a [u8] },
}

/// Events of a command.
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

    pub(super) fn iter(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let (one, many) = match self {
            Self::One(item) => (Some(item), None),
            Self::Many(items) => (None, Some(items)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// Question about events.
#[derive(Clone, Copy)]
pub(super) struct EventQuery<'a> {
    pub(super) place: Place<'a>,
    pub(super) act: Action<'a>,
    pub(super) form: ReplyShape,
    pub(super) items: Items<'a>,
    pub(super) time: EventTime,
    pub(super) submission: Option<Submission<'a>>,
}

/// Operation on events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action<'a> {
    Test,
    Observe,
    /// Claim with a lease of this many milliseconds.
    Claim(u64),
    /// Confirmation by this fence. `None` means the fences of the connection's own claims.
    Confirm(Option<&'a [u8]>),
    Release(Option<&'a [u8]>),
}

/// Command that is not a question about events of one filter.
pub(super) enum Other<'a> {
    FilterCommand(FilterCommand<'a>),
    Connection(ConnectionRequest<'a>),
    Scripts(ScriptRequest<'a>),
    Subscriptions(SubscriptionRequest<'a>),
    Transaction(TransactionRequest),
    Server(ServerRequest<'a>),
}

/// Command about keys of several filters, or about filters.
pub(super) enum FilterCommand<'a> {
    /// Asks how many of these keys exist.
    Exists(Arguments<'a>),
    Get(&'a [u8]),
    Overwrite,
    Expire {
        key: &'a [u8],
        expiry: Expiry,
    },
    Delete(Arguments<'a>),
    Remove {
        filter: &'a [u8],
        items: Arguments<'a>,
    },
    Type(&'a [u8]),
    /// Asks for the number of filters.
    Filters,
    Flush,
    Reserve {
        filter: &'a [u8],
        options: BloomOptions,
    },
    /// Asks for the number of events of a filter.
    Count(&'a [u8]),
    BloomInfo {
        filter: &'a [u8],
        field: Option<BloomInfoField>,
    },
    Info(&'a [u8]),
    List,
}

/// Translates a command to a question about events of one filter.
///
/// # Errors
/// Returns the command if it is not such a question.
pub(super) fn of<'a>(request: Request<'a>, names: &Names, get: GetRule) -> Result<EventQuery<'a>, Other<'a>> {
    match request {
        Request::Keys(request) => of_keys(request, names, get).map_err(Other::FilterCommand),
        Request::Sets(request) => of_sets(request).map_err(Other::FilterCommand),
        Request::Bloom(request) => of_bloom(request).map_err(Other::FilterCommand),
        Request::Filters(request) => of_filters(request).map_err(Other::FilterCommand),
        Request::Claims(request) => Ok(of_claims(request)),
        Request::Connection(request) => Err(Other::Connection(request)),
        Request::Scripts(ScriptRequest::Run(request)) => of_keys(request, names, get).map_err(Other::FilterCommand),
        Request::Scripts(request) => Err(Other::Scripts(request)),
        Request::Subscriptions(request) => Err(Other::Subscriptions(request)),
        Request::Transaction(request) => Err(Other::Transaction(request)),
        Request::Server(request) => Err(Other::Server(request)),
    }
}

fn wanted<'a>(place: Place<'a>, act: Action<'a>, form: ReplyShape, items: Items<'a>) -> EventQuery<'a> {
    EventQuery { place, act, form, items, time: EventTime::Now, submission: None }
}

/// Creates the question for a key that is recorded if it is new.
fn set<'a>(key: &'a [u8], expiry: Option<Expiry>, form: ReplyShape) -> EventQuery<'a> {
    wanted(Place::Key { key, expiry }, Action::Observe, form, Items::One(key))
}

/// Creates the question for a delayed command.
pub(super) fn held(HeldSet { key, command, expiry, expires_next }: HeldSet<'_>) -> EventQuery<'_> {
    let form = match (command, expires_next) {
        (SetCommand::Set, false) => ReplyShape::OkOrNothing,
        (SetCommand::Set, true) => ReplyShape::OkOrNothingThenOne,
        (SetCommand::SetNx, false) => ReplyShape::Integer(Polarity::New),
        (SetCommand::SetNx, true) => ReplyShape::NewThenOne,
    };
    set(key, expiry, form)
}

fn of_keys<'a>(request: KeyRequest<'a>, names: &Names, get: GetRule) -> Result<EventQuery<'a>, FilterCommand<'a>> {
    Ok(match request {
        KeyRequest::SetIfNew { key, expiry } => set(key, expiry, ReplyShape::OkOrNothing),
        KeyRequest::SetNx { key } => set(key, None, ReplyShape::Integer(Polarity::New)),
        KeyRequest::Expire { key, expiry } => return Err(FilterCommand::Expire { key, expiry }),
        KeyRequest::Exists { keys } if names.only_filter(keys.iter()).is_some() => {
            let key = keys.get(0).unwrap_or_default();
            wanted(Place::OnlyOf { key }, Action::Test, ReplyShape::HowManyThere, Items::Many(keys))
        }
        KeyRequest::Get { key } if get == GetRule::One && names.filters_of(key).len() == 1 => {
            wanted(Place::OnlyOf { key }, Action::Test, ReplyShape::OneOrNothing, Items::One(key))
        }
        KeyRequest::Exists { keys } => return Err(FilterCommand::Exists(keys)),
        KeyRequest::Get { key } => return Err(FilterCommand::Get(key)),
        KeyRequest::Overwrite => return Err(FilterCommand::Overwrite),
        KeyRequest::Delete { keys } => return Err(FilterCommand::Delete(keys)),
        KeyRequest::Type { key } => return Err(FilterCommand::Type(key)),
        KeyRequest::Count => return Err(FilterCommand::Filters),
        KeyRequest::Flush => return Err(FilterCommand::Flush),
    })
}

fn of_sets(request: SetRequest<'_>) -> Result<EventQuery<'_>, FilterCommand<'_>> {
    Ok(match request {
        SetRequest::Add { filter, items } => {
            wanted(Place::Filter(filter), Action::Observe, ReplyShape::HowManyNew, Items::Many(items))
        }
        SetRequest::Contains { filter, item } => {
            wanted(Place::Filter(filter), Action::Test, ReplyShape::Integer(Polarity::Seen), Items::One(item))
        }
        SetRequest::ContainsEach { filter, items } => {
            wanted(Place::Filter(filter), Action::Test, ReplyShape::Integers(Polarity::Seen), Items::Many(items))
        }
        SetRequest::SetField { filter, field } => {
            wanted(Place::Filter(filter), Action::Observe, ReplyShape::Integer(Polarity::New), Items::One(field))
        }
        SetRequest::GetField { filter, field } => {
            wanted(Place::Filter(filter), Action::Test, ReplyShape::OneOrNothing, Items::One(field))
        }
        SetRequest::Remove { filter, items } => return Err(FilterCommand::Remove { filter, items }),
    })
}

fn of_bloom(request: BloomRequest<'_>) -> Result<EventQuery<'_>, FilterCommand<'_>> {
    Ok(match request {
        BloomRequest::Add { filter, item } => {
            wanted(Place::Filter(filter), Action::Observe, ReplyShape::Boolean(Polarity::New), Items::One(item))
        }
        BloomRequest::AddEach { filter, items } | BloomRequest::Insert { filter, items, .. } => {
            wanted(Place::Filter(filter), Action::Observe, ReplyShape::Booleans(Polarity::New), Items::Many(items))
        }
        BloomRequest::Contains { filter, item } => {
            wanted(Place::Filter(filter), Action::Test, ReplyShape::Boolean(Polarity::Seen), Items::One(item))
        }
        BloomRequest::ContainsEach { filter, items } => {
            wanted(Place::Filter(filter), Action::Test, ReplyShape::Booleans(Polarity::Seen), Items::Many(items))
        }
        BloomRequest::Reserve { filter, options } => return Err(FilterCommand::Reserve { filter, options }),
        BloomRequest::Count { filter } => return Err(FilterCommand::Count(filter)),
        BloomRequest::Info { filter, field } => return Err(FilterCommand::BloomInfo { filter, field }),
    })
}

fn of_filters(request: FilterRequest<'_>) -> Result<EventQuery<'_>, FilterCommand<'_>> {
    Ok(match request {
        FilterRequest::Observe { filter, submission, time, items } => {
            let observe = wanted(Place::Filter(filter), Action::Observe, ReplyShape::Codes, Items::Many(items));
            EventQuery { submission, time, ..observe }
        }
        FilterRequest::Test { filter, items } => {
            wanted(Place::Filter(filter), Action::Test, ReplyShape::Codes, Items::Many(items))
        }
        FilterRequest::Info { filter } => return Err(FilterCommand::Info(filter)),
        FilterRequest::List => return Err(FilterCommand::List),
    })
}

fn of_claims(request: ClaimRequest<'_>) -> EventQuery<'_> {
    let (events, act, with_fence) = match request {
        ClaimRequest::Claim { events, lease_ms, with_fence } => (events, Action::Claim(lease_ms), with_fence),
        ClaimRequest::Confirm { events, fence } => (events, Action::Confirm(fence), false),
        ClaimRequest::Release { events, fence } => (events, Action::Release(fence), false),
    };
    let (place, items) = match events {
        ClaimedEvents::Key(key) => (Place::Key { key, expiry: None }, Items::One(key)),
        ClaimedEvents::Items { filter, items } => (Place::Filter(filter), Items::Many(items)),
    };
    let form = match (items, with_fence) {
        (Items::One(_), false) => ReplyShape::Code,
        (Items::One(_), true) => ReplyShape::CodeAndFence,
        (Items::Many(_), false) => ReplyShape::Codes,
        (Items::Many(_), true) => ReplyShape::CodesAndFences,
    };
    EventQuery { place, act, form, items, time: EventTime::Now, submission: None }
}
