//! Registry of the filters in use, which also asks nodes to describe a filter by its name.
//!
//! - If a filter is already in use, opening it again returns the same object.
//! - If a filter is being altered, the registry returns the predecessor, with the new filter linked behind it.
//! - If a node is slow to answer, the registry asks other nodes as well.
//!
//! This module does not depend on how events are submitted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use firstseen_filter::{FilterSecret, Refresh};
use firstseen_routing::{Branch, ClusterMap, FilterId, FilterRecord, NodeId};
use firstseen_wire::map::filter_record;
use firstseen_wire::net::{Channel, producer_client};
use firstseen_wire::proto::producer as proto;
use firstseen_wire::status::ErrorKind;
use firstseen_wire::ticks::read_ms;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::call::lock;
use crate::error::FilterError;
use crate::intake::{FilterCore, NodeQueues};
use crate::shared::{Core, Target};
use crate::watch::complaint;

/// Time that a node has to learn about a new filter. A node whose cluster map is slightly old may not know the filter
/// yet.
const FILTER_APPEARS_WITHIN: Duration = Duration::from_millis(300);
/// Time that the registry waits for an answer before it asks an additional node. It continues to wait for the nodes
/// that it asked before, and uses the first answer. Without the additional node, a single node that is stopped or has a
/// slow disk could use up the whole deadline of a call.
const HEDGE_DELAY: Duration = Duration::from_millis(500);
/// Maximum number of nodes that are asked at the same time.
const AWAITED_MAX: usize = 8;

/// Registry of the filters in use.
pub(crate) struct Registry {
    core: Arc<Core>,
    queues: Arc<dyn NodeQueues>,
    filters: Mutex<BTreeMap<FilterId, Weak<FilterCore>>>,
}

/// Filter as the cluster map describes it.
struct Described {
    id: FilterId,
    record: FilterRecord,
}

impl Registry {
    pub(crate) fn new(core: Arc<Core>, queues: Arc<dyn NodeQueues>) -> Self {
        Self { core, queues, filters: Mutex::default() }
    }

    /// Closes all filters because the client is closing. Queued events are answered and not sent.
    pub(crate) fn close(&self) {
        let filters: Vec<_> = lock(&self.filters).values().filter_map(Weak::upgrade).collect();
        filters.iter().for_each(|filter| filter.close());
    }

    /// Opens the filter with this name. If the filter is being altered, returns the predecessor, because events must be
    /// looked up there first.
    pub(crate) async fn open(&self, name: &str, deadline: Instant) -> Result<Arc<FilterCore>, FilterError> {
        let mut jitter = self.core.jitter();
        let mut awaited = JoinSet::new();
        let mut target = Target::Relay;
        let mut tries = 0;
        let mut silences = 0;
        let mut unknown_since = None;
        loop {
            let channel = self.core.channel(target);
            if let Some(channel) = channel.as_ref().ok().filter(|_| awaited.len() < AWAITED_MAX) {
                awaited.spawn(describe(channel.clone(), name.to_owned()));
            }
            let answer = timeout_at(deadline.min(Instant::now() + HEDGE_DELAY), awaited.join_next()).await;
            let is_silent = answer.is_err();
            let reason = match answer {
                Ok(Some(Ok(Ok(reply)))) => return self.adopt(name, reply, deadline).await,
                Ok(Some(Ok(Err(status)))) => match ErrorKind::from(&status) {
                    ErrorKind::NotFound => {
                        let since: Instant = *unknown_since.get_or_insert_with(Instant::now);
                        if since.elapsed() > FILTER_APPEARS_WITHIN {
                            return Err(self.not_found(name));
                        }
                        complaint(&status)
                    }
                    kind if kind.is_worth_retrying() => complaint(&status),
                    _ => return Err(FilterError::Refused { name: name.to_owned(), reason: complaint(&status) }),
                },
                Ok(Some(Err(error))) => error.to_string(),
                Ok(None) => channel.err().unwrap_or_default(),
                Err(_) => "no answer in time".to_owned(),
            };
            if Instant::now() >= deadline {
                return Err(self.unreachable(name, reason));
            }
            if is_silent {
                silences += 1;
            } else {
                tries += 1;
                sleep(Duration::from_millis(jitter.wait_ms(tries + 2))).await;
            }
            target = if awaited.is_empty() { Target::Relay } else { self.other_node(silences) };
        }
    }

    /// Returns the filter that replaced `filter` under its name. Returns `None` if no filter replaced `filter`, or if
    /// the replacement cannot be opened before the deadline.
    pub(crate) async fn next<'a>(&self, filter: &'a Arc<FilterCore>, deadline: Instant) -> Option<&'a Arc<FilterCore>> {
        let line = filter.line();
        if line.next().is_some() {
            return line.next();
        }
        let _turn = timeout_at(deadline, line.turn().acquire()).await.ok()?.ok()?;
        let mut jitter = self.core.jitter();
        for tries in 1.. {
            if line.next().is_some() || Instant::now() >= deadline {
                break;
            }
            // The node that answers may not have the new cluster map yet, so the description is requested again.
            let Some(name) = self.name_of_follower(filter) else { break };
            match self.open(&name, deadline).await {
                Ok(found) if found.id() > filter.id() => line.follow_with(found),
                Ok(_) => {}
                Err(error) => tracing::debug!(name, %error, "the filter that replaced it is not known yet"),
            }
            if line.next().is_none() {
                sleep(Duration::from_millis(jitter.wait_ms(tries))).await;
            }
        }
        line.next()
    }

    /// Returns the name of the newest filter in the chain, if another filter has replaced `filter`.
    fn name_of_follower(&self, filter: &FilterCore) -> Option<String> {
        let origin = filter.line().origin();
        let map = self.core.map();
        map.follower_of(filter.id(), origin)?;
        let mut line = map.filters.values().filter(|record| record.line.origin == Some(origin));
        line.find(|record| !record.is_closed()).map(|record| record.name.clone())
    }

    /// Returns another node on each turn, out of those that are not marked down. Clients start at different nodes,
    /// which spreads the load.
    fn other_node(&self, turn: usize) -> Target {
        let map = self.core.map();
        let up: Vec<NodeId> = map.nodes.iter().filter(|(_, node)| !node.is_down).map(|(id, _)| *id).collect();
        let begin = self.core.incarnation() as usize;
        let found = begin.wrapping_add(turn).checked_rem(up.len()).and_then(|index| up.get(index));
        found.map_or(Target::Relay, |id| Target::Node(*id))
    }

    fn not_found(&self, name: &str) -> FilterError {
        let there = self.core.map().filters.values().map(|filter| filter.name.clone()).collect();
        FilterError::NotFound { name: name.to_owned(), there }
    }

    fn unreachable(&self, name: &str, reason: String) -> FilterError {
        FilterError::Unreachable { name: name.to_owned(), waited_ms: self.core.options().deadline_ms, reason }
    }

    /// Takes over a filter that a node has described. Returns the existing object if the filter is already in use.
    async fn adopt(
        &self,
        name: &str,
        reply: proto::DescribeFilterReply,
        deadline: Instant,
    ) -> Result<Arc<FilterCore>, FilterError> {
        let message = reply.filter.ok_or_else(|| unusable(name, "it is empty"))?;
        let (id, record) = filter_record(message).map_err(|error| unusable(name, error))?;
        // Batches are routed with the cluster map, so the client's map must be as new as the map of the node that
        // described the filter. The client may follow the map of another node, which can be slower.
        self.core.note_map_version(reply.map_version);
        let mut maps = self.core.maps();
        let has_filter = maps.wait_for(|map| map.filters.contains_key(&id));
        if !matches!(timeout_at(deadline, has_filter).await, Ok(Ok(_))) {
            return Err(self.unreachable(name, "the map of the cluster does not show it yet".to_owned()));
        }
        let described = self.level(name, Described { id, record })?;
        let node_ms = read_ms(reply.wall_ms);
        if let Some(wall_ms) = node_ms {
            self.core.present().hear(wall_ms, Instant::now());
        }
        // The new filter takes over the clock of its predecessor, because the predecessor's owners are about to send
        // that clock to the new owners. A clock that runs ahead of the present is faulty and is not taken over.
        let former_ms = read_ms(reply.former_clock_ms);
        let sane_former_ms =
            former_ms.map(|former_ms| former_ms.min(node_ms.unwrap_or_else(|| self.core.present().wall_ms())));
        let clock_ms = read_ms(reply.clock_ms).max(sane_former_ms);
        let root = self.root_of_claims(&described.record);
        let filter = self.in_use(name, described, &reply.secret, clock_ms)?;
        if let Some(root) = root {
            filter.line().claim_at(self.in_use(name, root, &reply.secret, clock_ms)?);
        }
        let Some(former) = reply.former else { return Ok(filter) };
        let (id, record) = filter_record(former).map_err(|error| unusable(name, error))?;
        if !self.core.map().filters.contains_key(&id) {
            // The predecessor was removed in the meantime.
            return Ok(filter);
        }
        let former = self.in_use(name, Described { id, record }, &reply.former_secret, former_ms)?;
        former.line().follow_with(filter);
        Ok(former)
    }

    fn in_use(
        &self,
        name: &str,
        described: Described,
        secret: &[u8],
        clock_ms: Option<u64>,
    ) -> Result<Arc<FilterCore>, FilterError> {
        if self.core.is_closed() {
            return Err(FilterError::Closed);
        }
        let Described { id, record } = described;
        let refreshes = record.definition.group.cells.refresh() == Refresh::Refresh;
        if refreshes && self.core.options().local_bytes_max > 0 {
            return Err(FilterError::Refresh { name: name.to_owned() });
        }
        let mut filters = lock(&self.filters);
        if let Some(filter) = filters.get(&id).and_then(Weak::upgrade) {
            filter.catch_up(clock_ms);
            return Ok(filter);
        }
        // Without the secret, the client would hash events differently from other clients, and the filter would take
        // every event for new and record it.
        if secret.is_empty() {
            let reason = format!(
                "it may be described, but its secret, by which events are hashed, needs the right `observe`, or `lookup` to test events \
                 only: firstseen access grant PRINCIPAL --filter {name} --allow observe"
            );
            return Err(FilterError::Refused { name: name.to_owned(), reason });
        }
        let secret = FilterSecret::from_material(secret);
        let filter = FilterCore::new(self.core.clone(), self.queues.clone(), id, record, secret, clock_ms);
        let filter = Arc::new(filter.map_err(|error| unusable(name, error))?);
        filters.retain(|_, filter| filter.strong_count() > 0);
        filters.insert(id, Arc::downgrade(&filter));
        Ok(filter)
    }

    /// Returns the root of the tree that a filter belongs to, if events of the tree can be claimed there and the filter
    /// is not the root.
    fn root_of_claims(&self, record: &FilterRecord) -> Option<Described> {
        record.policies.claim_lease_max_ms?;
        let id = record.branch.as_ref().filter(|branch| !branch.is_root())?.root;
        let record = self.core.map().filters.get(&id)?.clone();
        Some(Described { id, record })
    }

    /// Returns the tree level at this client's site. Returns the filter unchanged if the filter is in no tree or the
    /// client has no site.
    fn level(&self, name: &str, described: Described) -> Result<Described, FilterError> {
        let Some(Branch { root, top_down, .. }) = described.record.branch else { return Ok(described) };
        let map = self.core.map();
        let levels = levels_of(&map, root);
        let level = match self.core.options().site.as_deref() {
            None => described,
            Some(site) => match levels.iter().find(|level| level.branch.place == site) {
                Some(level) => Described { id: level.id, record: level.record.clone() },
                None => {
                    let there = levels.iter().map(|level| level.branch.place.clone()).collect();
                    return Err(FilterError::NoPlace { name: name.to_owned(), site: site.to_owned(), there });
                }
            },
        };
        // If a tree verifies duplicates in its leaves, an event that no leaf knows counts as a false positive of the
        // upper levels. Producers must therefore use a leaf.
        if top_down > 0 && !is_leaf(&levels, level.id) {
            let leaves = levels.iter().filter(|level| is_leaf(&levels, level.id));
            let leaves = leaves.map(|level| level.branch.place.clone()).collect();
            return Err(FilterError::NoLeaf { name: name.to_owned(), leaves });
        }
        Ok(level)
    }
}

/// A level of a tree.
struct Level<'a> {
    id: FilterId,
    record: &'a FilterRecord,
    branch: &'a Branch,
}

/// Returns the levels of the tree that has this root.
fn levels_of(map: &ClusterMap, root: FilterId) -> Vec<Level<'_>> {
    let filters = map.filters.iter().filter_map(|(id, record)| {
        let branch = record.branch.as_ref()?;
        Some(Level { id: *id, record, branch })
    });
    filters.filter(|level| level.branch.root == root).collect()
}

fn is_leaf(levels: &[Level<'_>], id: FilterId) -> bool {
    levels.iter().all(|level| level.branch.parent != Some(id))
}

/// Creates the error for a description that this client cannot use.
fn unusable(name: &str, reason: impl ToString) -> FilterError {
    FilterError::Description { name: name.to_owned(), reason: reason.to_string() }
}

/// Asks the node behind a channel to describe a filter.
async fn describe(channel: Channel, name: String) -> Result<proto::DescribeFilterReply, tonic::Status> {
    let request = proto::DescribeFilterRequest { name };
    producer_client(channel).describe_filter(request).await.map(tonic::Response::into_inner)
}
