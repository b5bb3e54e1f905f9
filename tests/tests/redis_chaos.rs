//! Tests of the Redis endpoint while a node dies and returns. No reply may be lost or be assigned to another command.
//! If a command with an idempotency key is retried, it must get its first verdict again.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use redis::{Connection, Value, pipe};

use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::ports::free_ports;
use crate::run::Folder;

/// Number of items in a command, and number of commands in a pipeline.
const ITEMS: u64 = 20;
const COMMANDS: u64 = 50;
const ROUNDS: u64 = 12;
const SOURCE: u64 = 9;

/// Starts three nodes and creates a filter. The first two nodes have Redis endpoints with these settings.
pub(crate) fn formed(settings: &str, filter: &str) -> ([OwnNode; 3], [u16; 2]) {
    let ports = [free_ports(1), free_ports(1)];
    let endpoints = ports.map(|port| format!("[redis]\nlisten = \"127.0.0.1:{port}\"\n{settings}"));
    (formed_with(endpoints, filter), ports)
}

/// Starts three nodes and creates a filter. The configurations of the first two nodes contain these sections.
pub(crate) fn formed_with([first, second]: [String; 2], filter: &str) -> [OwnNode; 3] {
    // Each node reports at this address when it is ready.
    let health = || format!("http_listen = \"127.0.0.1:{}\"\n", free_ports(1));
    let nodes = [("a", first), ("b", second), ("c", String::new())];
    let nodes = nodes.map(|(name, endpoint)| OwnNode::start(name, &format!("{}{endpoint}", health())));
    let [a, b, c] = nodes.each_ref().map(|node| node.address.clone());
    let folder = &nodes[0].folder;
    eventually("a cluster", || folder.run(&format!("cluster form {a} {b} {c}")).code == Some(0));
    let create = "filter create clicks --if-absent --capacity 1M --fpr 1e-8 --clock wall --window 1h";
    eventually("a filter", || folder.run(&format!("{create} {filter} --cluster {a}")).code == Some(0));
    nodes
}

pub(crate) fn connect(port: u16) -> Connection {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).expect("an address");
    let mut connection = None;
    eventually("an endpoint", || {
        connection = client.get_connection().ok();
        connection.is_some()
    });
    connection.expect("a connection")
}

/// Submits the items of these commands. The number of the first item is the idempotency key of its command.
fn submit(client: &mut Connection, commands: &[u64]) -> Vec<Vec<i64>> {
    if commands.is_empty() {
        return Vec::new();
    }
    let mut asked = pipe();
    for command in commands {
        let asked = asked.cmd("FS.OBSERVE").arg("clicks").arg("ID").arg(SOURCE).arg(command * ITEMS).arg("ITEMS");
        for item in 0..ITEMS {
            asked.arg(format!("event-{}", command * ITEMS + item));
        }
        // The reply to ECHO shows whether the replies belong to their commands.
        asked.cmd("ECHO").arg(*command);
    }
    let replies: Vec<Value> = asked.query(client).expect("a reply to each command");
    assert_eq!(replies.len(), 2 * commands.len());
    let replies = replies.chunks_exact(2).zip(commands);
    let codes = replies.map(|(pair, command)| {
        let echoed: u64 = redis::from_redis_value(pair[1].clone()).expect("what was sent");
        assert_eq!(echoed, *command, "replies are in order");
        redis::from_redis_value::<Vec<i64>>(pair[0].clone()).expect("a code for each item")
    });
    codes.collect()
}

#[test]
fn a_node_that_dies_shifts_no_reply_and_no_retry_meets_its_own_events() {
    // The slices are on all nodes, and each has only one copy. Events of the dead node's slice are undecided until the
    // node returns.
    let (mut nodes, [port, _]) = formed("", "--slicing horizontal:3 --durability durable");
    let mut client = connect(port);
    let mut first: BTreeMap<u64, i64> = BTreeMap::new();
    let mut open: Vec<u64> = Vec::new();
    let (mut undecided, mut commands) = (0u64, 0);
    for round in 0..ROUNDS {
        match round {
            3 => nodes[1].kill(),
            8 => nodes[1].start_again(),
            _ => {}
        }
        let new = commands..commands + COMMANDS;
        commands = new.end;
        // A command with an undecided item is sent again unchanged.
        let asked: Vec<u64> = open.drain(..).chain(new).collect();
        for (command, codes) in asked.iter().zip(submit(&mut client, &asked)) {
            assert_eq!(codes.len() as u64, ITEMS);
            for (item, code) in (command * ITEMS..).zip(&codes) {
                if *code >= 0 {
                    let before = *first.entry(item).or_insert(*code);
                    assert_eq!(before, *code, "a retry is told its first verdict: item {item}");
                }
            }
            if codes.iter().any(|code| *code < 0) {
                undecided += 1;
                open.push(*command);
            }
        }
    }
    assert!(undecided > 0, "nothing was ever undecided: the node was not missed");
    eventually("a verdict on everything", || {
        let asked = std::mem::take(&mut open);
        for (command, codes) in asked.iter().zip(submit(&mut client, &asked)) {
            for (item, code) in (command * ITEMS..).zip(&codes).filter(|(_, code)| **code >= 0) {
                assert_eq!(*first.entry(item).or_insert(*code), *code, "item {item}");
            }
            if codes.iter().any(|code| *code < 0) {
                open.push(*command);
            }
        }
        open.is_empty()
    });
    let seen = first.values().filter(|code| **code != 1).count();
    assert_eq!((first.len() as u64, seen), (commands * ITEMS, 0), "every event was new, and nobody was told otherwise");
    let again = submit(&mut client, &(0..commands).collect::<Vec<_>>());
    assert!(again.iter().flatten().all(|code| *code == 1), "the names are remembered");
    let mut other = pipe();
    (0..commands * ITEMS).step_by(97).for_each(|item| {
        other.cmd("BF.EXISTS").arg("clicks").arg(format!("event-{item}"));
    });
    let known: Vec<bool> = other.query(&mut connect(port)).expect("replies");
    assert!(known.iter().all(|known| *known), "what was recorded is there");
}

/// Checks that a command about keys of several filters follows the rule of each filter.
#[test]
fn what_is_undecided_follows_the_rule_of_its_own_filter() {
    let settings = "[[redis.prefix]]\nmatch = \"a:\"\nfilter = \"ads\"\n\
                    [[redis.prefix]]\nmatch = \"c:\"\nfilter = \"clicks\"\n\
                    [[redis.filter]]\nname = \"ads\"\nundecided = \"new\"\n";
    let slicing = "--slicing horizontal:3 --durability durable";
    let (mut nodes, [port, _]) = formed(settings, slicing);
    let create = format!("filter create ads --capacity 1M --fpr 1e-8 --clock wall --window 1h {slicing}");
    let made = nodes[0].folder.run(&format!("{create} --cluster {}", nodes[0].address));
    assert_eq!(made.code, Some(0), "{}", made.err);
    let mut client = connect(port);
    let mut exists = |keys: &[String]| redis::cmd("EXISTS").arg(keys).query::<u64>(&mut client);
    eventually("both filters", || exists(&["a:1".to_owned(), "c:1".to_owned()]) == Ok(0));
    nodes[2].kill();
    let missed = |exists: &mut dyn FnMut(&[String]) -> redis::RedisResult<u64>| {
        (0..100).map(|key| format!("c:{key}")).find(|key| exists(std::slice::from_ref(key)).is_err())
    };
    let mut undecided = None;
    eventually("a key whose node is missed", || {
        undecided = missed(&mut exists);
        undecided.is_some()
    });
    let key = undecided.expect("a key");
    for keys in [["a:1".to_owned(), key.clone()], [key, "a:1".to_owned()]] {
        let said = exists(&keys).expect_err("an undecided key of a filter that wants errors").to_string();
        assert!(said.contains("UNDECIDED"), "{keys:?}: {said}");
    }
    let ads: Vec<String> = (0..100).map(|key| format!("a:{key}")).collect();
    assert_eq!(exists(&ads), Ok(0), "a third of these are undecided, and none is an error");
}

/// Checks that clients receive a reply for everything that a node has recorded before it stops.
#[test]
fn a_node_that_stops_replies_to_what_it_has_taken_up() {
    let port = free_ports(1);
    let endpoint = format!("[redis]\nlisten = \"127.0.0.1:{port}\"\n");
    let mut node = OwnNode::start_in(Folder::new(), "a", &endpoint);
    let init = format!("cluster init --addr {}", node.address);
    eventually("a cluster", || node.folder.run(&init).code == Some(0));
    let filter = "filter create clicks --capacity 1M --fpr 1e-8 --clock wall --window 1h --durability durable";
    node.folder.run(&format!("{filter} --cluster {}", node.address)).ok();
    drop(connect(port));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let mut hearing = stream.try_clone().expect("its other half");
    let hearer = thread::spawn(move || {
        let mut heard = Vec::new();
        let _ = hearing.read_to_end(&mut heard);
        heard.iter().filter(|byte| **byte == b'\n').count() as u64
    });
    let sender = thread::spawn(move || {
        let mut sent = 0u64;
        loop {
            let batch: String = (sent..sent + 100).map(|item| format!("BF.ADD clicks {item}\r\n")).collect();
            if stream.write_all(batch.as_bytes()).is_err() {
                return sent;
            }
            sent += 100;
        }
    });
    eventually("a first thousand", || {
        let known: bool = redis::cmd("BF.EXISTS").arg("clicks").arg(1_000).query(&mut connect(port)).unwrap_or(false);
        known
    });
    node.stop();
    let (heard, sent) = (hearer.join().expect("replies"), sender.join().expect("commands"));
    assert!(heard >= 1_000 && sent >= heard, "{heard} of {sent}");
    node.start_again();
    let mut client = connect(port);
    let mut asked = pipe();
    // The reply to the first command shows when the filter exists.
    [0].into_iter().chain(heard..heard + 1_000).for_each(|item| {
        asked.cmd("BF.EXISTS").arg("clicks").arg(item);
    });
    let mut known: Vec<bool> = Vec::new();
    eventually("the filter", || {
        known = asked.query(&mut client).unwrap_or_default();
        known.first() == Some(&true)
    });
    let unheard = known.iter().skip(1).filter(|known| **known).count();
    assert_eq!(unheard, 0, "events were recorded of which no client has heard");
}
