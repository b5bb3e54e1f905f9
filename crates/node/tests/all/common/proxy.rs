//! Proxies between a client and its nodes, for tests of retries. A proxy records all data that it forwards. A test can
//! also make a proxy lose the replies of a node. Such a proxy forwards everything that the client sends. When the
//! client has sent a configured number of bytes, the proxy begins to drop what the node sends.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use firstseen_wire::net::{Channel, ConnectError, Connector, TcpConnector};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Number of chunks from a node that are lost before the connection is closed. The first chunk may be a mere
/// acknowledgement.
const PIECES_LOST: usize = 2;

/// Recorded bytes of one connection in both directions.
#[derive(Default)]
pub struct Passed {
    pub to_node: Vec<u8>,
    pub to_client: Vec<u8>,
}

/// Determines when connections lose replies.
#[derive(Clone, Copy)]
struct Fuse {
    /// Number of bytes from the client after which no byte of the node is forwarded.
    bytes: usize,
    /// Maximum number of connections that are closed in this way.
    cuts_max: usize,
}

/// State that all proxies of a client share.
struct Taps {
    connections: Mutex<Vec<Arc<Mutex<Passed>>>>,
    fuse: Option<Fuse>,
    cuts: AtomicUsize,
}

/// A connector that opens channels through a proxy for each node.
#[derive(Clone)]
pub struct ProxyConnector {
    taps: Arc<Taps>,
    proxies: Arc<Mutex<HashMap<String, SocketAddr>>>,
}

impl ProxyConnector {
    /// Creates proxies that only record the data that they forward.
    pub fn that_listens() -> Self {
        Self::new(None)
    }

    /// Creates proxies that lose replies of a node. A proxy forwards the data of the client without loss. After the
    /// client has sent `bytes` bytes on a connection, the proxy drops all data that the node sends on this connection,
    /// and then closes it. At most `cuts_max` connections are treated in this way, and all further connections work
    /// normally.
    pub fn that_loses_replies(bytes: usize, cuts_max: usize) -> Self {
        Self::new(Some(Fuse { bytes, cuts_max }))
    }

    fn new(fuse: Option<Fuse>) -> Self {
        let taps = Taps { connections: Mutex::default(), fuse, cuts: AtomicUsize::new(0) };
        Self { taps: Arc::new(taps), proxies: Arc::default() }
    }

    /// Returns the number of connections whose replies were lost.
    pub fn cuts(&self) -> usize {
        self.taps.cuts.load(Ordering::Relaxed)
    }

    /// Calls `look` for every connection so far.
    pub fn for_each(&self, mut look: impl FnMut(&Passed)) {
        let connections = self.taps.connections.lock().expect("no test has panicked with it").clone();
        connections.iter().for_each(|passed| look(&passed.lock().expect("no test has panicked with it")));
    }

    fn proxy_to(&self, address: &str) -> SocketAddr {
        let mut proxies = self.proxies.lock().expect("no test has panicked with it");
        *proxies.entry(address.to_owned()).or_insert_with(|| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.set_nonblocking(true).expect("a socket");
            let proxy = listener.local_addr().expect("an address");
            let listener = TcpListener::from_std(listener).expect("a runtime");
            tokio::spawn(serve(listener, address.to_owned(), self.taps.clone()));
            proxy
        })
    }
}

impl Connector for ProxyConnector {
    fn channel(&self, address: &str, node_name: Option<&str>) -> Result<Channel, ConnectError> {
        TcpConnector::default().channel(&self.proxy_to(address).to_string(), node_name)
    }
}

async fn serve(listener: TcpListener, node: String, taps: Arc<Taps>) {
    while let Ok((client, _)) = listener.accept().await {
        let passed = Arc::new(Mutex::new(Passed::default()));
        taps.connections.lock().expect("no test has panicked with it").push(passed.clone());
        let (node, taps) = (node.clone(), taps.clone());
        tokio::spawn(async move {
            let Ok(node) = TcpStream::connect(node).await else { return };
            let _ = client.set_nodelay(true).and(node.set_nodelay(true));
            let ((from_client, to_client), (from_node, to_node)) = (client.into_split(), node.into_split());
            let (here, there) = (passed.clone(), passed);
            // When one direction ends, both halves are dropped, which closes the connection.
            tokio::select! {
                () = to_the_node(from_client, to_node, &here) => {}
                () = to_the_client(from_node, to_client, &there, &taps) => {}
            }
        });
    }
}

async fn to_the_node(mut client: OwnedReadHalf, mut node: OwnedWriteHalf, passed: &Mutex<Passed>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(bytes @ 1..) = client.read(&mut buffer).await {
        passed.lock().expect("no test has panicked with it").to_node.extend_from_slice(&buffer[..bytes]);
        if node.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
    }
}

async fn to_the_client(mut node: OwnedReadHalf, mut client: OwnedWriteHalf, passed: &Mutex<Passed>, taps: &Taps) {
    let mut buffer = vec![0; 64 << 10];
    let mut lost = 0;
    while let Ok(bytes @ 1..) = node.read(&mut buffer).await {
        let sent = passed.lock().expect("no test has panicked with it").to_node.len();
        let may_cut = |fuse: &Fuse| sent >= fuse.bytes && taps.cuts.load(Ordering::Relaxed) < fuse.cuts_max;
        if lost > 0 || taps.fuse.as_ref().is_some_and(may_cut) {
            lost += 1;
            if lost == PIECES_LOST {
                taps.cuts.fetch_add(1, Ordering::Relaxed);
                return;
            }
            continue;
        }
        passed.lock().expect("no test has panicked with it").to_client.extend_from_slice(&buffer[..bytes]);
        if client.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
    }
}
