//! Subscriptions to channels. Nobody publishes here, but clients subscribe as soon as they connect, to hear of changes of the servers.
//!
//! This module must not depend on what a connection has subscribed to.

use super::words::ITEMS_MAX;
use crate::Arguments;
use crate::refusal::Refusal;
use crate::table::Verb;

/// A command of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionRequest<'a> {
    /// The first word of each reply.
    pub kind: SubscriptionKind,
    /// Channels, or patterns of their names; none of a command that ends subscriptions: all of them.
    pub channels: Arguments<'a>,
}

/// Which command of subscriptions it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionKind {
    /// `SUBSCRIBE`.
    Begin,
    /// `PSUBSCRIBE`.
    BeginPattern,
    /// `UNSUBSCRIBE`.
    End,
    /// `PUNSUBSCRIBE`.
    EndPattern,
}

impl SubscriptionKind {
    /// The word for it in replies.
    pub fn word(self) -> &'static str {
        match self {
            Self::Begin => "subscribe",
            Self::BeginPattern => "psubscribe",
            Self::End => "unsubscribe",
            Self::EndPattern => "punsubscribe",
        }
    }
}

pub(super) fn read(verb: Verb, channels: Arguments<'_>) -> Result<SubscriptionRequest<'_>, Refusal<'static>> {
    let kind = match verb {
        Verb::PSubscribe => SubscriptionKind::BeginPattern,
        Verb::Unsubscribe => SubscriptionKind::End,
        Verb::PUnsubscribe => SubscriptionKind::EndPattern,
        _ => SubscriptionKind::Begin,
    };
    if channels.len() > ITEMS_MAX {
        return Err(Refusal::TooManyItems { items_max: ITEMS_MAX });
    }
    Ok(SubscriptionRequest { kind, channels })
}
