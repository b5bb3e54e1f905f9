//! Connections: how they are opened and accepted, with the same settings at both ends.
//!
//! Promises: a channel that exists has been given every limit of [`crate::limits`]; opening one waits for nothing. Must
//! not know: which services run over a channel, when to give it up.

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

/// Why no connection can be tried.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// Not an address.
    #[error("`{address}` is not an address: give host:port")]
    Address {
        /// What was given.
        address: String,
    },
    /// The certificate cannot be used for this peer.
    #[error("TLS to {address} cannot be set up: {reason}")]
    Tls {
        /// The peer.
        address: String,
        /// What the TLS library says.
        reason: String,
    },
    /// Everybody on the way could read the token.
    #[error(
        "the token is not sent to {address}, as the connection is plain: give the certificate of the cluster's authority, or \
         connect to this machine (127.0.0.1)"
    )]
    PlainToken {
        /// The peer.
        address: String,
    },
}

/// Opens channels: over TCP, or over a simulated network.
pub trait Connector: Send + Sync + 'static {
    /// A channel to `address` (`host:port`) that connects when it is first used, and again whenever it must. With TLS
    /// the peer must be the node of this name, or any node of the cluster where none is given.
    ///
    /// # Errors
    /// [`ConnectError`] where nothing can be tried; that no peer answers shows when the channel is used.
    fn channel(&self, address: &str, node_name: Option<&str>) -> Result<Channel, ConnectError>;

    /// Opens a stream of batches to the node at `address` past the network, where that node is in this process; the requests are
    /// those of the Producer service's `Observe`.
    fn observe_here(&self, address: &str, requests: mpsc::Receiver<ObserveRequest>) -> Option<ObserveHere> {
        let _ = (address, requests);
        None
    }

    /// Why no connection to `address` can be made, where waiting does not change that and it can be found out. This is
    /// for the time after a connection has failed; it makes another one to find out.
    fn examine<'a>(&'a self, address: &'a str, node_name: Option<&'a str>) -> Examination<'a> {
        let _ = (address, node_name);
        Box::pin(ready(None))
    }
}

/// The replies of a stream that [`Connector::observe_here`] has opened; an error says why there is none.
pub type ObserveHere = Result<mpsc::Receiver<Result<ObserveReply, Status>>, Status>;

/// The result of [`Connector::examine`].
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

/// Opens channels over TCP, with TLS where it is given.
#[derive(Clone, Default)]
pub struct TcpConnector {
    /// Whom this end trusts, and its certificate; without it, connections are plain and no peer is authenticated.
    pub tls: Option<ClientTls>,
    /// What each call shows, for an end without a certificate of its own.
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

/// Whether what is sent to this host stays on this machine.
fn is_this_machine(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The plain endpoint of `address` (`host:port`) with every setting, for connectors that bring their own sockets.
///
/// # Errors
/// [`ConnectError::Address`] where it is none.
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

/// A server with the settings of the other end, for connections whose handshakes are over.
pub fn server_builder() -> Server {
    Server::builder()
        .initial_stream_window_size(HTTP2_WINDOW_BYTES)
        .initial_connection_window_size(HTTP2_WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_MAX)
        .http2_max_header_list_size(HTTP2_HEADER_BYTES_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
}

/// The connections that come in on a listener. The server's own setting does not reach sockets that it is given, and
/// without it small messages wait up to 40 ms for an acknowledgement.
pub fn incoming(listener: TcpListener) -> TcpIncoming {
    TcpIncoming::from(listener).with_nodelay(Some(true))
}

/// A Producer client with the limits on messages.
pub fn producer_client(channel: Channel) -> producer::producer_client::ProducerClient<Channel> {
    producer::producer_client::ProducerClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// A Producer service with the limits on messages.
pub fn producer_server<S: producer::producer_server::Producer>(
    service: S,
) -> producer::producer_server::ProducerServer<S> {
    producer::producer_server::ProducerServer::new(service)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// A Peer client with the limits on messages.
pub fn peer_client(channel: Channel) -> peer::peer_client::PeerClient<Channel> {
    peer::peer_client::PeerClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// A Peer service with the limits on messages.
pub fn peer_server<S: peer::peer_server::Peer>(service: S) -> peer::peer_server::PeerServer<S> {
    peer::peer_server::PeerServer::new(service)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// A Meta client with the limits on messages.
pub fn meta_client(channel: Channel) -> meta::meta_client::MetaClient<Channel> {
    meta::meta_client::MetaClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// A Meta service with the limits on messages.
pub fn meta_server<S: meta::meta_server::Meta>(service: S) -> meta::meta_server::MetaServer<S> {
    meta::meta_server::MetaServer::new(service)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// A Admin client with the limits on messages.
pub fn admin_client(channel: Channel) -> admin::admin_client::AdminClient<Channel> {
    admin::admin_client::AdminClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// A Admin service with the limits on messages.
pub fn admin_server<S: admin::admin_server::Admin>(service: S) -> admin::admin_server::AdminServer<S> {
    admin::admin_server::AdminServer::new(service)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}
