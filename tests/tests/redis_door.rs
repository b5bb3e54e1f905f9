//! The door for Redis clients, by a client that others have written.

use std::time::Duration;

use redis::{Commands, Connection, RedisResult, Value, pipe};

use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::ports::free_ports;
use crate::run::Folder;

/// One node with a door, and a filter `clicks` of an hour.
pub(crate) struct Door {
    pub(crate) node: OwnNode,
    pub(crate) port: u16,
}

impl Door {
    /// A door with these settings beside its address, and mappings behind them.
    pub(crate) fn open(settings: &str) -> Self {
        Self::open_in(Folder::new(), settings, "")
    }

    fn open_in(folder: Folder, settings: &str, others: &str) -> Self {
        let port = free_ports(1);
        let redis = format!("{others}\n[redis]\nlisten = \"127.0.0.1:{port}\"\n{settings}");
        Self { node: OwnNode::start_in(folder, "a", &redis), port }
    }

    /// The same, in a cluster of its own.
    pub(crate) fn with_cluster(settings: &str) -> Self {
        let door = Self::open(settings);
        door.form("");
        door.run("filter create clicks --capacity 100k --fpr 1e-8 --clock wall --window 1h");
        door
    }

    pub(crate) fn form(&self, flags: &str) {
        let form = format!("cluster init --addr {} {flags}", self.node.address);
        eventually("a cluster", || self.node.folder.run(&form).code == Some(0));
    }

    pub(crate) fn run(&self, arguments: &str) -> String {
        self.node.folder.run(&format!("{arguments} --cluster {}", self.node.address)).ok().out
    }

    /// A connection of a client; `credentials` are `NAME:TOKEN@`.
    fn connect(&self, credentials: &str) -> RedisResult<Connection> {
        let client = redis::Client::open(format!("redis://{credentials}127.0.0.1:{}/", self.port)).expect("an address");
        client.get_connection_with_timeout(Duration::from_secs(5))
    }

    pub(crate) fn client(&self) -> Connection {
        let mut connection = None;
        eventually("a door", || {
            connection = self.connect("").ok();
            connection.is_some()
        });
        connection.expect("a connection")
    }
}

/// The mapping of `dedup:` to `clicks`.
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
    let door = Door::with_cluster(MAPPED);
    let mut client = door.client();
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
    // The command line, and other clients of the cluster, know the same events.
    door.node.folder.write("input", "a\nnew\n");
    assert_eq!(door.run("dedup --filter clicks --lookup input"), "new\n");
    let text = door.run("filter describe clicks");
    assert!(text.contains("clicks"), "{text}");
}

#[test]
fn a_retry_that_names_its_submission_gets_its_first_verdict() {
    let door = Door::with_cluster(MAPPED);
    let mut client = door.client();
    let first = "FS.OBSERVE clicks ID 77 1 ITEMS a b";
    assert_eq!(ask(&mut client, first), Ok(vec![1, 1]));
    assert_eq!(ask(&mut client, first), Ok(vec![1, 1]), "the same submission");
    assert_eq!(ask(&mut door.client(), first), Ok(vec![1, 1]), "from another connection");
    assert_eq!(ask(&mut client, "FS.OBSERVE clicks ID 77 3 ITEMS a c"), Ok(vec![0, 1]));
    let reused: Vec<i64> = ask(&mut client, "FS.OBSERVE clicks ID 77 1 ITEMS other b").unwrap();
    assert!(reused[0] < 0 && reused[1] == 1, "{reused:?}");
}

#[test]
fn pipelines_and_transactions_are_answered_in_order() {
    let door = Door::with_cluster(MAPPED);
    let mut client = door.client();
    for is_atomic in [false, true] {
        let mut asked = pipe();
        if is_atomic {
            asked.atomic();
        }
        let prefix = if is_atomic { "dedup:t" } else { "dedup:p" };
        for number in 0..3_000 {
            let key = format!("{prefix}{}", number % 2_000);
            asked.cmd("SET").arg(key).arg(1).arg("NX").arg("EX").arg(60);
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
    // A command that is refused undoes the others of its transaction, and the connection goes on.
    let mut asked = pipe();
    asked.atomic().cmd("SET").arg("dedup:undone").arg(1).arg("NX").cmd("GETSET").arg("dedup:1").arg(1);
    let refused = asked.query::<Vec<Value>>(&mut client).expect_err("GETSET stores values").to_string();
    assert!(refused.contains("stores no values") || refused.contains("EXECABORT"), "{refused}");
    assert_eq!(ask(&mut client, "EXISTS dedup:undone"), Ok(0));
}

#[test]
fn what_cannot_be_done_is_refused_in_words_that_help() {
    let door = Door::with_cluster(&format!("{MAPPED}[[redis.prefix]]\nmatch = \"gone:\"\nfilter = \"gone\"\n"));
    let client = &mut door.client();
    for (command, text) in [
        ("SET dedup:1 x", "SET key value NX EX"),
        ("SET dedup:1 x NX EX 7200", "filter 'clicks' remembers 3600 s"),
        ("SET other:1 x NX EX 60", "no filter is mapped to this key"),
        ("SET gone:1 x NX EX 60", "mapped to filter `gone`, which there is not"),
        ("GET dedup:1", "stores no values"),
        ("INCR dedup:1", "stores no values"),
        ("DEL dedup:1", "cannot forget"),
        ("FLUSHALL", "firstseen filter drop"),
        ("BF.ADD none x", "not found"),
        ("BF.RESERVE none 0.01 100", "firstseen filter create"),
        ("BF.RESERVE clicks 0.01 100", "item exists"),
        ("BF.SCANDUMP clicks 0", "cluster backup"),
        ("EVAL return 0", "unknown command"),
        ("SELECT 1", "out of range"),
        ("AUTH nobody wrong", "WRONGPASS"),
    ] {
        let said = refusal(client, command);
        assert!(said.contains(text), "{command}: {said}");
    }
    assert_eq!(ask(client, "GET unmapped"), Ok(Value::Nil), "as clients ask that look for replicas");
    assert_eq!(ask(client, "BF.CARD none"), Ok(0));
}

#[test]
fn of_several_filters_the_shortest_that_remembers_long_enough_has_the_key() {
    let mapped =
        "[[redis.prefix]]\nmatch = \"k:\"\nfilter = \"day\"\n[[redis.prefix]]\nmatch = \"k:\"\nfilter = \"hour\"\n";
    let door = Door::open(mapped);
    door.form("");
    for (name, window) in [("day", "24h"), ("hour", "1h")] {
        door.run(&format!("filter create {name} --capacity 10k --clock wall --window {window}"));
    }
    let client = &mut door.client();
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
    let door = Door::open("[[redis.prefix]]\nmatch = \"k:\"\nfilter = \"brief\"\n");
    door.form("");
    let brief = "--window 2m --kind timing --clock event --lateness 0 --capacity 10k --fpr 1e-8";
    door.run(&format!("filter create brief {brief}"));
    door.run("filter create whole --window 2m --clock wall --capacity 10k");
    let client = &mut door.client();
    let set = |client: &mut Connection, words: &str| ask::<Value>(client, &format!("SET {words}")).unwrap();
    assert_eq!(set(client, "k:long x NX EX 120"), Value::Okay);
    assert_eq!(set(client, "k:short x NX PX 1"), Value::Okay);
    assert_eq!(ask(client, "FS.OBSERVE brief TTL 1 ITEMS too"), Ok(vec![1]));
    eventually("its end", || set(client, "k:short x NX EX 60") == Value::Okay);
    eventually("the other's end", || ask(client, "FS.TEST brief ITEMS too") == Ok(vec![1]));
    assert_eq!(set(client, "k:long x NX EX 120"), Value::Nil);
    assert_eq!(set(client, "k:short x NX EX 60"), Value::Nil, "it was recorded anew, for longer");
    assert!(refusal(client, "FS.OBSERVE whole TTL 1000 ITEMS x").contains("--clock wall"));
    assert!(refusal(client, "FS.OBSERVE brief TTL 500000 ITEMS x").contains("longer window"));
}

#[test]
fn a_cluster_that_asks_for_rights_asks_redis_clients_for_a_token() {
    let folder = Folder::new();
    folder.run("certs --out certs --nodes a --admin").ok();
    let tls = "[tls]\nca = \"certs/ca.pem\"\ncert = \"certs/a.node.pem\"\nkey = \"certs/a.node.key\"\ntokens = true";
    let audit = "[audit]\nfile = \"audit.jsonl\"";
    let door = Door::open_in(folder, MAPPED, &format!("{tls}\n{audit}"));
    let admin = "--tls-ca certs/ca.pem --tls-cert certs/admin.pem --tls-key certs/admin.key";
    door.form(admin);
    for command in [
        "filter create clicks --capacity 10k --clock wall --window 1h",
        "filter create others --capacity 10k --clock wall --window 1h",
        "access grant keeper --allow security",
        "access grant crawler --filter clicks* --allow observe",
    ] {
        door.run(&format!("{command} {admin}"));
    }
    let token = door.run(&format!("access token new crawler {admin}"));
    let mut early = door.client();
    assert_eq!(ask(&mut early, "BF.ADD others x"), Ok(1), "roles count, and this machine is trusted");
    door.run(&format!("access enable {admin}"));
    let mut stranger = None;
    eventually("a door that asks who it is", || {
        stranger = door.connect("").ok();
        stranger.as_mut().is_some_and(|client| refusal(client, "BF.ADD clicks x").contains("NOAUTH"))
    });
    // Who came before has to say who it is now, too, and learns nothing until then.
    assert!(refusal(&mut early, "BF.ADD others y").contains("NOAUTH"));
    assert_eq!(ask(&mut early, "FS.LIST"), Ok(Vec::<String>::new()));
    assert_eq!(ask(&mut early, "TYPE others"), Ok("none".to_owned()));
    let mut client = door.connect(&format!("crawler:{}@", token.trim())).expect("a token");
    assert_eq!(ask(&mut client, "BF.ADD clicks x"), Ok(1));
    let refused = refusal(&mut client, "BF.ADD others y");
    assert!(refused.contains("may not observe filter `others`"), "{refused}");
    assert_eq!(ask(&mut client, "FS.LIST"), Ok(vec!["clicks".to_owned()]));
    let wrong = door.connect(&format!("keeper:{}@", token.trim())).err().expect("another's token");
    assert!(wrong.to_string().contains("WRONGPASS") || wrong.kind() == redis::ErrorKind::AuthenticationFailed);
    // What is open ends with the right.
    door.run(&format!("access revoke crawler {admin}"));
    eventually("the next map", || ask::<Value>(&mut client, "BF.ADD clicks z").is_err());
    let audit = door.node.folder.read("audit.jsonl");
    assert!(audit.contains(r#""event":"came","who":"crawler""#) && audit.contains(r#""event":"denied""#), "{audit}");
    assert!(!audit.contains(&token.trim()[30..]), "no line has a secret");
    let is_listing = |line: &&str| line.contains("may not describe");
    assert_eq!(audit.lines().filter(is_listing).count(), 0, "who asks for a list is refused nothing: {audit}");
}

/// A door is asked about filters as they are now, not as they were when it opened them.
#[test]
fn filters_that_are_made_again_or_altered_are_found_anew() {
    let door = Door::open(&format!("missing = \"zero\"\n{MAPPED}[[redis.prefix]]\nmatch = \"ev:\"\nfilter = \"ev\"\n"));
    door.form("");
    let make = |name: &str, window: &str| {
        door.run(&format!("filter create {name} --capacity 10k --fpr 1e-8 --window {window} --clock wall"))
    };
    make("clicks", "1h");
    let client = &mut door.client();
    assert_eq!(ask(client, "SET dedup:1 x NX EX 3600"), Ok(Value::Okay));
    door.run("filter drop clicks --yes");
    eventually("no filter", || ask(client, "SISMEMBER clicks dedup:1") == Ok(0));
    assert_eq!(ask(client, "EXISTS dedup:1"), Ok(0));
    make("clicks", "2h");
    eventually("the other filter", || ask(client, "SET dedup:1 x NX EX 7200") == Ok(Value::Okay));
    assert!(refusal(client, "SET dedup:2 x NX EX 7201").contains("remembers 7200 s"));
    // Named submissions go on by a new secret, too.
    assert_eq!(ask(client, "FS.OBSERVE clicks ID 5 1 ITEMS a"), Ok(vec![1]));
    door.run("filter alter clicks --window 3h --capacity 10k --new-secret --no-wait --yes");
    eventually("the longer window", || ask::<Value>(client, "SET dedup:3 x NX EX 10800").is_ok());
    assert_eq!(ask(client, "FS.OBSERVE clicks ID 5 2 ITEMS b"), Ok(vec![1]));
    assert_eq!(ask(client, "FS.OBSERVE clicks ID 5 3 ITEMS a"), Ok(vec![0]), "the former filter has it");
    assert!(refusal(client, "BF.ADD clicks~former x").contains("not found"), "users have given no such name");
    // A window of events is no time.
    door.run("filter create ev --capacity 10k --window 100events");
    eventually("the filter", || ask::<Value>(client, "SET ev:1 x NX").is_ok());
    assert!(refusal(client, "SET ev:2 x NX EX 60").contains("no time that EX could name"));
    assert!(refusal(client, "FS.OBSERVE clicks AT 5 ITEMS x").contains("leave AT out"));
}

#[test]
fn clients_that_use_a_new_filter_at_once_make_it_once() {
    let door = Door::open("sandbox = true\n");
    door.form("");
    drop(door.client());
    let added = std::thread::scope(|scope| {
        let client = |number: u64| {
            let mut client = door.client();
            scope.spawn(move || {
                (0..5).map(|name| ask::<u64>(&mut client, &format!("BF.ADD race{name} {number}"))).collect::<Vec<_>>()
            })
        };
        let clients: Vec<_> = (0..8).map(client).collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect::<Vec<_>>()
    });
    assert!(added.iter().all(|added| *added == Ok(1)), "{added:?}");
}

/// A name that the sandbox once made is somebody else's, once that filter was dropped and another one made.
#[test]
fn the_sandbox_drops_no_filter_that_others_have_made() {
    let door = Door::open("sandbox = true\n");
    door.form("");
    let client = &mut door.client();
    assert_eq!(ask(client, "BF.ADD foo x"), Ok(1));
    assert_eq!(ask(client, "BF.ADD bar x"), Ok(1));
    door.run("filter drop foo --yes");
    door.run("filter create foo --capacity 10k --fpr 1e-8 --window 1h --clock wall");
    eventually("the other filter", || ask(client, "SADD foo a b") == Ok(2));
    assert_eq!(ask(client, "DEL foo"), Ok(0));
    assert_eq!(ask(client, "FLUSHALL"), Ok(Value::Okay));
    assert_eq!(ask(client, "SISMEMBER foo a"), Ok(1), "it is the operator's");
    assert_eq!(ask(client, "FS.LIST"), Ok(vec!["foo".to_owned()]));
}
