//! The interface between a node and its machine. A node uses sockets, clocks, threads and disks through a value of type
//! [`Edges`], so that a simulation can run the same node code with simulated implementations.
//!
//! Two parts of a node do not use this interface for their threads. The Redis endpoint on a [`RedisListener::Tcp`] and
//! the HTTP endpoint on [`Edges::http_api`] start their own threads.

use std::fs;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use firstseen_journal::{Disk, FolderDisk, SEGMENT_BYTES};
use firstseen_meta::MetaStorage;
use firstseen_routing::OwnerLimits;
use firstseen_wire::net::{self, Connector, TcpConnector};
use firstseen_wire::tls::{PeerRoles, ServerTls, TlsError, TlsStream};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::CertificateDer;
use tonic::transport::server::{Connected, TcpConnectInfo, TlsConnectInfo};

use crate::audit_file::{AuditFile, AuditFileError};
use crate::clock::{Clock, SystemClock};
use crate::config::NodeConfig;
use crate::data_folder::{CLOCK_FILE, DATABASE_FILE, JOURNAL_FOLDER, REPAIRING_FOLDER};
use crate::folder_watch::{FolderFiles, KeptFiles};
use crate::last_time::{ClockFile, LastTime};

/// Maximum number of connections that wait to be accepted. The number is large because many clients may connect at the
/// same moment.
const BACKLOG: u32 = 4096;

/// Returns whether a data folder contains the identity of a node.
pub fn has_identity(data_dir: &Path) -> bool {
    fs::metadata(data_dir.join(DATABASE_FILE)).is_ok_and(|metadata| metadata.len() > 0)
}

/// Returns whether a data folder contains the journal of a node but no identity. Such a folder has lost its database.
pub fn has_lost_identity(data_dir: &Path) -> bool {
    let journal = fs::read_dir(data_dir.join(JOURNAL_FOLDER));
    !has_identity(data_dir) && journal.is_ok_and(|mut files| files.next().is_some())
}

/// Selects how the owners of slices run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerSpawner {
    /// Each owner runs on its own thread.
    Threads,
    /// Owners run as tasks of the runtime that starts the node. Simulations use this mode because they have only one
    /// thread.
    Tasks,
}

impl OwnerSpawner {
    /// Runs `owner` until it ends.
    ///
    /// # Errors
    /// Returns an error if the thread or its runtime cannot be created.
    pub(crate) fn spawn<F>(self, name: String, owner: F) -> io::Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match self {
            Self::Tasks => drop(tokio::spawn(owner)),
            Self::Threads => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
                std::thread::Builder::new().name(name).spawn(move || runtime.block_on(owner))?;
            }
        }
        Ok(())
    }
}

/// A bidirectional stream of bytes.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static> Duplex for T {}

/// Identity of a connection's peer that was set by a simulated network instead of a certificate. A simulated network
/// knows which simulated process opened each connection, so it can tell the node who the peer is. Real networks never
/// set such an identity.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Vouched {
    /// Roles that the peer's certificate would give it.
    pub roles: PeerRoles,
    /// Principal that the peer's certificate would name.
    pub principal: Option<String>,
}

/// An accepted connection.
pub struct Connection {
    io: Box<dyn Duplex>,
    info: TcpConnectInfo,
    tls: Option<TlsConnectInfo<TcpConnectInfo>>,
    vouched: Option<Vouched>,
}

impl Connection {
    /// Creates a connection from `remote`.
    pub fn new(io: impl Duplex, local: Option<SocketAddr>, remote: Option<SocketAddr>) -> Self {
        Self {
            io: Box::new(io),
            info: TcpConnectInfo { local_addr: local, remote_addr: remote },
            tls: None,
            vouched: None,
        }
    }

    /// Sets the identity of the peer of this connection, and returns the connection. This method is meant for simulated
    /// networks only. Real listeners do not call it, so a peer cannot give itself an identity by the data that it
    /// sends.
    ///
    /// An identity from a simulated network cannot give a peer additional rights. If the node uses no certificates,
    /// every peer already has all rights, so an identity can only reduce them. If the node uses certificates, the TLS
    /// handshake discards the identity from the simulated network, and only the peer's certificate counts.
    #[doc(hidden)]
    pub fn vouched_for(self, vouched: Option<Vouched>) -> Self {
        Self { vouched, ..self }
    }

    /// Wraps a connection that has completed its TLS handshake.
    pub(crate) fn secured(stream: TlsStream<Self>) -> Self {
        let info = stream.get_ref().0.info.clone();
        let tls = Some(stream.connect_info());
        Self { io: Box::new(stream), info, tls, vouched: None }
    }

    /// Returns the identity that the network vouches for. After a TLS handshake the result is always `None`.
    pub(crate) fn vouched(&self) -> Option<Vouched> {
        self.vouched.clone()
    }

    /// Returns the information about the TLS handshake that services can read. `None` means that there was no
    /// handshake.
    pub(crate) fn tls(&self) -> Option<TlsConnectInfo<TcpConnectInfo>> {
        self.tls.clone()
    }

    /// Returns the certificates that the peer presented in the TLS handshake. The list is empty without a handshake.
    pub(crate) fn certificates(&self) -> Arc<Vec<CertificateDer<'static>>> {
        self.tls.as_ref().and_then(TlsConnectInfo::peer_certs).unwrap_or_default()
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.info.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    /// Forwards a vectored write as a single write.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// Stream of accepted connections.
pub type Incoming = Pin<Box<dyn Stream<Item = io::Result<Connection>> + Send>>;

/// Returns the connections that `listener` accepts. Nagle's algorithm is disabled on them.
pub fn tcp_incoming(listener: TcpListener) -> Incoming {
    let local = listener.local_addr().ok();
    Box::pin(net::incoming(listener).map(move |accepted| {
        let stream = accepted?;
        let remote = stream.peer_addr().ok();
        Ok(Connection::new(stream, local, remote))
    }))
}

/// Source of the connections of Redis clients.
pub enum RedisListener {
    /// A TCP socket. The Redis endpoint serves its connections on its own threads.
    Tcp(TcpListener),
    /// Connections of a simulated network. A task of the runtime that starts the node serves them.
    Simulated(Incoming),
}

impl RedisListener {
    /// Returns the address of the socket. A simulated network has no address.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Simulated(_) => None,
        }
    }
}

/// The parts of its machine that a node uses.
pub struct Edges {
    /// Connections of producers, nodes and operators.
    pub incoming: Incoming,
    /// Address on which this node accepts connections from producers, other nodes and operators. If the configuration
    /// does not name an address to advertise, the node advertises this address to other nodes and clients.
    pub address: String,
    /// Listener for health checks and metrics.
    pub http: Option<TcpListener>,
    /// Source of the connections of Redis clients.
    pub redis: Option<RedisListener>,
    /// Listener for HTTP clients. The HTTP endpoint serves its connections on its own threads.
    pub http_api: Option<TcpListener>,
    /// Opens connections to other nodes.
    pub connector: Arc<dyn Connector>,
    /// The node's certificate and the certificate authority that it trusts. If `None`, clients connect without TLS and
    /// show no certificates.
    pub tls: Option<ServerTls>,
    /// Audit file, which records which principal made which change. If `None`, the node writes these lines to its log.
    pub audit: Option<AuditFile>,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Selects how the owners of slices run.
    pub owners: OwnerSpawner,
    /// Limits of owner threads that are not in the configuration. They include the rules that tests can switch off. An
    /// operator cannot reach them.
    #[doc(hidden)]
    pub owner_limits: OwnerLimits,
    /// Storage of the consensus log.
    pub storage: MetaStorage,
    /// Disk that stores the journal of slices.
    pub journal: Arc<dyn Disk>,
    /// Size of each journal file, in bytes.
    pub journal_segment_bytes: u32,
    /// Files that must not be deleted while the node runs. `None` means that no other process can delete them.
    pub kept_files: Option<Arc<dyn KeptFiles>>,
    /// Storage for the time of day that the next start of the node compares with its clock.
    pub last_time: Arc<dyn LastTime>,
    /// Seed of the node's random number generator, which is drawn at random at every start. All random choices of the
    /// node follow from this seed, so a simulation can repeat them. Secrets are the only exception, because they come
    /// from the operating system.
    pub seed: u64,
}

/// Reason why a resource of the machine is not available to the node.
#[derive(Debug, Error)]
pub enum EdgeError {
    /// The node cannot listen on an address.
    #[error("{field}: cannot listen on {address}; is another process there?")]
    Listen {
        /// The setting.
        field: &'static str,
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The audit file cannot be written.
    #[error(transparent)]
    Audit(#[from] AuditFileError),
    /// The certificate cannot be used.
    #[error("tls: {0}")]
    Tls(#[from] TlsError),
    /// A repair of the data folder was started but not finished.
    #[error(
        "{0} exists, but there is no journal: an earlier repair was interrupted, so run `firstseen node repair` again"
    )]
    Repair(PathBuf),
    /// The operating system provides no random bits.
    #[error("the operating system provides no random bits: {0}")]
    Random(String),
}

impl Edges {
    /// Opens the sockets, files and clocks that a node uses on a real machine, as `config` describes them. The data
    /// folder that the configuration names must already exist.
    ///
    /// # Errors
    /// [`EdgeError`] names the setting that causes the error.
    pub async fn of_machine(config: &NodeConfig) -> Result<Self, EdgeError> {
        let unfinished = config.data_dir.join(REPAIRING_FOLDER);
        if unfinished.exists() && !config.data_dir.join(JOURNAL_FOLDER).exists() {
            return Err(EdgeError::Repair(unfinished));
        }
        let tls = config.tls.as_ref().map(|tls| tls.server_files(&config.name).server()).transpose()?;
        let listener = listen("listen", config.listen)?;
        let address = listener.local_addr().unwrap_or(config.listen).to_string();
        let http = match config.http_listen {
            Some(address) => Some(listen("http_listen", address)?),
            None => None,
        };
        let redis = match &config.redis {
            Some(redis) => Some(RedisListener::Tcp(listen("redis.listen", redis.listen)?)),
            None => None,
        };
        let http_api = match &config.http_api {
            Some(http_api) => Some(listen("http_api.listen", http_api.listen)?),
            None => None,
        };
        let audit = config.audit.as_ref().map(|audit| AuditFile::open(&audit.file)).transpose()?;
        Ok(Self {
            incoming: tcp_incoming(listener),
            address,
            http,
            redis,
            http_api,
            connector: Arc::new(TcpConnector { tls: tls.as_ref().map(ServerTls::client), token: None }),
            tls,
            audit,
            clock: Arc::new(SystemClock::new()),
            owners: OwnerSpawner::Threads,
            owner_limits: OwnerLimits::default(),
            storage: MetaStorage::File(config.data_dir.join(DATABASE_FILE)),
            journal: Arc::new(FolderDisk::new(config.data_dir.join(JOURNAL_FOLDER))),
            journal_segment_bytes: SEGMENT_BYTES,
            kept_files: Some(Arc::new(FolderFiles::of(&config.data_dir))),
            last_time: Arc::new(ClockFile::new(config.data_dir.join(CLOCK_FILE))),
            seed: u64::from_le_bytes(random()?),
        })
    }
}

/// Returns unpredictable random bits from the operating system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], EdgeError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| EdgeError::Random(error.to_string()))?;
    Ok(bytes)
}

fn listen(field: &'static str, address: SocketAddr) -> Result<TcpListener, EdgeError> {
    listen_at(address).map_err(|source| EdgeError::Listen { field, address, source })
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Allows a restarted node to bind its address again at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
