//! Commands about the connection itself: authentication, the name of the connection, and the version of the protocol.
//!
//! This module does not depend on tokens and rights.

use std::sync::Arc;

use firstseen_backend::ClientSession;
use firstseen_resp::{ClientRequest, ConnectionRequest, Credentials, Protocol, Replies};
use firstseen_wire::token::Token;

use super::place::Placed;
use super::subscriptions::Subscriptions;
use super::{Next, Session, info};
use crate::own_claims::OwnClaims;

/// Maximum length of a connection's name, in bytes.
const NAME_BYTES_MAX: usize = 256;

impl Session {
    pub(super) fn connection(&mut self, request: ConnectionRequest<'_>) -> Next {
        match request {
            ConnectionRequest::Hello { protocol, credentials, name } => self.hello(protocol, credentials, name),
            ConnectionRequest::Auth(credentials) => match self.enter(credentials) {
                Some(client_session) => {
                    self.set_client_session(Some(client_session));
                    self.outbox.replies().simple("OK");
                }
                None => self.refuse(self.credentials_error(credentials)),
            },
            ConnectionRequest::Ping { message } if self.is_listening() => {
                self.outbox.replies().array(2);
                self.outbox.replies().bulk(b"pong");
                self.outbox.replies().bulk(message.unwrap_or_default());
            }
            ConnectionRequest::Ping { message: None } => self.outbox.replies().simple("PONG"),
            ConnectionRequest::Ping { message: Some(message) } | ConnectionRequest::Echo { message } => {
                self.outbox.replies().bulk(message);
            }
            ConnectionRequest::Select { database: 0 } | ConnectionRequest::ReadOnly | ConnectionRequest::ReadWrite => {
                self.outbox.replies().simple("OK");
            }
            ConnectionRequest::Select { .. } => self.refuse("ERR DB index is out of range"),
            ConnectionRequest::Quit => {
                self.outbox.replies().simple("OK");
                return Next::Close;
            }
            ConnectionRequest::Reset => {
                self.transaction = None;
                self.subscriptions = Subscriptions::default();
                self.claims = OwnClaims::new(self.room.clone());
                self.set_client_session(self.known.clone());
                self.name.clear();
                self.outbox.replies().set_protocol(Protocol::Resp2);
                self.outbox.replies().simple("RESET");
            }
            ConnectionRequest::Client(request) => self.client(request),
        }
        Next::Go
    }

    /// Returns whether a client of protocol version 2 has subscribed to channels on this connection. In version 2 a
    /// client cannot tell published messages from replies, so the endpoint rejects most commands while the
    /// subscriptions exist.
    fn is_listening(&mut self) -> bool {
        self.subscriptions.count() > 0 && self.outbox.replies().protocol() == Protocol::Resp2
    }

    /// Sets the user whose commands follow. Results that depend on the rights of the previous user are discarded.
    fn set_client_session(&mut self, client_session: Option<Arc<dyn ClientSession>>) {
        self.client_session = client_session;
        self.placed = Placed::default();
    }

    fn enter(&self, credentials: Credentials<'_>) -> Option<Arc<dyn ClientSession>> {
        // What Redis calls the default user has no name here.
        let user = credentials.user().filter(|user| *user != b"default");
        self.shared.common.host.enter(user, credentials.password(), self.from)
    }

    /// Returns the error for credentials that are not accepted.
    fn credentials_error(&self, credentials: Credentials<'_>) -> &'static str {
        let password = std::str::from_utf8(credentials.password()).unwrap_or_default();
        let is_token = password.parse::<Token>().is_ok();
        if self.known.is_some() && credentials.user().is_none() && !is_token {
            NO_PASSWORD_CONFIGURED
        } else {
            WRONG_PASSWORD
        }
    }

    fn hello(&mut self, protocol: Option<Protocol>, credentials: Option<Credentials<'_>>, name: Option<&[u8]>) {
        if let Some(credentials) = credentials {
            match self.enter(credentials) {
                Some(client_session) => self.set_client_session(Some(client_session)),
                None => return self.refuse(WRONG_PASSWORD),
            }
        }
        if self.client_session.is_none() {
            return self.refuse(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> \
                 option can be used to authenticate the client and select the RESP protocol version at the same time",
            );
        }
        if let Some(what) = name.and_then(|name| self.rename(name).err()) {
            return self.refuse(what);
        }
        if let Some(protocol) = protocol {
            self.outbox.replies().set_protocol(protocol);
        }
        welcome(self.outbox.replies(), self.number);
    }

    fn client(&mut self, request: ClientRequest<'_>) {
        match request {
            ClientRequest::Id => self.outbox.replies().integer(i64::try_from(self.number).unwrap_or(i64::MAX)),
            ClientRequest::GetName if self.name.is_empty() => self.outbox.replies().null(),
            ClientRequest::GetName => self.outbox.replies().bulk(&self.name),
            ClientRequest::SetName { name } => match self.rename(name) {
                Ok(()) => self.outbox.replies().simple("OK"),
                Err(what) => self.refuse(what),
            },
            ClientRequest::SetLibraryName { .. } | ClientRequest::SetLibraryVersion { .. } | ClientRequest::Granted => {
                self.outbox.replies().simple("OK");
            }
        }
    }

    fn rename(&mut self, name: &[u8]) -> Result<(), &'static str> {
        if name.len() > NAME_BYTES_MAX {
            return Err("ERR a client's name has at most 256 bytes: the connection keeps the one that it has");
        }
        self.name = name.to_vec();
        Ok(())
    }
}

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
/// Error message of Redis for a password, used if the node does not require authentication.
const NO_PASSWORD_CONFIGURED: &str = "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
                           configuration is correct?";

/// Writes the reply to `HELLO`.
fn welcome(replies: &mut Replies, number: u64) {
    let proto = match replies.protocol() {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    };
    replies.map(7);
    for (key, value) in [("server", "redis"), ("version", info::REDIS_VERSION)] {
        replies.bulk(key.as_bytes());
        replies.bulk(value.as_bytes());
    }
    replies.bulk(b"proto");
    replies.integer(proto);
    replies.bulk(b"id");
    replies.integer(i64::try_from(number).unwrap_or(i64::MAX));
    for (key, value) in [("mode", "standalone"), ("role", "master")] {
        replies.bulk(key.as_bytes());
        replies.bulk(value.as_bytes());
    }
    replies.bulk(b"modules");
    info::modules(replies);
}
