//! Commands that subscribe to channels. No client can publish messages, so a subscriber never receives a message from
//! another client. The server nevertheless accepts subscriptions, because some client libraries subscribe as soon as
//! they connect. They expect messages about changes of the servers there.
//!
//! This module does not depend on the subscriptions of a connection.

use super::words::ITEMS_MAX;
use crate::Arguments;
use crate::refusal::Refusal;
use crate::table::Verb;

/// Command about subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionRequest<'a> {
    /// Kind of the command, which is the first word of each reply.
    pub kind: SubscriptionKind,
    /// Channels, or patterns of channel names. In a command that ends subscriptions, an empty list means all of them.
    pub channels: Arguments<'a>,
}

/// Kind of a command about subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionKind {
    /// `SUBSCRIBE`, which subscribes to channels.
    Begin,
    /// `PSUBSCRIBE`, which subscribes to patterns.
    BeginPattern,
    /// `UNSUBSCRIBE`, which ends subscriptions to channels.
    End,
    /// `PUNSUBSCRIBE`, which ends subscriptions to patterns.
    EndPattern,
}

impl SubscriptionKind {
    /// Returns the word for this kind in replies.
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
