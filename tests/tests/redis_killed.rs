//! Tests of the Redis endpoint while nodes are killed with replies in flight
//! ([`killed_endpoints`](crate::killed_endpoints)).

use std::thread::JoinHandle;
use std::time::Duration;

use firstseen_client::Verdict;
use redis::{Cmd, Connection, Value};

use crate::killed_endpoints::{EVENTS, Group, Pipeline, item, producers_outlast_kills};
use crate::redis_chaos::{connect, formed};
use crate::redis_history::{Kept, verdict_of};

/// Maximum time for one reply, which is longer than any machine takes.
const TIMEOUT: Duration = Duration::from_secs(120);
const SEED: u64 = 11;

impl Pipeline for Connection {
    const COMMANDS: usize = 120;
    const AGAIN: usize = 10;

    fn connect(port: u16) -> Self {
        let connection = connect(port);
        connection.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        connection
    }

    fn write(group: &Group, bytes: &mut Vec<u8>) {
        let first = group.events().start;
        let mut observe = redis::cmd("FS.OBSERVE");
        observe.arg("clicks").arg("ID").arg(group.source).arg(first).arg("ITEMS");
        group.events().for_each(|event| _ = observe.arg(item(event)));
        bytes.extend(observe.get_packed_command());
        bytes.extend(packed(&["ECHO"], &group.token.to_string()));
        bytes.extend(packed(&["BF.EXISTS", "clicks"], &item(first)));
        bytes.extend(packed(&["SADD", "clicks"], &group.own()));
        bytes.extend(packed(&["FS.TEST", "clicks", "ITEMS"], &group.never()));
    }

    fn send(&mut self, bytes: Vec<u8>) -> Option<Option<JoinHandle<()>>> {
        self.send_packed_command(&bytes).is_ok().then_some(None)
    }

    fn observed(&mut self) -> Option<Vec<Verdict>> {
        Some(codes(reply(self)?, EVENTS))
    }

    fn found(&mut self, group: &Group) -> Option<Verdict> {
        match reply(self)? {
            Value::BulkString(echoed) => {
                assert_eq!(String::from_utf8_lossy(&echoed), group.token.to_string(), "replies are in order");
            }
            other => panic!("ECHO got {other:?}"),
        }
        Some(of_integer(reply(self)?, 0))
    }

    fn own(&mut self) -> Option<Verdict> {
        Some(of_integer(reply(self)?, 1))
    }

    fn never(&mut self) -> Option<Verdict> {
        Some(codes(reply(self)?, 1)[0])
    }
}

fn packed(words: &[&str], item: &str) -> Vec<u8> {
    let mut command = Cmd::new();
    words.iter().for_each(|word| _ = command.arg(word));
    command.arg(item).get_packed_command()
}

/// Returns the next reply, or `None` if the connection has ended.
fn reply(connection: &mut Connection) -> Option<Value> {
    match connection.recv_response() {
        Ok(value) => Some(value),
        Err(error) if error.is_io_error() && !error.is_timeout() => None,
        Err(error) => panic!("no reply: {error}"),
    }
}

/// Returns the verdict that an error reply expresses. The error must be one of the documented errors.
fn of_error(value: &Value) -> Option<Verdict> {
    let Value::ServerError(error) = value else { return None };
    assert_eq!(error.code(), "UNDECIDED", "{error}");
    let details = error.details().unwrap_or_default();
    Some(verdict_of(details.split(':').next().unwrap_or_default()))
}

/// Returns the verdict that an integer expresses, where `new` stands for a new event.
fn of_integer(value: Value, new: i64) -> Verdict {
    if let Some(verdict) = of_error(&value) {
        return verdict;
    }
    match value {
        Value::Int(number) if number == new => Verdict::FirstSeen,
        Value::Int(number) if number == 1 - new => Verdict::Duplicate,
        other => panic!("instead of 0 or 1: {other:?}"),
    }
}

/// Returns the verdicts of a command that replies with a number for each item.
fn codes(value: Value, items: u64) -> Vec<Verdict> {
    if let Some(verdict) = of_error(&value) {
        return vec![verdict; items as usize];
    }
    let codes: Vec<i64> = redis::from_redis_value(value).expect("numbers");
    assert_eq!(codes.len() as u64, items);
    codes.iter().map(|code| verdict_of(&code.to_string())).collect()
}

fn nodes_are_killed(kept: Kept) {
    let (mut nodes, ports) = formed("", &format!("--slicing horizontal:3 {}", kept.flags()));
    ports.into_iter().for_each(|port| drop(connect(port)));
    producers_outlast_kills::<Connection>(kept, ports, &mut nodes, SEED);
}

#[test]
#[ignore = "minutes"]
fn a_durable_filter_repeats_its_verdicts_when_nodes_were_killed() {
    nodes_are_killed(Kept::OnDisk);
}

#[test]
fn a_filter_with_copies_goes_on_when_nodes_are_killed() {
    nodes_are_killed(Kept::InMemory);
}
