//! Tests of the Redis endpoint at the level of bytes: what client libraries send when they connect, and input that no
//! client library sends.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use socket2::SockRef;

use crate::local_cluster::eventually;
use crate::redis_endpoint::RedisEndpoint;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Plain connection without a client library.
pub(crate) struct Wire(TcpStream);

impl Wire {
    pub(crate) fn to(endpoint: &RedisEndpoint) -> Self {
        drop(endpoint.client());
        Self::at(endpoint.port)
    }

    /// Connects to an endpoint that is already open.
    pub(crate) fn at(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        stream.set_write_timeout(Some(TIMEOUT)).expect("a timeout");
        Self(stream)
    }

    pub(crate) fn send(&mut self, words: &[&str]) {
        self.send_all([words]);
    }

    /// Sends several commands at once.
    pub(crate) fn send_all<'a>(&mut self, commands: impl IntoIterator<Item = &'a [&'a str]>) {
        let mut bytes = String::new();
        for words in commands {
            bytes += &format!("*{}\r\n", words.len());
            words.iter().for_each(|word| bytes += &format!("${}\r\n{word}\r\n", word.len()));
        }
        self.0.write_all(bytes.as_bytes()).expect("it listens");
    }

    /// Returns whether there are no unread bytes.
    pub(crate) fn is_silent(&self) -> bool {
        self.0.set_nonblocking(true).expect("a socket");
        let peeked = self.0.peek(&mut [0]);
        self.0.set_nonblocking(false).expect("a socket");
        peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Reads one reply with all of its elements.
    pub(crate) fn reply(&mut self) -> String {
        let mut heard = String::new();
        let mut left = 1u64;
        while left > 0 {
            left -= 1;
            let line = self.line();
            let number = || line.get(1..).and_then(|text| text.trim_end().parse::<i64>().ok());
            match (line.as_bytes().first(), number()) {
                (Some(b'*' | b'~' | b'>'), Some(count)) => left += count.max(0).unsigned_abs(),
                (Some(b'%'), Some(count)) => left += 2 * count.max(0).unsigned_abs(),
                (Some(b'$'), Some(length @ 0..)) => {
                    let mut bytes = vec![0; length as usize + 2];
                    self.0.read_exact(&mut bytes).expect("the rest of the reply");
                    heard += &line;
                    heard += &String::from_utf8_lossy(&bytes);
                    continue;
                }
                (Some(b'+' | b'-' | b':' | b'_' | b'#' | b'$'), _) => {}
                _ => panic!("no reply begins so: {line:?}, after {heard:?}"),
            }
            heard += &line;
        }
        heard
    }

    /// Reads up to the end of a line.
    pub(crate) fn line(&mut self) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\r\n") {
            self.0
                .read_exact(&mut byte)
                .unwrap_or_else(|error| panic!("{error} after {:?}", line.escape_ascii().to_string()));
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).into_owned()
    }

    fn expect_reply(&mut self, expected: &str) {
        let mut heard = vec![0; expected.len()];
        self.0.read_exact(&mut heard).unwrap_or_else(|error| panic!("{error} instead of {expected:?}"));
        assert_eq!(String::from_utf8_lossy(&heard), expected);
    }

    pub(crate) fn asks(&mut self, words: &[&str], expected: &str) {
        self.send(words);
        self.expect_reply(expected);
    }

    /// Reads until the endpoint closes the connection.
    fn rest(&mut self) -> String {
        let mut heard = Vec::new();
        match self.0.read_to_end(&mut heard) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the connection stays open: {error}"),
        }
        String::from_utf8_lossy(&heard).into_owned()
    }
}

#[test]
fn clients_of_other_languages_find_what_they_look_for_when_they_connect() {
    let endpoint = RedisEndpoint::with_cluster("");
    // redis-py and node-redis begin with these commands.
    let mut wire = Wire::to(&endpoint);
    wire.send(&["HELLO", "3"]);
    wire.expect_reply(
        "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.4\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:",
    );
    let mut byte = [0];
    while byte != *b"\n" {
        wire.0.read_exact(&mut byte).expect("the number of the connection");
    }
    wire.expect_reply("$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*1\r\n%4\r\n$4\r\nname\r\n$2\r\nbf\r\n");
    wire.expect_reply("$3\r\nver\r\n:20608\r\n$4\r\npath\r\n$0\r\n\r\n$4\r\nargs\r\n*0\r\n");
    wire.asks(&["CLIENT", "SETINFO", "LIB-NAME", "redis-py"], "+OK\r\n");
    wire.asks(&["CLIENT", "SETNAME", "crawler"], "+OK\r\n");
    wire.asks(&["CLIENT", "GETNAME"], "$7\r\ncrawler\r\n");
    wire.asks(&["BF.ADD", "clicks", "x"], "#t\r\n");
    wire.asks(&["BF.MADD", "clicks", "x", "y"], "*2\r\n#f\r\n#t\r\n");
    wire.asks(&["GET", "__Booksleeve_TieBreak"], "_\r\n");
    wire.asks(&["RESET"], "+RESET\r\n");
    wire.asks(&["BF.ADD", "clicks", "x"], ":0\r\n");
    // With these replies, go-redis and lettuce recognise a server without HELLO 4. jedis does not use HELLO.
    let mut wire = Wire::to(&endpoint);
    wire.asks(&["HELLO", "4"], "-NOPROTO unsupported protocol version\r\n");
    wire.asks(&["SELECT", "0"], "+OK\r\n");
    wire.asks(&["PING"], "+PONG\r\n");
    wire.asks(&["ECHO", "\r\n"], "$2\r\n\r\n\r\n");
    wire.asks(&["CONFIG", "GET", "appendonly"], "*0\r\n");
    let slots = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:{}\r\n$40\r\n", endpoint.port);
    wire.asks(&["CLUSTER", "SLOTS"], &slots);
    let alone = RedisEndpoint::with_cluster("cluster = false\n");
    Wire::to(&alone).asks(&["CLUSTER", "SLOTS"], "-ERR This instance has cluster support disabled\r\n");
    let mut wire = Wire::to(&endpoint);
    let sentinel = "SENTINEL is not served; every node can be an endpoint, and filter create --copies N keeps copies";
    wire.asks(&["SENTINEL", "MASTERS"], &format!("-ERR firstseen is a cluster of its own: {sentinel}\r\n"));
    // StackExchange.Redis subscribes as soon as it connects.
    wire.asks(
        &["SUBSCRIBE", "a", "b"],
        "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n",
    );
    wire.asks(&["BF.ADD", "clicks", "x"], "-ERR Can't execute this command: only (P|S)SUBSCRIBE");
    let mut wire = Wire::to(&endpoint);
    wire.asks(&["SUBSCRIBE", "a"], "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n");
    wire.asks(&["PING"], "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    wire.asks(&["UNSUBSCRIBE"], "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n");
    wire.asks(&["BF.ADD", "clicks", "x"], ":0\r\n");
    let mut wire = Wire::to(&endpoint);
    wire.asks(&["SET", "k"], "-ERR wrong number of arguments for 'set' command\r\n");
    // ioredis waits until INFO reports that nothing is loading.
    wire.send(&["INFO"]);
    let mut bytes = vec![0; 512];
    let read = wire.0.read(&mut bytes).expect("a reply");
    let info = String::from_utf8_lossy(&bytes[..read]).into_owned();
    for line in
        ["redis_version:7.2.4", "arch_bits:64", "loading:0", "role:master", "cluster_enabled:0", "module:name=bf"]
    {
        assert!(info.contains(line), "{line} is not in {info}");
    }
    // These are inline commands, as people type them.
    let mut wire = Wire::to(&endpoint);
    wire.0.write_all(b"PING\r\nBF.ADD clicks \"two words\"\r\nQUIT\r\n").expect("it listens");
    assert_eq!(wire.rest(), "+PONG\r\n:1\r\n+OK\r\n");
}

#[test]
fn bytes_that_are_no_commands_are_told_so_and_the_connection_is_closed() {
    let endpoint = RedisEndpoint::with_cluster("connections_max = 8\n");
    for (bytes, said) in [
        (&b"*2147483648\r\n"[..], "-ERR Protocol error: invalid multibulk length\r\n"),
        (
            b"*1\r\n$2147483647\r\n",
            "-ERR Protocol error: invalid bulk length (items and values have at most 65536 bytes)\r\n",
        ),
        (b"*1\r\n+PING\r\n", "-ERR Protocol error: expected '$', got '+'\r\n"),
        (b"PING \"x\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
        (b"*1\r\n$4\r\nPING\r\n*x\r\n", "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n"),
    ] {
        let mut wire = Wire::to(&endpoint);
        wire.0.write_all(bytes).expect("it listens");
        assert_eq!(wire.rest(), said, "{}", bytes.escape_ascii());
    }
    // A client that continues to send still learns why it was disconnected.
    let mut wire = Wire::to(&endpoint);
    wire.0.write_all(b"*1\r\n$8388608\r\n").expect("it listens");
    wire.0.write_all(&vec![b'x'; 1 << 20]).expect("it listens to the end");
    assert_eq!(wire.rest(), "-ERR Protocol error: invalid bulk length (items and values have at most 65536 bytes)\r\n");
    // Other connections continue, and a connection beyond the limit learns why it is closed.
    let enter = || {
        let mut wire = Wire(TcpStream::connect(("127.0.0.1", endpoint.port)).expect("a connection"));
        wire.0.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        wire.send(&["PING"]);
        let mut first = [0];
        wire.0.read_exact(&mut first).expect("a reply");
        (first == *b"+", wire)
    };
    let mut held: Vec<Wire> = Vec::new();
    // Earlier connections may not have been closed yet.
    eventually("eight places", || {
        let (is_in, wire) = enter();
        held.extend(is_in.then_some(wire));
        held.len() == 8
    });
    let (is_in, mut ninth) = enter();
    assert!(!is_in, "there is no limit");
    assert_eq!(ninth.rest(), "ERR max number of clients reached\r\n");
}

/// Checks that incomplete commands, unread replies, and commands beyond the memory budget use only bounded memory.
#[test]
fn greedy_clients_take_bounded_memory_and_others_go_on() {
    let endpoint = RedisEndpoint::with_cluster("buffered_bytes_max = 1048576\n");
    let mut other = Wire::to(&endpoint);
    other.asks(&["BF.ADD", "clicks", "first"], ":1\r\n");
    let before_kib = resident_kib(&endpoint);
    let mut greedy: Vec<Wire> = Vec::new();
    let chunk = vec![b'x'; 60 << 10];
    for _ in 0..64 {
        let mut wire = Wire::to(&endpoint);
        let mut command = b"*8000\r\n$7\r\nBF.MADD\r\n$6\r\nclicks\r\n".to_vec();
        for _ in 0..4 {
            command.extend_from_slice(format!("${}\r\n", chunk.len()).as_bytes());
            command.extend_from_slice(&chunk);
            command.extend_from_slice(b"\r\n");
        }
        // If the budget is used up, the client gets an error, and further writes fail.
        let _ = wire.0.write_all(&command);
        greedy.push(wire);
    }
    let mut silent = Wire::to(&endpoint);
    silent.0.set_write_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    let ping =
        b"*2\r\n$4\r\nECHO\r\n$1000\r\n".iter().copied().chain([b'e'; 1000]).chain(*b"\r\n").collect::<Vec<u8>>();
    let mut sent = 0usize;
    while sent < (64 << 20) && silent.0.write_all(&ping.repeat(64)).is_ok() {
        sent += 64 * ping.len();
    }
    assert!(sent > 1 << 20, "it was heard for a while: {sent}");
    assert!(sent < 64 << 20, "a client that reads nothing is heard no further");
    other.asks(&["BF.ADD", "clicks", "still"], ":1\r\n");
    let was_refused = |wire: &mut Wire| {
        let mut first = [0; 64];
        wire.0.set_read_timeout(Some(Duration::from_millis(10))).expect("a timeout");
        matches!(wire.0.read(&mut first), Ok(read) if first[..read].starts_with(b"-ERR the node has no room"))
    };
    assert!(greedy.iter_mut().any(was_refused), "somebody found no room");
    // The limit covers 64 connections with 64 KiB each, the common budget, and the unread replies.
    let grown_kib = resident_kib(&endpoint).saturating_sub(before_kib);
    assert!(grown_kib < 64 << 10, "{grown_kib} KiB more than before");
}

fn resident_kib(endpoint: &RedisEndpoint) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", endpoint.node.process())).expect("its memory");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of it");
    resident.split_whitespace().next().and_then(|text| text.parse().ok()).expect("a number")
}

/// Regression test for memory that is freed but not returned to the operating system. Many clients sent commands
/// without reading the replies. In an earlier version, the node freed the memory of these replies, but its process kept
/// 400 MiB until it ended.
#[test]
fn memory_of_a_burst_is_given_back() {
    const BURST_KIB: u64 = 48 << 10;
    const CLIENTS: usize = 200;
    let endpoint = RedisEndpoint::with_cluster("");
    drop(Wire::to(&endpoint));
    let before_kib = resident_kib(&endpoint);
    let command = format!("*2\r\n$4\r\nECHO\r\n$60000\r\n{}\r\n", "e".repeat(60_000));
    let mut silent: Vec<(TcpStream, usize)> = (0..CLIENTS)
        .map(|_| {
            let stream = TcpStream::connect(("127.0.0.1", endpoint.port)).expect("a connection");
            SockRef::from(&stream).set_recv_buffer_size(4096).expect("a size");
            stream.set_nonblocking(true).expect("a socket");
            (stream, 0)
        })
        .collect();
    eventually("a burst that takes memory", || {
        // Each client sends as much as the endpoint accepts, and reads nothing.
        for (stream, sent) in &mut silent {
            while let Ok(written) = stream.write(&command.as_bytes()[*sent..]) {
                *sent = (*sent + written) % command.len();
            }
        }
        resident_kib(&endpoint) > before_kib + BURST_KIB
    });
    drop(silent);
    eventually("the memory to be given back", || resident_kib(&endpoint) < before_kib + BURST_KIB / 3);
}
