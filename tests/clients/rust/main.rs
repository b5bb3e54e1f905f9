//! Executes the script of ../README.md with the Rust crate `redis`. The argument is the port of the Redis endpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::thread;
use std::time::{Duration, Instant};

use redis::{Connection, ExistenceCheck, RedisError, RedisResult, SetExpiry, SetOptions, TypedCommands, Value};
use serde_json::{Value as Json, json};

const TIMEOUT: Duration = Duration::from_secs(120);
/// Pause between two attempts to get a verdict.
const PAUSE: Duration = Duration::from_millis(20);
const EVENTS_PER_ROUND: usize = 100;
const SOURCE: &str = "redis-rs";

/// Returns a client for the endpoint.
fn open(node: &str, port: u16) -> RedisResult<redis::Client> {
    // shown in docs/reference/redis.md
    let client = redis::Client::open(format!("redis://{node}:{port}"))?;
    // shown until here
    Ok(client)
}

fn connect(client: &redis::Client) -> RedisResult<Connection> {
    // shown in docs/reference/redis.md
    let connection = client.get_connection()?;
    // shown until here
    Ok(connection)
}

// shown in docs/reference/redis.md
fn is_new(connection: &mut Connection, event: &str) -> RedisResult<bool> {
    let ten_minutes = SetOptions::default().conditional_set(ExistenceCheck::NX).with_expiration(SetExpiry::EX(600));
    Ok(connection.set_options(format!("clicks:{event}"), 1, ten_minutes)?.is_some())
}

/// Records many events in a pipeline. Each event has its own reply.
fn are_new(connection: &mut Connection, events: &[String]) -> RedisResult<Vec<RedisResult<Option<String>>>> {
    let ten_minutes = SetOptions::default().conditional_set(ExistenceCheck::NX).with_expiration(SetExpiry::EX(600));
    let mut pipeline = redis::pipe();
    for event in events {
        pipeline.set_options(format!("clicks:{event}"), 1, ten_minutes.clone());
    }
    pipeline.ignore_errors().query(connection)
}
// shown until here

/// Connection to the endpoint, and the results of the rounds.
struct Script {
    client: redis::Client,
    /// Connection to the endpoint. `None` after an error, in which case the next command connects again.
    connection: Option<Connection>,
    rounds: Vec<Round>,
}

/// Results of the events of a round. Events that are undecided, or were never answered, are sent again.
struct Round {
    number: usize,
    tries: u64,
    heard: BTreeSet<String>,
    named: Option<Vec<i64>>,
    verdicts: BTreeMap<String, bool>,
}

fn main() -> RedisResult<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).expect("PORT");
    Script { client: open("127.0.0.1", port)?, connection: None, rounds: Vec::new() }.run()
}

fn tell(step: &str, saw: impl Into<Json>) {
    println!("{}", json!({ "step": step, "saw": saw.into() }));
}

fn word(is_new: bool) -> &'static str {
    if is_new { "new" } else { "seen" }
}

fn numbered(beginning: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{beginning}-{number}")).collect()
}

impl Script {
    fn connection(&mut self) -> RedisResult<&mut Connection> {
        if self.connection.is_none() {
            self.connection = Some(connect(&self.client)?);
        }
        Ok(self.connection.as_mut().expect("it was just made"))
    }

    fn run(mut self) -> RedisResult<()> {
        let alone = numbered("alone", 20);
        let pipelined = numbered("pipelined", 1000);
        tell("connect", redis::cmd("PING").query::<String>(self.connection()?)?);
        let twice = alone.iter().chain(&alone);
        let words: RedisResult<Vec<&str>> = twice.map(|event| is_new(self.connection()?, event).map(word)).collect();
        tell("alone", words?);
        let pairs: Vec<String> = pipelined.iter().flat_map(|event| [event.clone(), event.clone()]).collect();
        tell("pipelined", self.words(&pairs)?);
        tell("transaction", transaction(self.connection()?)?);
        tell("bloom", bloom(self.connection()?)?);
        tell("claims", self.claims()?);
        let refused =
            redis::cmd("SET").arg(&["clicks:too-long", "1", "NX", "EX", "7200"]).query::<Value>(self.connection()?);
        tell("refused", refused.expect_err("longer than the window").to_string());
        for line in std::io::stdin().lock().lines() {
            if line.expect("text") == "over" {
                break;
            }
            self.round();
        }
        let mut known = [alone, pipelined].concat();
        let mut named = Vec::new();
        for number in 0..self.rounds.len() {
            known.extend(numbered(&format!("round-{number}"), EVENTS_PER_ROUND));
            named.extend(observe(self.connection()?, number)?);
        }
        tell("again", self.words(&known)?);
        tell("named again", named);
        Ok(())
    }

    fn words(&mut self, events: &[String]) -> RedisResult<Vec<&'static str>> {
        let replies = are_new(self.connection()?, events)?.into_iter();
        replies.map(|reply| reply.map(|text| word(text.is_some()))).collect()
    }

    fn claims(&self) -> RedisResult<Vec<Json>> {
        let mut mine = connect(&self.client)?;
        let mut other = connect(&self.client)?;
        let mut saw: Vec<Json> = vec![
            send(&mut mine, "FS.CLAIM jobs:1 PX 60000")?.into(),
            send(&mut other, "FS.CLAIM jobs:1 PX 60000")?.into(),
            send(&mut mine, "FS.CONFIRM jobs:1")?.into(),
            send(&mut other, "FS.CLAIM jobs:1 PX 60000")?.into(),
        ];
        let claim = redis::cmd("FS.CLAIM").arg(&["jobs:2", "PX", "60000", "WITHFENCE"]).query(&mut mine)?;
        let (code, fence): (i64, String) = claim;
        saw.push(code.into());
        saw.push(send(&mut other, &format!("FS.CONFIRM jobs:2 FENCE {fence}"))?.into());
        let minute = SetOptions::default().conditional_set(ExistenceCheck::NX).with_expiration(SetExpiry::PX(60_000));
        saw.push(word(mine.set_options("jobs:3", 1, minute.clone())?.is_some()).into());
        saw.push(word(other.set_options("jobs:3", 1, minute.clone())?.is_some()).into());
        saw.push(mine.del("jobs:3")?.into());
        saw.push(word(other.set_options("jobs:3", 1, minute)?.is_some()).into());
        Ok(saw)
    }

    fn round(&mut self) {
        let number = self.rounds.len();
        let round = Round { number, tries: 0, heard: BTreeSet::new(), named: None, verdicts: BTreeMap::new() };
        self.rounds.push(round);
        let deadline = Instant::now() + TIMEOUT;
        while !self.attempt() {
            assert!(Instant::now() < deadline, "no verdict: {:?}", self.rounds[number].heard);
            thread::sleep(PAUSE);
        }
        let Round { tries, heard, named, verdicts, .. } = &self.rounds[number];
        let events = numbered(&format!("round-{number}"), EVENTS_PER_ROUND);
        let saw: Vec<&str> = events.iter().map(|event| word(verdicts[event])).collect();
        println!("{}", json!({ "step": "round", "saw": saw, "named": named, "tries": tries, "heard": heard }));
    }

    fn attempt(&mut self) -> bool {
        let mut round = self.rounds.pop().expect("a round");
        round.tries += 1;
        let asked = self.connection().and_then(|connection| round.ask(connection));
        if let Err(error) = asked {
            round.failed(&error);
            self.connection = None;
        }
        let is_done = round.named.is_some() && round.verdicts.len() == EVENTS_PER_ROUND;
        self.rounds.push(round);
        is_done
    }
}

impl Round {
    fn failed(&mut self, error: &RedisError) {
        // If the error has no code, the connection was lost.
        if error.code().is_some() {
            self.heard.insert(error.to_string());
        }
    }

    fn ask(&mut self, connection: &mut Connection) -> RedisResult<()> {
        if self.named.is_none() {
            let codes = observe(connection, self.number)?;
            self.heard.extend(codes.iter().filter(|code| **code < 0).map(|code| format!("UNDECIDED {code}")));
            self.named = Some(codes).filter(|codes| codes.iter().all(|code| *code >= 0));
        }
        let mut open = numbered(&format!("round-{}", self.number), EVENTS_PER_ROUND);
        open.retain(|event| !self.verdicts.contains_key(event));
        for (event, reply) in open.iter().zip(are_new(connection, &open)?) {
            match reply {
                Ok(text) => _ = self.verdicts.insert(event.clone(), text.is_some()),
                Err(error) => self.failed(&error),
            }
        }
        Ok(())
    }
}

/// Sends a command whose words are separated by spaces. The reply is a number.
fn send(connection: &mut Connection, words: &str) -> RedisResult<i64> {
    let mut words = words.split(' ');
    let mut command = redis::cmd(words.next().unwrap_or_default());
    words.for_each(|word| _ = command.arg(word));
    command.query(connection)
}

/// Records the named events of a round. Because of the name, a retry gets its first verdicts.
fn observe(connection: &mut Connection, number: usize) -> RedisResult<Vec<i64>> {
    let mut observe = redis::cmd("FS.OBSERVE");
    observe.arg("clicks").arg("ID").arg(SOURCE).arg(number * EVENTS_PER_ROUND).arg("ITEMS");
    observe.arg(numbered(&format!("named-{number}"), EVENTS_PER_ROUND)).query(connection)
}

fn transaction(connection: &mut Connection) -> RedisResult<Vec<Json>> {
    let set = SetOptions::default().conditional_set(ExistenceCheck::NX).with_expiration(SetExpiry::EX(600));
    let mut transaction = redis::pipe();
    transaction.atomic();
    transaction.set_options("clicks:transaction", 1, set.clone()).set_options("clicks:transaction", 1, set);
    transaction.sadd("clicks", "transaction-item").exists("clicks:transaction");
    let replies: (Option<String>, Option<String>, i64, i64) = transaction.query(connection)?;
    let (first, second, added, exists) = replies;
    Ok(vec![word(first.is_some()).into(), word(second.is_some()).into(), added.into(), exists.into()])
}

fn bloom(connection: &mut Connection) -> RedisResult<Vec<bool>> {
    let mut saw: Vec<bool> = vec![
        redis::cmd("BF.ADD").arg(&["clicks", "bloom"]).query(connection)?,
        redis::cmd("BF.ADD").arg(&["clicks", "bloom"]).query(connection)?,
    ];
    saw.extend(redis::cmd("BF.MADD").arg(&["clicks", "bloom", "bloom-2"]).query::<Vec<bool>>(connection)?);
    saw.push(redis::cmd("BF.EXISTS").arg(&["clicks", "bloom-2"]).query(connection)?);
    saw.push(redis::cmd("BF.EXISTS").arg(&["clicks", "bloom-3"]).query(connection)?);
    Ok(saw)
}
