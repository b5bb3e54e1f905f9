//! Adds a token to the header of each call, for clients that authenticate with a token.
//!
//! If a gRPC channel has no token, its calls are sent without an `authorization` header.

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::{Request, Status, transport};

use crate::token::Token;

/// Name of the header.
pub(crate) const HEADER: &str = "authorization";

/// Channel whose calls carry a token, if there is one.
pub type Channel = InterceptedService<transport::Channel, Bearer>;

/// Header that each call carries.
#[derive(Clone, Debug, Default)]
pub struct Bearer {
    header: Option<MetadataValue<Ascii>>,
}

impl Bearer {
    /// Creates the header for a token.
    pub(crate) fn of(token: &Token) -> Self {
        Self { header: token.to_header() }
    }

    /// Returns a channel that adds this header to the calls of `channel`.
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

/// Returns a channel that adds no header to its calls.
pub fn without_token(channel: transport::Channel) -> Channel {
    Bearer::default().over(channel)
}
