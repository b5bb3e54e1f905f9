//! Commands of the connection: who the client is, and how it is spoken to.
//!
//! Must not know: what a token is, who has which rights.

use std::sync::Arc;

use firstseen_resp::{ClientRequest, ConnectionRequest, Credentials, Protocol, Replies};

use super::{Next, Session, info};
use crate::host::Guest;
use crate::own_claims::OwnClaims;

/// Bytes of a connection's name at most.
const NAME_BYTES_MAX: usize = 256;

impl Session {
    pub(super) fn connection(&mut self, request: ConnectionRequest<'_>) -> Next {
        match request {
            ConnectionRequest::Hello { protocol, credentials, name } => self.hello(protocol, credentials, name),
            ConnectionRequest::Auth(credentials) => match self.enter(credentials) {
                Some(guest) => {
                    self.guest = Some(guest);
                    self.replies.simple("OK");
                }
                None => self.refuse(WRONG_PASSWORD),
            },
            ConnectionRequest::Ping { message: None } => self.replies.simple("PONG"),
            ConnectionRequest::Ping { message: Some(message) } | ConnectionRequest::Echo { message } => {
                self.replies.bulk(message);
            }
            ConnectionRequest::Select { database: 0 } | ConnectionRequest::ReadOnly | ConnectionRequest::ReadWrite => {
                self.replies.simple("OK");
            }
            ConnectionRequest::Select { .. } => self.refuse("ERR DB index is out of range"),
            ConnectionRequest::Quit => {
                self.replies.simple("OK");
                return Next::Close;
            }
            ConnectionRequest::Reset => {
                self.transaction = None;
                self.claims = OwnClaims::default();
                self.guest = self.known.clone();
                self.name.clear();
                self.replies.set_protocol(Protocol::Resp2);
                self.replies.simple("RESET");
            }
            ConnectionRequest::Client(request) => self.client(request),
        }
        Next::Go
    }

    fn enter(&self, credentials: Credentials<'_>) -> Option<Arc<dyn Guest>> {
        // What Redis calls the default user has no name.
        let user = credentials.user().filter(|user| *user != b"default");
        self.shared.common.host.enter(user, credentials.password(), self.from)
    }

    fn hello(&mut self, protocol: Option<Protocol>, credentials: Option<Credentials<'_>>, name: Option<&[u8]>) {
        if let Some(credentials) = credentials {
            match self.enter(credentials) {
                Some(guest) => self.guest = Some(guest),
                None => return self.refuse(WRONG_PASSWORD),
            }
        }
        if self.guest.is_none() {
            return self.refuse(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> \
                 option can be used to authenticate the client and select the RESP protocol version at the same time",
            );
        }
        if let Some(name) = name {
            self.rename(name);
        }
        if let Some(protocol) = protocol {
            self.replies.set_protocol(protocol);
        }
        let Self { replies, number, .. } = self;
        welcome(replies, *number);
    }

    fn client(&mut self, request: ClientRequest<'_>) {
        match request {
            ClientRequest::Id => self.replies.integer(i64::try_from(self.number).unwrap_or(i64::MAX)),
            ClientRequest::GetName if self.name.is_empty() => self.replies.null(),
            ClientRequest::GetName => self.replies.bulk(&self.name),
            ClientRequest::SetName { name } => {
                self.rename(name);
                self.replies.simple("OK");
            }
            ClientRequest::SetLibraryName { .. } | ClientRequest::SetLibraryVersion { .. } | ClientRequest::Granted => {
                self.replies.simple("OK");
            }
        }
    }

    fn rename(&mut self, name: &[u8]) {
        self.name = name.get(..NAME_BYTES_MAX).unwrap_or(name).to_vec();
    }
}

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// The reply to `HELLO`.
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
