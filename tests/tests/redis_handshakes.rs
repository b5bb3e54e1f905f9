//! Replays the commands that six client libraries send when they connect. The test sends exactly the same bytes as the
//! library, in an order that was taken from the library's source code. It checks the replies that the library needs to
//! continue.
//!
//! Like most client libraries, the test sends all commands of a handshake at once. If the endpoint left out a reply or
//! sent an additional one, all later replies would be assigned to the wrong commands, and the test would fail.

use crate::redis_bytes::Wire;
use crate::redis_endpoint::RedisEndpoint;

/// Command, and its expected reply. The reply is given completely, or by its beginning followed by `...`.
type Line = (&'static [&'static str], &'static str);

const OK: &str = "+OK\r\n";
/// What clients read in the reply to HELLO: a map, with the version of Redis 7.
const HELLO_3: &str =
    "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.4\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:...";
/// Error for a subcommand of newer servers. All clients that send it continue after this error.
const NO_SUCH_WORD: &str = "-ERR unknown subcommand '...";
const UNMAPPED: &str = "-ERR no filter is mapped to this key...";
/// StackExchange.Redis generates a name of arbitrary bytes.
const DRAWN: &str = "\u{1}\r\n\u{2}$5\r\n*1\r\n\u{3}";

const JEDIS: &[Line] = &[
    (&["CLIENT", "SETINFO", "LIB-NAME", "jedis"], OK),
    (&["CLIENT", "SETINFO", "LIB-VER", "5.2.0"], OK),
    (&["SELECT", "0"], OK),
    (&["PING"], "+PONG\r\n"),
    (&["SET", "dedup:jedis", "1", "NX", "EX", "600"], OK),
    (&["SET", "dedup:jedis", "1", "NX", "EX", "600"], "$-1\r\n"),
    (&["BF.MADD", "clicks", "a", "dedup:jedis"], "*2\r\n:1\r\n:0\r\n"),
    (&["QUIT"], OK),
];

/// Handshake of jedis in version 3 of the protocol, which is optional.
const JEDIS_3: &[Line] = &[
    (&["HELLO", "3"], HELLO_3),
    (&["CLIENT", "SETNAME", "crawler"], OK),
    (&["CLIENT", "SETINFO", "LIB-NAME", "jedis"], OK),
    (&["CLIENT", "SETINFO", "LIB-VER", "5.2.0"], OK),
    (&["SET", "dedup:jedis", "1", "NX", "EX", "600"], "_\r\n"),
    (&["BF.EXISTS", "clicks", "a"], "#t\r\n"),
];

const NODE_REDIS: &[Line] = &[
    (&["HELLO", "3", "SETNAME", "crawler"], HELLO_3),
    (&["CLIENT", "SETINFO", "LIB-VER", "5.8.0"], OK),
    (&["CLIENT", "SETINFO", "LIB-NAME", "node-redis"], OK),
    (&["CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "internal-ip"], NO_SUCH_WORD),
    (&["SET", "dedup:node", "1", "EX", "600", "NX"], OK),
    (&["BF.INSERT", "clicks", "ITEMS", "b", "b"], "*2\r\n#t\r\n#f\r\n"),
    (&["PING"], "+PONG\r\n"),
];

const LETTUCE: &[Line] = &[
    (&["HELLO", "3"], HELLO_3),
    (&["CLIENT", "SETINFO", "lib-name", "Lettuce"], OK),
    (&["CLIENT", "SETINFO", "lib-ver", "6.5.0.RELEASE/1234567"], OK),
    (&["CLIENT", "MAINT_NOTIFICATIONS", "on", "moving-endpoint-type", "none"], NO_SUCH_WORD),
    (&["SET", "dedup:lettuce", "1", "PX", "600000", "NX"], OK),
    (&["SADD", "clicks", "c", "d"], ":2\r\n"),
    (&["SMISMEMBER", "clicks", "c", "e"], "*2\r\n:1\r\n:0\r\n"),
];

/// Handshake of go-redis after HELLO was rejected, which then uses version 2. lettuce does the same if the error is
/// this one.
const GO_REDIS_2: &[Line] = &[
    (&["hello", "4"], "-NOPROTO unsupported protocol version\r\n"),
    (&["ping"], "+PONG\r\n"),
    (&["bf.add", "clicks", "f"], ":1\r\n"),
];

const GO_REDIS: &[Line] = &[
    (&["hello", "3"], HELLO_3),
    (&["client", "setinfo", "LIB-NAME", "go-redis(,go1.23.1)"], OK),
    (&["client", "setinfo", "LIB-VER", "9.7.0"], OK),
    (&["client", "maint_notifications", "on", "moving-endpoint-type", "none"], NO_SUCH_WORD),
    (&["client", "setname", "crawler"], OK),
    (&["set", "dedup:go", "1", "ex", "600", "nx"], OK),
    (&["set", "dedup:go", "1", "ex", "600", "nx"], "_\r\n"),
    (&["setnx", "dedup:go", "1"], ":0\r\n"),
    (&["bf.info", "clicks", "FILTERS"], "%1\r\n$17\r\nNumber of filters\r\n:1\r\n"),
    (&["exists", "dedup:go"], ":1\r\n"),
];

const IOREDIS: &[Line] = &[
    (&["client", "setname", "crawler"], OK),
    (&["info"], "$..."),
    (&["client", "SETINFO", "LIB-VER", "5.8.0"], OK),
    (&["client", "SETINFO", "LIB-NAME", "ioredis"], OK),
    (&["select", "0"], OK),
    (&["multi"], OK),
    (&["set", "dedup:io", "1", "EX", "600", "NX"], "+QUEUED\r\n"),
    (&["sadd", "clicks", "g"], "+QUEUED\r\n"),
    (&["exec"], "*2\r\n+OK\r\n:1\r\n"),
    (&["quit"], OK),
];

const STACK_EXCHANGE: &[Line] = &[
    (&["CLIENT", "SETNAME", "machine(SE.Redis-v2.8.16)"], OK),
    (&["CLIENT", "SETINFO", "lib-name", "SE.Redis"], OK),
    (&["CLIENT", "SETINFO", "lib-ver", "2.8.16"], OK),
    (&["CLIENT", "ID"], ":..."),
    (&["CONFIG", "GET", "timeout"], "*0\r\n"),
    (&["CONFIG", "GET", "replica-read-only"], "*0\r\n"),
    (&["CONFIG", "GET", "databases"], "*0\r\n"),
    (&["SENTINEL", "MASTERS"], "-ERR firstseen is a cluster of its own..."),
    (&["INFO", "replication"], "$48\r\n# Replication\r\nrole:master\r\n..."),
    (&["INFO", "server"], "$..."),
    (&["CLUSTER", "NODES"], "$..."),
    (&["GET", "__Booksleeve_TieBreak"], "$-1\r\n"),
    (&["ECHO", DRAWN], "$13\r\n\u{1}\r\n\u{2}$5\r\n*1\r\n\u{3}\r\n"),
    (&["SET", "dedup:se", "1", "EX", "600", "NX"], OK),
    (&["SET", "dedup:se", "1", "EX", "600", "NX"], "$-1\r\n"),
];

/// Handshake of StackExchange.Redis without INFO. The client then tests with a private key whether it may write.
const STACK_EXCHANGE_WITHOUT_INFO: &[Line] = &[
    (&["SET", DRAWN, "replica-read-only", "PX", "1", "NX"], UNMAPPED),
    (&["PING"], "+PONG\r\n"),
    (&["SETNX", "dedup:se", "1"], ":0\r\n"),
];

fn replay(endpoint: &RedisEndpoint, client: &str, lines: &[Line]) {
    let mut wire = Wire::to(endpoint);
    wire.send_all(lines.iter().map(|(words, _)| *words));
    for (words, expected) in lines {
        let heard = wire.reply();
        let is_so = match expected.strip_suffix("...") {
            Some(beginning) => heard.starts_with(beginning),
            None => heard == *expected,
        };
        assert!(is_so, "{client}: {words:?} got {heard:?} instead of {expected:?}");
    }
}

#[test]
fn six_clients_hear_what_they_need_when_they_connect() {
    let endpoint = RedisEndpoint::with_cluster("[[redis.prefix]]\nmatch = \"dedup:\"\nfilter = \"clicks\"\n");
    for (client, lines) in [
        ("jedis", JEDIS),
        ("jedis in version 3", JEDIS_3),
        ("node-redis", NODE_REDIS),
        ("lettuce", LETTUCE),
        ("go-redis", GO_REDIS),
        ("go-redis in version 2", GO_REDIS_2),
        ("ioredis", IOREDIS),
        ("StackExchange.Redis", STACK_EXCHANGE),
        ("StackExchange.Redis without INFO", STACK_EXCHANGE_WITHOUT_INFO),
    ] {
        replay(&endpoint, client, lines);
    }
}

/// Checks the fields that clients read in the reply to the command INFO. For example, ioredis waits until the field
/// `loading` is 0, and StackExchange.Redis reads the version of the server.
#[test]
fn what_clients_read_of_info_is_there() {
    let endpoint = RedisEndpoint::with_cluster("");
    for (words, lines) in [
        (&["info"][..], &["redis_version:7.2.4", "loading:0", "role:master", "cluster_enabled:0"][..]),
        (&["INFO", "replication"], &["role:master"]),
        (&["INFO", "server"], &["redis_version:7.2.4", "redis_mode:standalone"]),
        (&["INFO", "SERVER"], &["redis_version:7.2.4"]),
    ] {
        let mut wire = Wire::to(&endpoint);
        wire.send(words);
        let info = wire.reply();
        for line in lines {
            assert!(info.split("\r\n").any(|told| told == *line), "{words:?}: {line} is not in {info}");
        }
    }
    // These commands are sent by redis-cli and redis-benchmark.
    let mut wire = Wire::to(&endpoint);
    wire.asks(&["COMMAND", "DOCS"], "*0\r\n");
    wire.asks(&["CONFIG", "GET", "save"], "*0\r\n");
    wire.asks(&["CONFIG", "GET", "appendonly"], "*0\r\n");
    wire.asks(&["PING"], "+PONG\r\n");
}
