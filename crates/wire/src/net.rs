//! Opens and accepts connections, with the same settings on both sides.
//!
//! Every channel applies all limits of [`crate::limits`]. A channel connects when it is first used, so creating a
//! channel does not block.

use std::future::ready;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::Uri;
use rustls_pki_types::ServerName;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::Status;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};

pub use crate::bearer::{Bearer, Channel, without_token};
pub use crate::examine::Mismatch;
use crate::examine::examine;
use crate::limits::{
    CONNECT_TIMEOUT, HTTP2_HEADER_BYTES_MAX, HTTP2_WINDOW_BYTES, KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT,
    MESSAGE_BYTES_MAX, STREAMS_MAX,
};
use crate::names::peer_name;
use crate::proto::producer::{ObserveReply, ObserveRequest};
use crate::proto::{admin, meta, peer, producer};
use crate::tls::ClientTls;
use crate::token::Token;

/// Error returned when a connection cannot even be attempted.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The text is not an address.
    #[error("`{address}` is not an address: give host:port")]
    Address {
        /// Text that was given as an address.
        address: String,
    },
    /// TLS cannot be used for this peer.
    #[error("TLS to {address} cannot be set up: {reason}")]
    Tls {
        /// Address of the peer.
        address: String,
        /// Error text of the TLS library.
        reason: String,
    },
    /// The connection is not encrypted, so that anyone on the way could read the token.
    #[error(
        "the token is not sent to {address}, as the connection is plain: give the certificate of the cluster's authority, or \
         connect to this machine (127.0.0.1)"
    )]
    PlainToken {
        /// Address of the peer.
        address: String,
    },
}

/// Opens channels, over TCP or over a simulated network.
pub trait Connector: Send + Sync + 'static {
    /// Returns a channel to `address` (`host:port`). The channel connects when it is first used, and reconnects after a
    /// failure. With TLS, the peer must have the certificate of the node `node_name`. If `node_name` is `None`, any
    /// node of the cluster is accepted.
    ///
    /// # Errors
    /// Returns [`ConnectError`] if a connection cannot be attempted. If no peer answers, calls on the channel fail
    /// instead.
    fn channel(&self, address: &str, node_name: Option<&str>) -> Result<Channel, ConnectError>;

    /// Opens a stream of batches to the node at `address` if that node runs in this process, without using the network.
    /// The requests are those of the method `Observe` of the Producer service. Returns `None` if the node does not run
    /// in this process.
    fn observe_here(&self, address: &str, requests: mpsc::Receiver<ObserveRequest>) -> Option<ObserveHere> {
        let _ = (address, requests);
        None
    }

    /// Determines why connections to `address` fail. Callers use this function after a connection has failed. To find
    /// the cause, the function opens another connection. It returns a cause only if the cause is certain and waiting
    /// does not help.
    fn examine<'a>(&'a self, address: &'a str, node_name: Option<&'a str>) -> Examination<'a> {
        let _ = (address, node_name);
        Box::pin(ready(None))
    }
}

/// Replies of a stream that [`Connector::observe_here`] has opened, or the error that prevented it.
pub type ObserveHere = Result<mpsc::Receiver<Result<ObserveReply, Status>>, Status>;

/// Result of [`Connector::examine`].
pub type Examination<'a> = Pin<Box<dyn Future<Output = Option<Mismatch>> + Send + 'a>>;

impl<C: Connector + ?Sized> Connector for Arc<C> {
    fn channel(&self, address: &str, node_name: Option<&str>) -> Result<Channel, ConnectError> {
        (**self).channel(address, node_name)
    }

    fn observe_here(&self, address: &str, requests: mpsc::Receiver<ObserveRequest>) -> Option<ObserveHere> {
        (**self).observe_here(address, requests)
    }

    fn examine<'a>(&'a self, address: &'a str, node_name: Option<&'a str>) -> Examination<'a> {
        (**self).examine(address, node_name)
    }
}

/// Connector that opens channels over TCP, with TLS if it is configured.
#[derive(Clone, Default)]
pub struct TcpConnector {
    /// Trusted authorities and the client's certificate. Without them connections are not encrypted, and no peer is
    /// authenticated.
    pub tls: Option<ClientTls>,
    /// Token that each call presents, for a client without a certificate.
    pub token: Option<Token>,
}

impl Connector for TcpConnector {
    fn channel(&self, address: &str, node_name: Option<&str>) -> Result<Channel, ConnectError> {
        let endpoint = endpoint("http", address)?;
        let bearer = self.token.as_ref().map(Bearer::of).unwrap_or_default();
        let Some(tls) = &self.tls else {
            if self.token.is_some() && !is_this_machine(endpoint.uri()) {
                return Err(ConnectError::PlainToken { address: address.to_owned() });
            }
            return Ok(bearer.over(endpoint.connect_lazy()));
        };
        let peer = ServerName::try_from(peer_name(node_name))
            .map_err(|error| ConnectError::Tls { address: address.to_owned(), reason: error.to_string() })?;
        Ok(bearer.over(tls.channel(&endpoint, peer)))
    }

    fn examine<'a>(&'a self, address: &'a str, node_name: Option<&'a str>) -> Examination<'a> {
        Box::pin(examine(address, self.tls.as_ref(), node_name))
    }
}

/// Returns whether data sent to this host stays on this machine.
fn is_this_machine(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns an endpoint without TLS for `address` (`host:port`), with all settings applied. Connectors that supply their
/// own sockets use it.
///
/// # Errors
/// Returns [`ConnectError::Address`] if the text is not an address.
pub fn plain_endpoint(address: &str) -> Result<Endpoint, ConnectError> {
    endpoint("http", address)
}

fn endpoint(scheme: &str, address: &str) -> Result<Endpoint, ConnectError> {
    let authority = address.parse::<http::uri::Authority>().ok().filter(|authority| {
        let has_user = address.contains('@');
        !has_user && authority.port_u16().is_some() && !authority.host().is_empty()
    });
    let endpoint = authority.and_then(|authority| Endpoint::from_shared(format!("{scheme}://{authority}")).ok());
    let Some(endpoint) = endpoint else { return Err(ConnectError::Address { address: address.to_owned() }) };
    Ok(endpoint
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_TIMEOUT)
        .initial_stream_window_size(HTTP2_WINDOW_BYTES)
        .initial_connection_window_size(HTTP2_WINDOW_BYTES)
        .http2_max_header_list_size(HTTP2_HEADER_BYTES_MAX)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true))
}

/// Returns a server builder with the settings of the other side, for connections whose TLS handshakes have ended.
pub fn server_builder() -> Server {
    Server::builder()
        .initial_stream_window_size(HTTP2_WINDOW_BYTES)
        .initial_connection_window_size(HTTP2_WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_MAX)
        .http2_max_header_list_size(HTTP2_HEADER_BYTES_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
}

/// Returns the incoming connections of a listener, with the socket option `TCP_NODELAY` set. Without this option, small
/// messages wait up to 40 ms for an acknowledgement. The option is set here because the setting of the gRPC server does
/// not apply to sockets that are passed to it.
pub fn incoming(listener: TcpListener) -> TcpIncoming {
    TcpIncoming::from(listener).with_nodelay(Some(true))
}

/// Creates a client of the Producer service with the limits on message sizes.
pub fn producer_client(channel: Channel) -> producer::producer_client::ProducerClient<Channel> {
    producer::producer_client::ProducerClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// Creates a Producer service with the limits on message sizes.
pub fn producer_server<S: producer::producer_server::Producer>(
    service: S,
) -> producer::producer_server::ProducerServer<S> {
    producer::producer_server::ProducerServer::new(service)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// Creates a client of the Peer service with the limits on message sizes.
pub fn peer_client(channel: Channel) -> peer::peer_client::PeerClient<Channel> {
    peer::peer_client::PeerClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// Creates a Peer service with the limits on message sizes.
pub fn peer_server<S: peer::peer_server::Peer>(service: S) -> peer::peer_server::PeerServer<S> {
    peer::peer_server::PeerServer::new(service)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// Creates a client of the Meta service with the limits on message sizes.
pub fn meta_client(channel: Channel) -> meta::meta_client::MetaClient<Channel> {
    meta::meta_client::MetaClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// Creates a Meta service with the limits on message sizes.
pub fn meta_server<S: meta::meta_server::Meta>(service: S) -> meta::meta_server::MetaServer<S> {
    meta::meta_server::MetaServer::new(service)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// Creates a client of the Admin service with the limits on message sizes.
pub fn admin_client(channel: Channel) -> admin::admin_client::AdminClient<Channel> {
    admin::admin_client::AdminClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// Creates an Admin service with the limits on message sizes.
pub fn admin_server<S: admin::admin_server::Admin>(service: S) -> admin::admin_server::AdminServer<S> {
    admin::admin_server::AdminServer::new(service)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}
