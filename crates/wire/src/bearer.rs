//! The header by which each call of a channel says whose it is, where a token does that.
//!
//! Promises: a channel without a token adds nothing to its calls. Must not know: where a token may be shown.

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::{Request, Status, transport};

use crate::token::Token;

/// The header.
pub(crate) const HEADER: &str = "authorization";

/// A channel whose calls show a token, or none.
pub type Channel = InterceptedService<transport::Channel, Bearer>;

/// What each call shows.
#[derive(Clone, Debug, Default)]
pub struct Bearer {
    header: Option<MetadataValue<Ascii>>,
}

impl Bearer {
    /// Shows a token.
    pub(crate) fn of(token: &Token) -> Self {
        Self { header: token.to_header() }
    }

    /// The calls of `channel` show it.
    pub(crate) fn over(self, channel: transport::Channel) -> Channel {
        InterceptedService::new(channel, self)
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(header) = &self.header {
            request.metadata_mut().insert(HEADER, header.clone());
        }
        Ok(request)
    }
}

/// A channel whose calls show nothing.
pub fn without_token(channel: transport::Channel) -> Channel {
    Bearer::default().over(channel)
}
