//! Starts a real Apache Kafka broker: one node with its own controller, on the loopback interface, with its data in a
//! temporary folder.
//!
//! The broker ends with the test process, even if that process is killed, because the broker halts at the end of its
//! standard input.

use std::fs::File;
use std::net::TcpStream;
use std::ops::{Deref, DerefMut};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::ports::free_ports;
use crate::run::Folder;

use super::build::{class_path, java};
use super::client::Client;

/// Maximum time until a broker accepts connections.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Time after which the controller gives up a broker that does not report. A broker on a busy machine must not be given
/// up, and a broker that was killed must be given up before it is started again.
const SHARED_SESSION_MS: u32 = 30_000;
const KILLED_SESSION_MS: u32 = 1_500;

/// Settings of the broker. Topics are created by the tests only. Times are short, so that the broker notices quickly
/// that a transaction, a group member or a record has expired. Records may have any timestamp and do not expire, except
/// in topics with settings of their own.
const SETTINGS: &str = "\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
auto.create.topics.enable=false
broker.heartbeat.interval.ms=300
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.initial.task.delay.ms=500
log.retention.ms=-1
log.retention.check.interval.ms=500
log.message.timestamp.after.max.ms=9223372036854775807
";

/// Kafka broker that a test has started.
pub(super) struct Kafka {
    process: Child,
    class_path: &'static str,
    port: u16,
    folder: Folder,
    idle: Arc<Mutex<Vec<Client>>>,
}

/// Client that goes back to its broker for the next test, because the start of a Java process takes seconds on a busy
/// machine.
pub(super) struct Lease {
    client: Option<Client>,
    idle: Arc<Mutex<Vec<Client>>>,
}

impl Deref for Lease {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client.as_ref().expect("a client until the end of the lease")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Client {
        self.client.as_mut().expect("a client until the end of the lease")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // After a failure, the client may be in the middle of a command.
        if !std::thread::panicking() {
            self.idle.lock().expect("the idle clients").extend(self.client.take());
        }
    }
}

impl Kafka {
    /// Returns the broker that the tests of this process share. Prints a notice and returns `None` if there is no Java
    /// or no Kafka on this machine.
    pub(super) fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Kafka>> = OnceLock::new();
        SHARED.get_or_init(|| Self::with_session(SHARED_SESSION_MS)).as_ref()
    }

    /// Starts a broker which only the caller uses, and which the caller may kill.
    pub(super) fn start() -> Option<Self> {
        Self::with_session(KILLED_SESSION_MS)
    }

    fn with_session(session_ms: u32) -> Option<Self> {
        let class_path = class_path()?;
        let port = free_ports(2);
        let folder = Folder::new();
        let data = folder.path("data");
        let addresses = format!(
            "listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
             controller.quorum.bootstrap.servers=127.0.0.1:{controller}\n\
             log.dirs={data}\n\
             broker.session.timeout.ms={session_ms}\n",
            controller = port + 1,
            data = data.display()
        );
        folder.write("server.properties", format!("{SETTINGS}{addresses}"));
        let process = spawn(class_path, &folder);
        let mut kafka = Self { process, class_path, port, folder, idle: Arc::default() };
        kafka.wait_until_it_accepts();
        Some(kafka)
    }

    fn wait_until_it_accepts(&mut self) {
        let deadline = Instant::now() + START_LIMIT;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let ended = self.process.try_wait().expect("a status");
            assert_eq!(ended, None, "Kafka did not start: {}", self.folder.read("broker.log"));
            assert!(Instant::now() < deadline, "Kafka did not start in time: {}", self.folder.read("broker.log"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the address of the broker, in the form that clients accept.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns a client of this broker that nobody else uses.
    pub(super) fn client(&self) -> Lease {
        let idle = self.idle.lock().expect("the idle clients").pop();
        let client = idle.unwrap_or_else(|| Client::start(self.class_path, &self.address()));
        Lease { client: Some(client), idle: Arc::clone(&self.idle) }
    }

    /// Kills the broker, which keeps its data.
    pub(super) fn kill(&mut self) {
        self.process.kill().expect("a process");
        self.process.wait().expect("an end");
    }

    /// Starts the broker again after [`Self::kill`], with the same address and the same data.
    pub(super) fn start_again(&mut self) {
        self.process = spawn(self.class_path, &self.folder);
        self.wait_until_it_accepts();
    }

    /// Stops the broker from running until [`Self::resume`].
    pub(super) fn suspend(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub(super) fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).expect("a process id");
        kill(Pid::from_raw(id), signal).expect("a process");
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(class_path: &str, folder: &Folder) -> Child {
    let mut command = java(class_path, 512, &folder.path(""), "clients.Broker");
    command.arg(folder.path("server.properties")).arg(folder.path("data")).arg(folder.path(""));
    let log = File::options().create(true).append(true).open(folder.path("broker.log")).expect("a log");
    let also = log.try_clone().expect("a log");
    command.stdin(Stdio::piped()).stdout(log).stderr(also).spawn().expect("java")
}

/// Returns a name for a topic or a group that no other test of this process uses.
pub(super) fn unique(name: &str) -> String {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    format!("{name}-{}", TAKEN.fetch_add(1, Ordering::Relaxed))
}
