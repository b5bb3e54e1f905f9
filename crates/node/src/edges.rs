//! Everything that a node touches of its machine, so that a simulation can give it another.
//!
//! A node opens no socket, reads no clock and starts no thread except through its [`Edges`]. The doors for Redis and HTTP clients
//! are the exception: they start threads to serve a [`RedisListener::Tcp`] and [`Edges::http_api`].

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

/// Connections that may wait to be accepted: more may come at once than are accepted in a moment.
const BACKLOG: u32 = 4096;

/// Whether a data folder has the identity of its node.
pub fn has_identity(data_dir: &Path) -> bool {
    fs::metadata(data_dir.join(DATABASE_FILE)).is_ok_and(|metadata| metadata.len() > 0)
}

/// Whether a data folder has the journal of a node, and not that node's identity.
pub fn has_lost_identity(data_dir: &Path) -> bool {
    let journal = fs::read_dir(data_dir.join(JOURNAL_FOLDER));
    !has_identity(data_dir) && journal.is_ok_and(|mut files| files.next().is_some())
}

/// Where owners of slices run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerSpawner {
    /// Each on a thread of its own.
    Threads,
    /// As tasks of the runtime that starts the node: for simulations, which have one thread.
    Tasks,
}

impl OwnerSpawner {
    /// Runs `owner` until it ends.
    ///
    /// # Errors
    /// The thread or its runtime cannot be made.
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

/// Bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static> Duplex for T {}

/// Who is at the other end of a connection, where the network itself knows and no certificate has to say so.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Vouched {
    /// The roles that its certificate would give it.
    pub roles: PeerRoles,
    /// The principal that it would name.
    pub principal: Option<String>,
}

/// A connection that was accepted.
pub struct Connection {
    io: Box<dyn Duplex>,
    info: TcpConnectInfo,
    tls: Option<TlsConnectInfo<TcpConnectInfo>>,
    vouched: Option<Vouched>,
}

impl Connection {
    /// A connection from `remote`.
    pub fn new(io: impl Duplex, local: Option<SocketAddr>, remote: Option<SocketAddr>) -> Self {
        Self {
            io: Box::new(io),
            info: TcpConnectInfo { local_addr: local, remote_addr: remote },
            tls: None,
            vouched: None,
        }
    }

    /// The same, from whom the network says. Only a simulated network can know: nothing that a peer sends gets here, and
    /// listeners of a machine do not call this. It can only take rights away: without certificates whoever connects may do
    /// everything, and where certificates are asked for a handshake forgets it.
    #[doc(hidden)]
    pub fn vouched_for(self, vouched: Option<Vouched>) -> Self {
        Self { vouched, ..self }
    }

    /// The same after its handshake.
    pub(crate) fn secured(stream: TlsStream<Self>) -> Self {
        let info = stream.get_ref().0.info.clone();
        let tls = Some(stream.connect_info());
        Self { io: Box::new(stream), info, tls, vouched: None }
    }

    /// For whom the network vouches; nobody after a handshake.
    pub(crate) fn vouched(&self) -> Option<Vouched> {
        self.vouched.clone()
    }

    /// What calls know of its handshake, after one.
    pub(crate) fn tls(&self) -> Option<TlsConnectInfo<TcpConnectInfo>> {
        self.tls.clone()
    }

    /// The certificates that it has shown, after a handshake.
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

    /// A write from several buffers at once stays one write.
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

/// Connections as they come in.
pub type Incoming = Pin<Box<dyn Stream<Item = io::Result<Connection>> + Send>>;

/// Connections that `listener` accepts, without Nagle's delay.
pub fn tcp_incoming(listener: TcpListener) -> Incoming {
    let local = listener.local_addr().ok();
    Box::pin(net::incoming(listener).map(move |accepted| {
        let stream = accepted?;
        let remote = stream.peer_addr().ok();
        Ok(Connection::new(stream, local, remote))
    }))
}

/// Where Redis clients connect.
pub enum RedisListener {
    /// A socket. Threads of the door's own serve its connections.
    Tcp(TcpListener),
    /// Connections of a simulated network. A task of the runtime that starts the node serves them.
    Simulated(Incoming),
}

impl RedisListener {
    /// Returns the address of the socket.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Simulated(_) => None,
        }
    }
}

/// What a node touches of its machine.
pub struct Edges {
    /// Connections of producers, nodes and operators.
    pub incoming: Incoming,
    /// Where those connections are accepted: the address that is advertised where the configuration names no other.
    pub address: String,
    /// Where health and metrics are served.
    pub http: Option<TcpListener>,
    /// Where Redis clients connect.
    pub redis: Option<RedisListener>,
    /// Where HTTP clients connect. Threads of the door's own serve its connections.
    pub http_api: Option<TcpListener>,
    /// Opens connections to other nodes.
    pub connector: Arc<dyn Connector>,
    /// Its certificate, and whom it trusts; callers show none where there is none.
    pub tls: Option<ServerTls>,
    /// Where it is written down who did what; in the log where there is none.
    pub audit: Option<AuditFile>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where owners run.
    pub owners: OwnerSpawner,
    /// Limits of owners beyond the configuration: the rules that tests switch off are here, out of reach of an
    /// operator.
    #[doc(hidden)]
    pub owner_limits: OwnerLimits,
    /// Where the cluster's agreement is kept.
    pub storage: MetaStorage,
    /// Where the journal of slices is kept.
    pub journal: Arc<dyn Disk>,
    /// Bytes of each of its files.
    pub journal_segment_bytes: u32,
    /// What must not be deleted while the node runs; none if nobody can.
    pub kept_files: Option<Arc<dyn KeptFiles>>,
    /// Where the time is kept for the next start.
    pub last_time: Arc<dyn LastTime>,
    /// Drawn at random at every start; all random choices follow from it, except secrets, which the machine draws.
    pub seed: u64,
}

/// Why the machine does not give a node what it needs.
#[derive(Debug, Error)]
pub enum EdgeError {
    /// An address cannot be listened on.
    #[error("{field}: cannot listen on {address}; is another process there?")]
    Listen {
        /// The setting.
        field: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The audit file cannot be written.
    #[error(transparent)]
    Audit(#[from] AuditFileError),
    /// The certificate cannot be used.
    #[error("tls: {0}")]
    Tls(#[from] TlsError),
    /// A repair was not finished.
    #[error("{0} is there, and no journal: let `firstseen node repair` finish what it has begun")]
    Repair(PathBuf),
    /// No random bits.
    #[error("the machine gives no random bits: {0}")]
    Random(String),
}

impl Edges {
    /// The edges of a process on this machine, as `config` asks: sockets, threads, the machine's clocks. The folder for
    /// data must exist.
    ///
    /// # Errors
    /// [`EdgeError`] names the setting.
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

/// Random bits of the machine, which cannot be guessed.
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
    // So that a node that starts again has its address back at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
