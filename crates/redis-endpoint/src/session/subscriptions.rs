//! Subscriptions of a connection. They are accepted so that client libraries work, but no message is ever published.
//!
//! This module does not depend on sockets.

use std::collections::BTreeSet;

use firstseen_resp::{ConnectionRequest, Protocol, Replies, Request, SubscriptionKind, SubscriptionRequest};

/// Maximum number of channels and patterns of one connection, and maximum length of their names in bytes.
const CHANNELS_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 256;

const TOO_MANY: &str =
    "ERR a connection subscribes to 64 channels at most, with names of 256 bytes: nobody publishes here";
/// Error message of Redis in version 2 of the protocol, which cannot distinguish messages from replies.
pub(super) const NOT_WHILE_SUBSCRIBED: &str = "ERR Can't execute this command: only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                                               RESET are allowed in this context";

/// Subscribed channels, and patterns of channel names.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    channels: BTreeSet<Box<[u8]>>,
    patterns: BTreeSet<Box<[u8]>>,
}

impl Subscriptions {
    /// Returns whether a connection with these subscriptions may send a command.
    pub(super) fn allow(&self, request: &Request<'_>, protocol: Protocol) -> bool {
        let is_of_connection = matches!(
            request,
            Request::Subscriptions(_)
                | Request::Connection(
                    ConnectionRequest::Ping { .. } | ConnectionRequest::Quit | ConnectionRequest::Reset
                )
        );
        self.count() == 0 || protocol == Protocol::Resp3 || is_of_connection
    }

    /// Adds or ends subscriptions, with one reply for each channel.
    ///
    /// # Errors
    /// Returns an error if there would be too many subscriptions. Nothing is changed then.
    pub(super) fn change(
        &mut self,
        SubscriptionRequest { kind, channels }: SubscriptionRequest<'_>,
        replies: &mut Replies,
    ) -> Result<(), &'static str> {
        let is_begin = matches!(kind, SubscriptionKind::Begin | SubscriptionKind::BeginPattern);
        let is_too_long = channels.iter().any(|name| name.len() > NAME_BYTES_MAX);
        if is_begin && (is_too_long || self.count() + channels.len() > CHANNELS_MAX) {
            return Err(TOO_MANY);
        }
        let mut names: Vec<Box<[u8]>> = channels.iter().map(Box::from).collect();
        if names.is_empty() {
            names.extend(self.of(kind).iter().cloned());
        }
        if names.is_empty() {
            self.reply(kind, None, replies);
        }
        for name in names {
            if is_begin {
                self.of(kind).insert(name.clone());
            } else {
                self.of(kind).remove(&name);
            }
            self.reply(kind, Some(&name), replies);
        }
        Ok(())
    }

    fn reply(&self, kind: SubscriptionKind, channel: Option<&[u8]>, replies: &mut Replies) {
        replies.push(3);
        replies.bulk(kind.word().as_bytes());
        match channel {
            Some(channel) => replies.bulk(channel),
            None => replies.null(),
        }
        replies.integer(i64::try_from(self.count()).unwrap_or(i64::MAX));
    }

    /// Returns the number of subscriptions.
    pub(super) fn count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    fn of(&mut self, kind: SubscriptionKind) -> &mut BTreeSet<Box<[u8]>> {
        match kind {
            SubscriptionKind::Begin | SubscriptionKind::End => &mut self.channels,
            SubscriptionKind::BeginPattern | SubscriptionKind::EndPattern => &mut self.patterns,
        }
    }
}
