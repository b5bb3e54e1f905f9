//! Tests of the Redis endpoint while the nodes of one filter are away. Commands about other filters must be answered in
//! time.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use redis::{Value, pipe};

use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::redis_bytes::Wire;
use crate::redis_chaos::{connect, formed};
use crate::redis_endpoint::{RedisEndpoint, ask};

/// Time that the endpoint waits for a verdict.
const WAIT: Duration = Duration::from_secs(1);
/// Number of pairs of commands that wait for each other.
const PAIRS: u32 = 6;
/// Maximum number of filters to create until two of them have their slices on the wanted nodes. The cluster chooses the
/// nodes.
const FILTERS_MAX: usize = 10;

/// Creates filters with one slice each. The slice of the second filter is on the last node, and that of the first
/// filter is on another node.
fn near_and_far(nodes: &[OwnNode; 3], flags: &str) -> [String; 2] {
    let (folder, cluster) = (&nodes[0].folder, &nodes[0].address);
    let mut found = [const { None }; 2];
    for name in (0..FILTERS_MAX).map(|number| format!("f{number}")) {
        let create = format!("filter create {name} --capacity 10k --fpr 1e-8 --clock wall --window 1h --slicing none");
        folder.run(&format!("{create} {flags} --cluster {cluster}")).ok();
        let described = folder.run(&format!("filter describe {name} --json --cluster {cluster}")).ok().out;
        let described: serde_json::Value = serde_json::from_str(&described).expect("JSON");
        let is_far = described["slices"][0]["node"] == "c";
        found[usize::from(is_far)] = Some(name);
        if let [Some(near), Some(far)] = &found {
            return [near.clone(), far.clone()];
        }
    }
    panic!("no filter on the last node, or all of them");
}

#[test]
fn what_is_decided_is_heard_while_other_filters_are_waited_for() {
    let (nodes, [port, _]) = formed("", "--slicing none");
    let [near, far] = near_and_far(&nodes, "");
    let client = &mut connect(port);
    for filter in [&near, &far] {
        eventually("verdicts", || ask::<Vec<i64>>(client, &format!("FS.OBSERVE {filter} ITEMS warm")) == Ok(vec![0]));
    }
    let mut wire = Wire::at(port);
    nodes[2].signal(Signal::SIGSTOP);
    let begun = Instant::now();
    let near: [&[&str]; 1] = [&["FS.OBSERVE", &near, "ID", "7", "1", "ITEMS", "event"]];
    let far: [&[&str]; 2] = [&["SADD", &far, "event"], &["SISMEMBER", &far, "event"]];
    wire.send_all(near.into_iter().chain((0..PAIRS).flat_map(|_| far)));
    assert_eq!(wire.reply(), "*1\r\n:1\r\n");
    assert!(wire.is_silent(), "what is decided at once waits for nothing");
    for _ in 0..2 * PAIRS {
        let reply = wire.reply();
        assert!(reply.starts_with("-UNDECIDED"), "{reply}");
    }
    // If each command waited for the whole timeout, this would take longer.
    assert!(begun.elapsed() < WAIT * PAIRS, "{:?}", begun.elapsed());
    nodes[2].signal(Signal::SIGCONT);
}

/// Checks a filter that has been slow, so that calls no longer wait for it. Its other slices still answer in time.
#[test]
fn slices_that_answer_are_heard_beside_one_that_is_away() {
    const EVENTS: usize = 60;
    let (nodes, [port, _]) = formed("", "--slicing horizontal:3");
    let client = &mut connect(port);
    let events = |round: usize| (0..EVENTS).map(|event| format!(" {round}-{event}")).collect::<String>();
    let observe = |round| format!("FS.OBSERVE clicks ITEMS{}", events(round));
    eventually("verdicts", || {
        ask::<Vec<i64>>(client, &observe(0)).is_ok_and(|codes| codes.iter().all(|code| *code == 0))
    });
    nodes[2].signal(Signal::SIGSTOP);
    let mut asked = pipe();
    for round in 1..=PAIRS as usize {
        // The lookup waits until the events before it have been answered.
        for command in [observe(round), observe(round).replace("OBSERVE", "TEST")] {
            let mut words = command.split(' ');
            asked.cmd(words.next().unwrap_or_default()).arg(words.collect::<Vec<_>>());
        }
    }
    let replies: Vec<Vec<i64>> = asked.query(client).expect("codes");
    nodes[2].signal(Signal::SIGCONT);
    for pair in replies.chunks_exact(2) {
        let decided = pair[0].iter().filter(|code| **code == 1).count();
        assert!(decided > 0 && decided < EVENTS, "{:?}", pair[0]);
        for (recorded, seen) in pair[0].iter().zip(&pair[1]).filter(|(recorded, _)| **recorded == 1) {
            assert_eq!((*recorded, *seen), (1, 0), "{pair:?}");
        }
    }
}

#[test]
fn the_endpoint_confirms_claims_in_time_while_the_nodes_of_others_are_away() {
    let rule = |name: usize| {
        format!(
            "[[redis.prefix]]\nmatch = \"f{name}:\"\nfilter = \"f{name}\"\n\
             [[redis.filter]]\nname = \"f{name}\"\nclaim = \"on-expiry-confirm\"\n"
        )
    };
    let (nodes, [port, _]) = formed(&(0..FILTERS_MAX).map(rule).collect::<String>(), "--slicing none");
    let [near, far] = near_and_far(&nodes, "--claims 4s");
    let client = &mut connect(port);
    for filter in [&near, &far] {
        eventually("a claim", || ask(client, &format!("SET {filter}:warm x NX EX 600")) != Ok(Value::Okay));
    }
    let (begun, mut keys) = (Instant::now(), 0);
    while begun.elapsed() < WAIT {
        for filter in [&far, &near] {
            assert_eq!(ask(client, &format!("SET {filter}:{keys} x NX EX 600")), Ok(Value::Okay));
        }
        keys += 1;
    }
    nodes[2].signal(Signal::SIGSTOP);
    let test = (0..keys).map(|key| format!(" {near}:{key}")).collect::<String>();
    eventually("their records", || {
        let mut again = pipe();
        (0..keys).for_each(|key| _ = again.cmd("SET").arg(&[&format!("{near}:{key}"), "x", "NX", "EX", "600"]));
        let replies: Vec<Value> = again.query(client).expect("all replies");
        let granted = replies.iter().filter(|reply| **reply == Value::Okay).count();
        assert_eq!(granted, 0, "of {keys} keys, all of which were set before");
        let codes: Vec<i64> = ask(client, &format!("FS.TEST {near} ITEMS{test}")).expect("a code for each");
        codes.iter().all(|code| *code == 0)
    });
    nodes[2].signal(Signal::SIGCONT);
}

/// Checks the limit on the size of a transaction's replies. When the replies reach the limit, each further command of
/// the transaction must get an error which says that the command was not executed. The test also checks that none of
/// these commands was in fact executed.
#[test]
fn a_transaction_with_too_many_replies_tells_each_command_what_became_of_it() {
    const COMMANDS: usize = 40;
    let endpoint = RedisEndpoint::open("sandbox = true\n");
    endpoint.form("");
    drop(endpoint.client());
    let mut wire = Wire::at(endpoint.port);
    let question: Vec<&str> = ["BF.MEXISTS", "events"].into_iter().chain(std::iter::repeat_n("a", 8_000)).collect();
    let events: Vec<String> = (0..COMMANDS).map(|number| format!("e{number}")).collect();
    let event: Vec<[&str; 3]> = events.iter().map(|event| ["SADD", "events", event]).collect();
    wire.asks(&["SADD", "events", "first"], ":1\r\n");
    wire.send(&["MULTI"]);
    event.iter().for_each(|event| wire.send_all([&question[..], event]));
    wire.send(&["EXEC"]);
    (0..1 + 2 * COMMANDS).for_each(|_| assert!(wire.reply().starts_with('+')));
    assert_eq!(wire.line(), format!("*{}\r\n", 2 * COMMANDS));
    let mut refused = 0;
    let added = events.iter().map(|_| {
        let (said, added) = (wire.reply(), wire.reply());
        refused += usize::from(said.starts_with("-ERR not carried out"));
        assert!(said.starts_with("*8000\r\n") || said.starts_with("-ERR not carried out"), "{said:.60}");
        assert!(added == ":1\r\n" || added.starts_with("-ERR not carried out"), "{added:.60}");
        added == ":1\r\n"
    });
    let added: Vec<bool> = added.collect();
    assert!(refused > 0 && added.iter().any(|added| !added), "all were carried out");
    for (event, added) in events.iter().zip(added) {
        wire.asks(&["SISMEMBER", "events", event], if added { ":1\r\n" } else { ":0\r\n" });
    }
}
