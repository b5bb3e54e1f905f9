//! Redis clients that send commands to the Redis endpoints of nodes and record the replies. The history contains every
//! call before its command is sent, so a command without a reply is recorded too.

mod replies;

use std::time::Duration;

use firstseen_checker::history::Call;
use firstseen_routing::{Decision, Reason};
use tokio::io::AsyncWriteExt;

use self::replies::{Reply, read_reply};
use crate::clock::{EPOCH_MS, now_us};
use crate::cluster::{FILTER, node_name};
use crate::endpoint_use::{DOOR_PORT, EndpointUse, KEY_PREFIX};
use crate::net::{SimConnector, SimStream};
use crate::rights::events_of_draw;
use crate::scenario::Scenario;
use crate::seeded_rng::SeededRng;
use crate::shared_history::{SharedHistory, lock};

/// Number of connections that one client uses concurrently.
const AT_ONCE: u32 = 2;
/// One in this many commands is a lookup.
const LOOKUP_EVERY: u64 = 3;
/// The times to live of keys, in seconds. They are at least two ticks of the longest window, because the endpoint
/// rejects shorter times.
const TTL_S: [u64; 3] = [4, 6, 20];
/// Maximum time in microseconds that an endpoint needs to confirm a claim. The endpoint starts the confirmation when an
/// eighth of the lease is left. The first attempt succeeds, because scenarios that revoke rights have no other faults,
/// so the maximum does not include further attempts.
const CONFIRMED_WITHIN_US: u64 = 500_000;
/// Pause before a client connects again, to another node.
const PAUSE: Duration = Duration::from_millis(100);
/// If clients lose rights, a lookup uses one of this many latest claims.
const LATEST_CLAIMS: u64 = 200;

/// Runs client `number` to its end.
pub(crate) async fn ask_endpoints(
    number: u32,
    endpoint_use: EndpointUse,
    scenario: Scenario,
    connector: SimConnector,
    history: SharedHistory,
) -> turmoil::Result {
    let mut clients = Vec::new();
    for lane in 0..AT_ONCE {
        let place = u64::from(number * AT_ONCE + lane);
        let client = RedisClient {
            number,
            endpoint_use,
            scenario: scenario.clone(),
            connector: connector.clone(),
            history: history.clone(),
            rng: SeededRng::new(scenario.seed.wrapping_mul(41).wrapping_add(place)),
            connection: None,
        };
        clients.push(tokio::spawn(client.run()));
    }
    for client in clients {
        client.await??;
    }
    Ok(())
}

/// One connection of a Redis client.
struct RedisClient {
    number: u32,
    endpoint_use: EndpointUse,
    scenario: Scenario,
    connector: SimConnector,
    history: SharedHistory,
    rng: SeededRng,
    connection: Option<EndpointConnection>,
}

/// A connection to the Redis endpoint of a node.
struct EndpointConnection {
    stream: SimStream,
    /// Number of the node.
    node: usize,
}

impl RedisClient {
    /// Returns whether clients lose and regain the right to record.
    fn loses_rights(&self) -> bool {
        self.endpoint_use == EndpointUse::Revocations
    }

    async fn run(mut self) -> Result<(), String> {
        for _ in 0..self.scenario.calls / AT_ONCE {
            let pause_ms = self.rng.below(self.scenario.pause_max_ms);
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => self.connect().await,
            };
            if self.call(&mut connection).await? {
                self.connection = Some(connection);
            }
        }
        Ok(())
    }

    /// Connects to the Redis endpoint of any node, and tries until it succeeds.
    async fn connect(&mut self) -> EndpointConnection {
        loop {
            let node = self.rng.below(self.scenario.nodes as u64) as usize;
            let limit = Duration::from_millis(self.scenario.deadline_ms);
            let connected = tokio::time::timeout(limit, self.connector.connect(&node_name(node), DOOR_PORT)).await;
            if let Ok(Ok(stream)) = connected {
                return EndpointConnection { stream, node };
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Sends a command and records its reply. Returns whether the connection can be used again.
    async fn call(&mut self, connection: &mut EndpointConnection) -> Result<bool, String> {
        let node = connection.node;
        let is_lookup = self.rng.below(LOOKUP_EVERY) == 0;
        let event = self.event(is_lookup);
        let (command, ttl_ms) = self.command(event, is_lookup);
        let is_claim = self.loses_rights() && !is_lookup;
        let call = Call {
            ttl_ms,
            is_lookup: is_lookup || is_claim,
            is_claim,
            ..Call::begun(self.number, event, EPOCH_MS + now_us() / 1000, now_us())
        };
        let asked_us = call.began_us;
        let id = lock(&self.history).begin(call);
        if self.loses_rights() {
            lock(&self.history).rights.entries.insert(id, [node].into());
        }
        let asked = async {
            connection.stream.write_all(command.as_bytes()).await?;
            read_reply(&mut connection.stream).await
        };
        let limit = Duration::from_millis(self.scenario.deadline_ms);
        // If no reply arrives in time, the client closes the connection. The command may have taken effect.
        let Ok(Ok(reply)) = tokio::time::timeout(limit, asked).await else { return Ok(false) };
        let verdict = self.verdict(&reply, is_lookup).ok_or_else(|| format!("{command:?} got {reply:?}"))?;
        lock(&self.history).end(id, now_us(), verdict, false);
        if is_claim && verdict == Decision::FirstSeen {
            self.note_confirm(event, node, asked_us);
        }
        Ok(true)
    }

    fn event(&mut self, is_lookup: bool) -> u64 {
        if is_lookup && self.loses_rights() {
            let skipped = self.rng.below(LATEST_CLAIMS) as usize;
            let history = lock(&self.history);
            let claims = history.calls.iter().rev().filter(|call| call.is_claim);
            return claims.take(1 + skipped).last().map_or(0, |call| call.event);
        }
        let (first, events) = events_of_draw(&self.scenario, &mut self.rng);
        first + self.rng.below(events)
    }

    /// Returns the command, and the time to live that it gives the key, in milliseconds.
    fn command(&mut self, event: u64, is_lookup: bool) -> (String, Option<u64>) {
        if is_lookup && self.loses_rights() {
            // `EXISTS` also counts keys that a client holds.
            return (format!("SISMEMBER {FILTER} {KEY_PREFIX}{event}\r\n"), None);
        }
        if is_lookup {
            return (format!("EXISTS {KEY_PREFIX}{event}\r\n"), None);
        }
        let ttl_s = self.rng.pick(&TTL_S);
        // Keys that the endpoint confirms must stay for the whole window.
        if self.endpoint_use != EndpointUse::OwnTimes {
            return (format!("SET {KEY_PREFIX}{event} 1 NX\r\n"), None);
        }
        (format!("SET {KEY_PREFIX}{event} 1 NX EX {ttl_s}\r\n"), Some(ttl_s * 1000))
    }

    /// Returns the verdict that a reply stands for, or `None` if the command cannot have this reply.
    fn verdict(&self, reply: &Reply, is_lookup: bool) -> Option<Decision> {
        match reply {
            Reply::Status(text) if text == "OK" && !is_lookup => Some(Decision::FirstSeen),
            // The key is either recorded or held by a client.
            Reply::Nil if self.loses_rights() => Some(Decision::Undecided(Reason::Unknown)),
            Reply::Nil if !is_lookup => Some(Decision::Duplicate),
            Reply::Integer(0) if is_lookup => Some(Decision::FirstSeen),
            Reply::Integer(1) if is_lookup => Some(Decision::Duplicate),
            Reply::Error(text) => undecided(text).map(|reason| match reason {
                // The history has no fences for claims of Redis clients, so no law can say who holds an event.
                Reason::Claimed => Decision::Undecided(Reason::Unknown),
                reason => Decision::Undecided(reason),
            }),
            _ => None,
        }
    }

    /// Records the call with which the endpoint confirms a claim, if the client may record at that time.
    fn note_confirm(&self, event: u64, node: usize, asked_us: u64) {
        // If the endpoint confirms, a claim lasts for the maximum lease of its filter, whatever time the key was given.
        let lease_ms = self.scenario.lease_max_ms.unwrap_or_default();
        let due_us = u64::from(lease_ms) * 1000 * 7 / 8;
        let mut history = lock(&self.history);
        let id = history.begin(Call {
            is_confirm: true,
            returned_us: Some(now_us() + due_us + CONFIRMED_WITHIN_US),
            verdict: Some(Decision::Undecided(Reason::Unknown)),
            ..Call::begun(self.number, event, EPOCH_MS + now_us() / 1000, asked_us + due_us)
        });
        history.rights.entries.insert(id, [node].into());
    }
}

/// Returns the reason in an error reply, or `None` if it is another error.
fn undecided(text: &str) -> Option<Reason> {
    if text.starts_with("NOPERM") {
        return Some(Reason::Forbidden);
    }
    let reason = text.strip_prefix("UNDECIDED ")?.split(':').next()?;
    Reason::ALL.into_iter().find(|known| format!("{known:?}") == reason)
}
