//! Tests of the Redis endpoint with a client library (the Rust crate `redis`).

use std::time::Duration;

use redis::{Commands, Connection, RedisResult, Value, pipe};

use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::ports::free_ports;
use crate::run::Folder;

/// Node with a Redis endpoint, and a filter `clicks` whose window is an hour.
pub(crate) struct RedisEndpoint {
    pub(crate) node: OwnNode,
    pub(crate) port: u16,
}

impl RedisEndpoint {
    /// Starts a node whose endpoint has these settings, which may end with mappings of prefixes.
    pub(crate) fn open(settings: &str) -> Self {
        Self::open_in(Folder::new(), settings, "")
    }

    fn open_in(folder: Folder, settings: &str, others: &str) -> Self {
        let port = free_ports(1);
        // A busy machine may write to its disk for seconds. With a shorter timeout, a verdict would then be undecided.
        let redis = format!("{others}\n[redis]\nlisten = \"127.0.0.1:{port}\"\nverdict_timeout_ms = 30000\n{settings}");
        Self { node: OwnNode::start_in(folder, "a", &redis), port }
    }

    /// Starts a node that forms a cluster of its own.
    pub(crate) fn with_cluster(settings: &str) -> Self {
        let endpoint = Self::open(settings);
        endpoint.form("");
        endpoint.run("filter create clicks --capacity 100k --fpr 1e-8 --clock wall --window 1h");
        endpoint
    }

    pub(crate) fn form(&self, flags: &str) {
        let form = format!("cluster init --addr {} {flags}", self.node.address);
        eventually("a cluster", || self.node.folder.run(&form).code == Some(0));
    }

    pub(crate) fn run(&self, arguments: &str) -> String {
        self.node.folder.run(&format!("{arguments} --cluster {}", self.node.address)).ok().out
    }

    /// Connects a client. `credentials` has the form `NAME:TOKEN@`.
    fn connect(&self, credentials: &str) -> RedisResult<Connection> {
        let client = redis::Client::open(format!("redis://{credentials}127.0.0.1:{}/", self.port)).expect("an address");
        client.get_connection_with_timeout(Duration::from_secs(5))
    }

    pub(crate) fn client(&self) -> Connection {
        let mut connection = None;
        eventually("an endpoint", || {
            connection = self.connect("").ok();
            connection.is_some()
        });
        connection.expect("a connection")
    }
}

/// Mapping of the prefix `dedup:` to the filter `clicks`.
const MAPPED: &str = "[[redis.prefix]]\nmatch = \"dedup:\"\nfilter = \"clicks\"\n";

pub(crate) fn ask<T: redis::FromRedisValue>(client: &mut Connection, command: &str) -> RedisResult<T> {
    let mut words = command.split(' ');
    let mut asked = redis::cmd(words.next().unwrap_or_default());
    for word in words {
        asked.arg(word);
    }
    asked.query(client)
}

pub(crate) fn refusal(client: &mut Connection, command: &str) -> String {
    ask::<Value>(client, command).expect_err(command).to_string()
}

#[test]
fn commands_that_deduplicate_get_the_replies_of_redis() {
    let endpoint = RedisEndpoint::with_cluster(MAPPED);
    let mut client = endpoint.client();
    let set = |client: &mut Connection, words: &str| ask::<Option<String>>(client, &format!("SET {words}")).unwrap();
    assert_eq!(set(&mut client, "dedup:1 x NX EX 3600").as_deref(), Some("OK"));
    assert_eq!(set(&mut client, "dedup:1 x NX EX 3600"), None);
    assert_eq!(set(&mut client, "dedup:2 x PX 3600000 NX").as_deref(), Some("OK"));
    assert_eq!(set(&mut client, "dedup:3 x NX").as_deref(), Some("OK"));
    assert_eq!((client.set_nx("dedup:4", 1), client.set_nx("dedup:4", 1)), (Ok(true), Ok(false)));
    assert_eq!(ask(&mut client, "EXISTS dedup:1 dedup:2 dedup:9"), Ok(2));
    assert_eq!(client.sadd("clicks", &["a", "b", "a"]), Ok(2));
    assert_eq!((client.sismember("clicks", "a"), client.sismember("clicks", "z")), (Ok(true), Ok(false)));
    assert_eq!(client.smismember("clicks", &["a", "z"]), Ok(vec![true, false]));
    assert_eq!(ask(&mut client, "BF.ADD clicks c"), Ok(true));
    assert_eq!(ask(&mut client, "BF.MADD clicks c d d"), Ok(vec![false, true, false]));
    assert_eq!(ask(&mut client, "BF.MEXISTS clicks d e"), Ok(vec![true, false]));
    assert_eq!(ask(&mut client, "BF.INSERT clicks NOCREATE ITEMS e"), Ok(vec![true]));
    assert_eq!(ask(&mut client, "FS.TEST clicks ITEMS e f"), Ok(vec![0, 1]));
    // The command line and other clients of the cluster know the same events.
    endpoint.node.folder.write("input", "a\nnew\n");
    assert_eq!(endpoint.run("dedup --filter clicks --lookup input"), "new\n");
    let text = endpoint.run("filter describe clicks");
    assert!(text.contains("clicks"), "{text}");
}

#[test]
fn a_retry_that_names_its_submission_gets_its_first_verdict() {
    let endpoint = RedisEndpoint::with_cluster(MAPPED);
    let mut client = endpoint.client();
    let first = "FS.OBSERVE clicks ID 77 1 ITEMS a b";
    assert_eq!(ask(&mut client, first), Ok(vec![1, 1]));
    assert_eq!(ask(&mut client, first), Ok(vec![1, 1]), "the same submission");
    assert_eq!(ask(&mut endpoint.client(), first), Ok(vec![1, 1]), "from another connection");
    assert_eq!(ask(&mut client, "FS.OBSERVE clicks ID 77 3 ITEMS a c"), Ok(vec![0, 1]));
    let reused: Vec<i64> = ask(&mut client, "FS.OBSERVE clicks ID 77 1 ITEMS other b").unwrap();
    assert!(reused[0] < 0 && reused[1] == 1, "{reused:?}");
}

#[test]
fn pipelines_and_transactions_are_answered_in_order() {
    let endpoint = RedisEndpoint::with_cluster(MAPPED);
    let mut client = endpoint.client();
    for is_atomic in [false, true] {
        let mut asked = pipe();
        if is_atomic {
            asked.atomic();
        }
        let prefix = if is_atomic { "dedup:t" } else { "dedup:p" };
        for number in 0..3_000 {
            let key = format!("{prefix}{}", number % 2_000);
            asked.cmd("SET").arg(key).arg(1).arg("NX").arg("EX").arg(3600);
            if number % 500 == 499 {
                asked.cmd("BF.EXISTS").arg("clicks").arg(format!("{prefix}{}", number % 2_000));
                asked.cmd("ECHO").arg(number);
            }
        }
        let replies: Vec<Value> = asked.query(&mut client).expect("all replies");
        let mut replies = replies.into_iter();
        for number in 0..3_000 {
            let expected = if number < 2_000 { Value::Okay } else { Value::Nil };
            assert_eq!(replies.next(), Some(expected), "{number}");
            if number % 500 == 499 {
                assert_eq!(replies.next(), Some(Value::Int(1)), "what was just recorded is seen");
                assert_eq!(replies.next(), Some(Value::BulkString(number.to_string().into_bytes())));
            }
        }
        assert_eq!(replies.next(), None);
    }
    // Credentials between MULTI and EXEC are queued like other commands.
    let mut asked = pipe();
    asked.cmd("MULTI").cmd("AUTH").arg("secret").cmd("HELLO").arg("2").cmd("PING").cmd("DISCARD").cmd("PING");
    let replies: Vec<Value> = asked.query(&mut client).expect("nothing is carried out");
    let queued = || Value::SimpleString("QUEUED".to_owned());
    let pong = Value::SimpleString("PONG".to_owned());
    assert_eq!(replies, [Value::Okay, queued(), queued(), queued(), Value::Okay, pong]);
    // A command that is rejected cancels its transaction, and the connection continues.
    let mut asked = pipe();
    asked.atomic().cmd("SET").arg("dedup:undone").arg(1).arg("NX").cmd("GETSET").arg("dedup:1").arg(1);
    let refused = asked.query::<Vec<Value>>(&mut client).expect_err("GETSET stores values").to_string();
    assert!(refused.contains("stores no values") || refused.contains("EXECABORT"), "{refused}");
    assert_eq!(ask(&mut client, "EXISTS dedup:undone"), Ok(0));
}

#[test]
fn what_cannot_be_done_is_refused_in_words_that_help() {
    let endpoint =
        RedisEndpoint::with_cluster(&format!("{MAPPED}[[redis.prefix]]\nmatch = \"gone:\"\nfilter = \"gone\"\n"));
    let client = &mut endpoint.client();
    for (command, text) in [
        ("SET dedup:1 x", "SET key value NX EX"),
        ("SET dedup:1 x NX EX 7200", "filter 'clicks' remembers 3600 s"),
        ("SET other:1 x NX EX 3600", "no filter is mapped to this key"),
        ("SET other:1 x NX EX 3600", "matches `other:`; correct the key"),
        ("SET dedup:1 x NX EX 7200", "a filter with a longer window"),
        // `EXISTS` replied 0, so a program with a mistyped prefix took all of its events as new.
        ("EXISTS other:1", "no filter is mapped to this key"),
        ("EXISTS dedup:1 other:1", "matches `other:`; correct the key"),
        ("SET gone:1 x NX EX 3600", "mapped to filter `gone`, which does not exist"),
        ("GET dedup:1", "stores no values"),
        ("INCR dedup:1", "stores no values"),
        ("DEL dedup:1", "cannot forget: filter 'clicks' keeps no claims"),
        ("DEL gone:1", "mapped to filter `gone`, which does not exist"),
        ("DEL other:1", "no filter is mapped to this key"),
        ("SREM clicks a", "cannot forget: filter 'clicks' keeps no claims"),
        ("SREM none a", "filter `none` not found: correct the name"),
        ("SADD none a", "filter `none` not found: correct the name"),
        ("SISMEMBER none a", "filter `none` not found: correct the name"),
        ("FS.OBSERVE none ITEMS a", "filter `none` not found: correct the name"),
        ("FS.INFO none", "filter `none` not found: correct the name"),
        ("FLUSHALL", "firstseen filter drop"),
        ("BF.ADD none x", "not found"),
        ("BF.RESERVE none 0.01 100", "firstseen filter create"),
        ("BF.RESERVE clicks 0.01 100", "item exists"),
        ("BF.SCANDUMP clicks 0", "cluster backup"),
        ("EVAL return 0", "SET key value NX and FS.CLAIM"),
        ("SCARD clicks", "firstseen top"),
        ("CLIENT KILL x", "CLIENT HELP"),
        ("SELECT 1", "out of range"),
        ("AUTH nobody wrong", "WRONGPASS"),
        ("AUTH secret", "without any password configured"),
    ] {
        let said = refusal(client, command);
        assert!(said.contains(text), "{command}: {said}");
    }
    assert_eq!(ask(client, "GET unmapped"), Ok(Value::Nil), "as clients ask that look for replicas");
    // Clients of RedisBloom compare errors with this text.
    for command in ["BF.ADD none x", "BF.EXISTS none x", "BF.MEXISTS none x y", "BF.INFO none"] {
        let said = refusal(client, command);
        assert!(said.ends_with(": not found"), "{command}: {said}");
    }
    assert_eq!(ask(client, "BF.CARD none"), Ok(0));
    let long = format!("CLIENT SETNAME {}", "n".repeat(257));
    assert!(refusal(client, &long).contains("at most 256 bytes"));
    let help: Vec<String> = ask(client, "CLIENT HELP").expect("what is served");
    assert!(help.contains(&"SETNAME".to_owned()), "{help:?}");
}

/// Checks commands that some programs send in the place of `SET NX`:
///
/// - Laravel adds a key to its cache with a Lua script.
/// - The metadata store of Spring uses `HSETNX`.
/// - The library redis-py sends every pipeline as a transaction.
#[test]
fn programs_that_send_no_set_nx_are_served() {
    const ADD: &str = "return redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])";
    const ADD_SHA1: &str = "a08c9c69b7c07ae2485190873b90d128a23e502d";
    let endpoint = RedisEndpoint::with_cluster(MAPPED);
    let client = &mut endpoint.client();
    let add = |client: &mut Connection, command: &str, script: &str, key: &str| -> RedisResult<Value> {
        redis::cmd(command).arg(script).arg(1).arg(key).arg("value").arg(3600).query(client)
    };
    assert_eq!(add(client, "EVAL", ADD, "dedup:1"), Ok(Value::Okay));
    assert_eq!(add(client, "EVAL", ADD, "dedup:1"), Ok(Value::Nil));
    assert_eq!(add(client, "EVALSHA", ADD_SHA1, "dedup:2"), Ok(Value::Okay));
    assert_eq!(add(client, "EVALSHA", ADD_SHA1, "dedup:1"), Ok(Value::Nil));
    let unknown = add(client, "EVALSHA", &"0".repeat(40), "dedup:1").expect_err("no such script");
    assert_eq!(unknown.code(), Some("NOSCRIPT"), "{unknown}");
    assert_eq!(redis::cmd("SCRIPT").arg("LOAD").arg(ADD).query(client), Ok(ADD_SHA1.to_owned()));
    assert_eq!(ask(client, &format!("SCRIPT EXISTS {ADD_SHA1} abc")), Ok(vec![1, 0]));
    assert_eq!((ask(client, "HSETNX clicks field x"), ask(client, "HSETNX clicks field y")), (Ok(1), Ok(0)));
    assert_eq!(ask(client, "HGET clicks field"), Ok("1".to_owned()));
    assert_eq!(ask(client, "HGET clicks other"), Ok(Value::Nil));
    assert_eq!(ask(client, "SISMEMBER clicks field"), Ok(1));
    let mut asked = pipe();
    asked.atomic();
    (0..12_000).for_each(|key| _ = asked.cmd("SET").arg(&[&format!("dedup:all{key}"), "x", "NX", "EX", "3600"]));
    let replies: Vec<Value> = asked.query(client).expect("one transaction");
    assert_eq!(replies, vec![Value::Okay; 12_000]);
    let items: Vec<u64> = ask(client, "BF.INFO clicks ITEMS").expect("its number of items");
    assert!((11_000..14_000).contains(&items[0]), "{items:?}, and 12,000 were set");
}

#[test]
fn the_capacity_of_a_filter_is_that_of_all_its_groups() {
    let endpoint = RedisEndpoint::open("");
    endpoint.form("");
    for (slicing, most) in [("horizontal:4", 12_000), ("vertical:4", 10_000), ("horizontal-vertical:2x2", 12_000)] {
        let name = slicing.replace([':', '-'], "_");
        endpoint.run(&format!("filter create {name} --capacity 10k --window 1h --clock wall --slicing {slicing}"));
        let capacity: Vec<u64> = ask(&mut endpoint.client(), &format!("BF.INFO {name} CAPACITY")).expect("a number");
        assert!((10_000..=most).contains(&capacity[0]), "{slicing}: {capacity:?}");
    }
}

#[test]
fn of_several_filters_the_shortest_that_remembers_long_enough_has_the_key() {
    let mapped =
        "[[redis.prefix]]\nmatch = \"k:\"\nfilter = \"day\"\n[[redis.prefix]]\nmatch = \"k:\"\nfilter = \"hour\"\n";
    let endpoint = RedisEndpoint::open(mapped);
    endpoint.form("");
    for (name, window) in [("day", "24h"), ("hour", "1h")] {
        endpoint.run(&format!("filter create {name} --capacity 10k --clock wall --window {window} --cell-bits 16"));
    }
    let client = &mut endpoint.client();
    assert_eq!(ask(client, "SET k:1 x NX EX 3600"), Ok(Value::Okay));
    assert_eq!(ask(client, "FS.TEST hour ITEMS k:1"), Ok(vec![0]));
    assert_eq!(ask(client, "FS.TEST day ITEMS k:1"), Ok(vec![1]));
    assert_eq!(ask(client, "SET k:2 x NX EX 3601"), Ok(Value::Okay));
    assert_eq!(ask(client, "FS.TEST day ITEMS k:2"), Ok(vec![0]));
    assert_eq!(ask(client, "SET k:3 x NX"), Ok(Value::Okay));
    assert_eq!(ask(client, "FS.TEST day ITEMS k:3"), Ok(vec![0]));
    assert_eq!(ask(client, "EXISTS k:1 k:2 k:4"), Ok(2), "whichever of them has it");
}

#[test]
fn a_key_with_a_life_of_its_own_is_forgotten_when_that_is_over() {
    let endpoint = RedisEndpoint::open("[[redis.prefix]]\nmatch = \"k:\"\nfilter = \"brief\"\n");
    endpoint.form("");
    let brief = "--window 2m --kind timing --cell-bits 16 --clock event --lateness 0 --capacity 10k --fpr 1e-8";
    endpoint.run(&format!("filter create brief {brief}"));
    endpoint.run("filter create whole --window 2m --clock wall --capacity 10k --cell-bits 16");
    let client = &mut endpoint.client();
    let set = |client: &mut Connection, words: &str| ask::<Value>(client, &format!("SET {words}")).unwrap();
    assert_eq!(set(client, "k:long x NX EX 120"), Value::Okay);
    assert_eq!(set(client, "k:short x NX PX 1"), Value::Okay);
    assert_eq!(ask(client, "FS.OBSERVE brief TTL 1 ITEMS too"), Ok(vec![1]));
    eventually("its end", || set(client, "k:short x NX EX 60") == Value::Okay);
    eventually("the other's end", || ask(client, "FS.TEST brief ITEMS too") == Ok(vec![1]));
    assert_eq!(set(client, "k:long x NX EX 120"), Value::Nil);
    assert_eq!(set(client, "k:short x NX EX 60"), Value::Nil, "it was recorded anew, for longer");
    assert_eq!(ask(client, "FS.OBSERVE whole TTL 1000 ITEMS x"), Ok(vec![1]), "its nodes count the time");
    assert!(refusal(client, "FS.OBSERVE brief TTL 500000 ITEMS x").contains("'brief' remembers 120 s"));
    assert!(refusal(client, "FS.OBSERVE brief TTL 120001 ITEMS x").contains("'brief' remembers 120 s"));
    assert_eq!(ask(client, "FS.OBSERVE brief TTL 120000 ITEMS x"), Ok(vec![1]));
}

#[test]
fn a_cluster_that_asks_for_rights_asks_redis_clients_for_a_token() {
    let folder = Folder::new();
    folder.run("certs --out certs --nodes a --admin").ok();
    let tls = "[tls]\nca = \"certs/ca.pem\"\ncert = \"certs/a.node.pem\"\nkey = \"certs/a.node.key\"\ntokens = true";
    let audit = "[audit]\nfile = \"audit.jsonl\"";
    let prefix = |name| format!("[[redis.prefix]]\nmatch = \"{name}:\"\nfilter = \"{name}\"\n");
    let ruled = |name| format!("[[redis.filter]]\nname = \"{name}\"\nundecided = \"seen\"\n");
    let both = ["clicks", "clicks2"].map(|name| format!("[[redis.prefix]]\nmatch = \"both:\"\nfilter = \"{name}\"\n"));
    let mixed = ["clicks", "others"].map(|name| format!("[[redis.prefix]]\nmatch = \"mixed:\"\nfilter = \"{name}\"\n"));
    let (mapped, rules) =
        ([prefix("others"), prefix("nothing"), mixed.concat()].concat(), ["clicks", "clicks2"].map(ruled).concat());
    let mapped = [MAPPED, &mapped, &both.concat(), &rules].concat();
    let endpoint = RedisEndpoint::open_in(folder, &mapped, &format!("{tls}\n{audit}"));
    let admin = "--tls-ca certs/ca.pem --tls-cert certs/admin.pem --tls-key certs/admin.key";
    endpoint.form(admin);
    for command in [
        "filter create clicks --capacity 10k --clock wall --window 1h",
        "filter create clicks2 --capacity 10k --clock wall --window 1h",
        "filter create others --capacity 10k --clock wall --window 1h",
        "access grant keeper --allow security",
        "access grant crawler --filter clicks* --allow observe,lookup",
        "access grant wide --filter * --allow observe,lookup",
    ] {
        endpoint.run(&format!("{command} {admin}"));
    }
    let [token, wide] = ["crawler", "wide"].map(|who| endpoint.run(&format!("access token new {who} {admin}")));
    let mut early = endpoint.client();
    assert_eq!(ask(&mut early, "BF.ADD others x"), Ok(1), "roles count, and this machine is trusted");
    endpoint.run(&format!("access enable {admin}"));
    let mut stranger = None;
    eventually("an endpoint that asks who it is", || {
        stranger = endpoint.connect("").ok();
        stranger.as_mut().is_some_and(|client| refusal(client, "BF.ADD clicks x").contains("NOAUTH"))
    });
    // A client that connected earlier must now authenticate too, and learns nothing until it has done so.
    assert!(refusal(&mut early, "BF.ADD others y").contains("NOAUTH"));
    for command in ["FS.LIST", "TYPE others", "FLUSHALL", "DBSIZE", "PING", "EXISTS a b", "DEL others"] {
        assert!(refusal(&mut early, command).contains("NOAUTH"), "{command}");
    }
    let mut client = endpoint.connect(&format!("crawler:{}@", token.trim())).expect("a token");
    assert_eq!(ask(&mut client, "BF.ADD clicks x"), Ok(1));
    let refused = refusal(&mut client, "BF.ADD others y");
    assert!(refused.contains("may not observe filter `others`"), "{refused}");
    assert_eq!(ask(&mut client, "FS.LIST"), Ok(vec!["clicks".to_owned(), "clicks2".to_owned()]));
    let audit = endpoint.node.folder.read("audit.jsonl");
    let is_listing = |line: &&str| line.contains("may not describe");
    assert_eq!(audit.lines().filter(is_listing).count(), 0, "who asks for a list is refused nothing: {audit}");
    tells_nothing_of_filters_of_others(&mut client);
    let turns = endpoint.connect(&format!("wide:{}@", wide.trim())).expect("a token");
    rights_are_those_of_who_came_last(turns, token.trim());
    // An exhausted quota leaves events undecided, and the rule of the filter determines the reply.
    endpoint.run(&format!("access limit crawler --events-per-s 1 {admin}"));
    let spend = format!("SMISMEMBER clicks{}", " e".repeat(1_000));
    eventually("a quota that is spent", || {
        let said = ask::<Vec<i64>>(&mut client, &spend).expect("verdicts");
        said.iter().all(|seen| *seen == 1)
    });
    assert_eq!((ask(&mut client, "EXISTS dedup:9"), ask(&mut client, "EXISTS both:9 both:8")), (Ok(1), Ok(2)));
    let wrong = endpoint.connect(&format!("keeper:{}@", token.trim())).err().expect("another's token");
    assert!(wrong.to_string().contains("WRONGPASS") || wrong.kind() == redis::ErrorKind::AuthenticationFailed);
    // An open connection ends when the right is revoked.
    endpoint.run(&format!("access revoke crawler {admin}"));
    eventually("the next map", || ask::<Value>(&mut client, "BF.ADD clicks z").is_err());
    let audit = endpoint.node.folder.read("audit.jsonl");
    assert!(audit.contains(r#""event":"came","who":"crawler""#) && audit.contains(r#""event":"denied""#), "{audit}");
    assert!(!audit.contains(&token.trim()[30..]), "no line has a secret");
}

/// Checks that results which were cached for one user are not used for the next user of the same connection.
fn rights_are_those_of_who_came_last(mut client: Connection, crawler: &str) {
    assert_eq!(ask(&mut client, "SET mixed:1 x NX EX 3600"), Ok(Value::Okay));
    assert_eq!(ask(&mut client, &format!("AUTH crawler {crawler}")), Ok(Value::Okay));
    assert!(refusal(&mut client, "SET mixed:2 x NX EX 3600").contains("may not observe filter `others`"));
}

/// Checks that a client without rights gets the same error for an existing filter and for one that does not exist.
fn tells_nothing_of_filters_of_others(client: &mut Connection) {
    for command in [
        "SADD @ a",
        "SISMEMBER @ a",
        "SREM @ a",
        "BF.INSERT @ NOCREATE ITEMS a",
        "BF.INFO @",
        "BF.CARD @",
        "BF.RESERVE @ 0.01 100",
        "FS.INFO @",
        "FS.TEST @ ITEMS a",
        "FS.OBSERVE @ TTL 1000 ITEMS a",
        "FS.OBSERVE @ AT 5 ITEMS a",
        "FS.OBSERVE @ ID 1 1 ITEMS a",
        "FS.CLAIM @ PX 1000 ITEMS a",
        "FS.CONFIRM @ ITEMS a",
        "FS.RELEASE @ ITEMS a",
        "SET @:1 x NX",
        "SET @:1 x NX EX 3600",
        "SET @:1 x NX EX 7200",
        "SETNX @:1 x",
        "EXISTS @:1",
        "EXISTS @:1 dedup:1",
        "DEL @:1",
        "FS.CLAIM @:1 PX 1000",
        "FS.CONFIRM @:1",
    ] {
        let said = |client: &mut Connection, name| refusal(client, &command.replace('@', name)).replace(name, "@");
        let (of_one, of_none) = (said(client, "others"), said(client, "nothing"));
        assert!(of_one == of_none && of_one.contains("may not"), "{command}: {of_one}; {of_none}");
    }
}

/// Checks that the endpoint uses filters as they are now, and not as they were when it opened them.
#[test]
fn filters_that_are_made_again_or_altered_are_found_anew() {
    let endpoint = RedisEndpoint::open(&format!(
        "missing = \"zero\"\n{MAPPED}[[redis.prefix]]\nmatch = \"ev:\"\nfilter = \"ev\"\n"
    ));
    endpoint.form("");
    let make = |name: &str, window: &str| {
        endpoint.run(&format!("filter create {name} --capacity 10k --fpr 1e-8 --window {window} --clock wall"))
    };
    make("clicks", "1h");
    let client = &mut endpoint.client();
    assert_eq!(ask(client, "SET dedup:1 x NX EX 3600"), Ok(Value::Okay));
    endpoint.run("filter drop clicks --yes");
    eventually("no filter", || ask(client, "SISMEMBER clicks dedup:1") == Ok(0));
    assert_eq!(ask(client, "EXISTS dedup:1"), Ok(0));
    make("clicks", "2h");
    eventually("the other filter", || ask(client, "SET dedup:1 x NX EX 7200") == Ok(Value::Okay));
    assert!(refusal(client, "SET dedup:2 x NX EX 7201").contains("remembers 7200 s"));
    // Submissions with idempotency keys continue with a new secret too.
    assert_eq!(ask(client, "FS.OBSERVE clicks ID 5 1 ITEMS a"), Ok(vec![1]));
    endpoint.run("filter alter clicks --window 3h --capacity 10k --new-secret --no-wait --yes");
    eventually("the longer window", || ask::<Value>(client, "SET dedup:3 x NX EX 10800").is_ok());
    assert_eq!(ask(client, "FS.OBSERVE clicks ID 5 2 ITEMS b"), Ok(vec![1]));
    assert_eq!(ask(client, "FS.OBSERVE clicks ID 5 3 ITEMS a"), Ok(vec![0]), "the former filter has it");
    assert!(refusal(client, "BF.ADD clicks~former x").contains("not found"), "users have given no such name");
    // A window of a number of events is not a duration.
    endpoint.run("filter create ev --capacity 10k --window 100events");
    eventually("the filter", || ask::<Value>(client, "SET ev:1 x NX").is_ok());
    assert!(refusal(client, "SET ev:2 x NX EX 3600").contains("no time that EX could name"));
    assert!(refusal(client, "FS.OBSERVE clicks AT 5 ITEMS x").contains("leave AT out"));
}

#[test]
fn clients_that_use_a_new_filter_at_once_make_it_once() {
    let endpoint = RedisEndpoint::open("sandbox = true\n");
    endpoint.form("");
    drop(endpoint.client());
    let added = std::thread::scope(|scope| {
        let client = |number: u64| {
            let mut client = endpoint.client();
            scope.spawn(move || {
                (0..5).map(|name| ask::<u64>(&mut client, &format!("BF.ADD race{name} {number}"))).collect::<Vec<_>>()
            })
        };
        let clients: Vec<_> = (0..8).map(client).collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect::<Vec<_>>()
    });
    assert!(added.iter().all(|added| *added == Ok(1)), "{added:?}");
}

/// Checks that the sandbox does not drop a filter of another owner, if its name once belonged to a filter of the
/// sandbox.
#[test]
fn the_sandbox_drops_no_filter_that_others_have_made() {
    let endpoint = RedisEndpoint::open("sandbox = true\n[[redis.prefix]]\nmatch = \"k:\"\nfilter = \"foo\"\n");
    endpoint.form("");
    let client = &mut endpoint.client();
    assert_eq!(ask(client, "BF.ADD foo x"), Ok(1));
    assert_eq!(ask(client, "BF.ADD bar x"), Ok(1));
    endpoint.run("filter drop foo --yes");
    endpoint.run("filter create foo --capacity 10k --fpr 1e-8 --window 1h --clock wall");
    eventually("the other filter", || ask(client, "SADD foo a b") == Ok(2));
    assert_eq!(ask(client, "DEL foo never-made"), Ok(0));
    assert!(
        refusal(client, "DEL k:1").contains("cannot forget: filter 'foo' keeps no claims"),
        "a key, and no filter's name"
    );
    assert_eq!(ask(client, "FLUSHALL"), Ok(Value::Okay));
    assert_eq!(ask(client, "SISMEMBER foo a"), Ok(1), "it is the operator's");
    // The list comes from the endpoint's cluster map, which a busy node receives a moment after the drop is committed.
    eventually("the drop", || ask(client, "FS.LIST") == Ok(vec!["foo".to_owned()]));
}
