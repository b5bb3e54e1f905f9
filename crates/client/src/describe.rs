//! How the cluster describes a filter that is asked for by name.
//!
//! Promises: a filter that is in use already stays the same; for a filter that is being altered, the description is of
//! the former one, with its follower behind it; a node that hesitates is not waited for alone. Must not know: how events are
//! submitted.

use std::sync::{Arc, Weak};
use std::time::Duration;

use firstseen_filter::{FilterSecret, Refresh};
use firstseen_routing::{Branch, FilterId, FilterRecord, NodeId};
use firstseen_wire::map::filter_record;
use firstseen_wire::net::{Channel, producer_client};
use firstseen_wire::proto::producer as proto;
use firstseen_wire::status::ErrorKind;
use firstseen_wire::ticks::read_ms;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::call::lock;
use crate::client::Core;
use crate::dock::Target;
use crate::error::FilterError;
use crate::intake::FilterCore;
use crate::watch::complaint;

/// A node that may not have the map with a new filter yet is given so long to get it.
const FILTER_APPEARS_WITHIN: Duration = Duration::from_millis(300);
/// Where no node has answered for so long, another one is asked beside those that are still awaited: one whose disk is slow, or that
/// has stopped, must not take the whole deadline.
const SILENT_FOR: Duration = Duration::from_millis(500);
/// Nodes that are awaited at a time.
const AWAITED_MAX: usize = 8;

impl Core {
    /// The filter of this name: while it is being altered, the one that is asked first.
    pub(crate) async fn open(self: &Arc<Self>, name: &str, deadline: Instant) -> Result<Arc<FilterCore>, FilterError> {
        let mut jitter = self.jitter();
        let (mut awaited, mut target) = (JoinSet::new(), Target::Relay);
        let (mut tries, mut silences, mut unknown_since) = (0, 0, None);
        loop {
            let channel = self.channel(target);
            if let Some(channel) = channel.as_ref().ok().filter(|_| awaited.len() < AWAITED_MAX) {
                awaited.spawn(describe(channel.clone(), name.to_owned()));
            }
            let answer = timeout_at(deadline.min(Instant::now() + SILENT_FOR), awaited.join_next()).await;
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

    /// Another node each time, of those that are not known to be down; clients do not all begin with the same.
    fn other_node(&self, turn: usize) -> Target {
        let map = self.map();
        let up: Vec<NodeId> = map.nodes.iter().filter(|(_, node)| !node.is_down).map(|(id, _)| *id).collect();
        let begin = self.incarnation() as usize;
        let found = begin.wrapping_add(turn).checked_rem(up.len()).and_then(|index| up.get(index));
        found.map_or(Target::Relay, |id| Target::Node(*id))
    }

    fn not_found(&self, name: &str) -> FilterError {
        let there = self.map().filters.values().map(|filter| filter.name.clone()).collect();
        FilterError::NotFound { name: name.to_owned(), there }
    }

    fn unreachable(&self, name: &str, reason: String) -> FilterError {
        FilterError::Unreachable { name: name.to_owned(), waited_ms: self.options().deadline_ms, reason }
    }

    /// The filter that a node has described; the same as before if it is in use already.
    async fn adopt(
        self: &Arc<Self>,
        name: &str,
        reply: proto::DescribeFilterReply,
        deadline: Instant,
    ) -> Result<Arc<FilterCore>, FilterError> {
        let description = |reason: String| FilterError::Description { name: name.to_owned(), reason };
        let message = reply.filter.ok_or_else(|| description("it is empty".to_owned()))?;
        let (id, record) = filter_record(message).map_err(|error| description(error.to_string()))?;
        // Batches are sent by the map: it must be as new as that of the node that has described the filter. The node whose map is
        // followed may be another, and hesitate.
        self.heard_of_version(reply.map_version);
        let mut maps = self.maps();
        let has_filter = maps.wait_for(|map| map.filters.contains_key(&id));
        if !matches!(timeout_at(deadline, has_filter).await, Ok(Ok(_))) {
            return Err(self.unreachable(name, "the map of the cluster does not show it yet".to_owned()));
        }
        let (id, record) = self.level(name, id, record)?;
        let (node_ms, former_ms) = (read_ms(reply.wall_ms), read_ms(reply.former_clock_ms));
        node_ms.into_iter().for_each(|wall_ms| self.present().hear(wall_ms, Instant::now()));
        // The clock of the former filter is handed to the new one, as its owners are about to be sent it. A clock that
        // has gone wrong, ahead of the present, is not handed on.
        let present_ms = || node_ms.unwrap_or_else(|| self.present().wall_ms());
        let clock_ms = read_ms(reply.clock_ms).max(former_ms.map(|former_ms| former_ms.min(present_ms())));
        let root = self.root_of_claims(&record);
        let filter = self.in_use(name, (id, record), &reply.secret, clock_ms)?;
        if let Some(root) = root {
            filter.line().claim_at(self.in_use(name, root, &reply.secret, clock_ms)?);
        }
        let Some(former) = reply.former else { return Ok(filter) };
        let (id, record) = filter_record(former).map_err(|error| description(error.to_string()))?;
        if !self.map().filters.contains_key(&id) {
            // The filter has gone meanwhile.
            return Ok(filter);
        }
        let former = self.in_use(name, (id, record), &reply.former_secret, former_ms)?;
        former.line().follow_with(filter);
        Ok(former)
    }

    fn in_use(
        self: &Arc<Self>,
        name: &str,
        (id, record): (FilterId, FilterRecord),
        secret: &[u8],
        clock_ms: Option<u64>,
    ) -> Result<Arc<FilterCore>, FilterError> {
        if self.is_closed() {
            return Err(FilterError::Closed);
        }
        let refreshes = record.definition.group.cells.refresh() == Refresh::Refresh;
        if refreshes && self.options().local_bytes_max > 0 {
            return Err(FilterError::Refresh { name: name.to_owned() });
        }
        let mut filters = lock(self.filters());
        if let Some(filter) = filters.get(&id).and_then(Weak::upgrade) {
            filter.catch_up(clock_ms);
            return Ok(filter);
        }
        // Events that are hashed by another secret than the filter's are new to it, and would be recorded as others.
        if secret.is_empty() {
            let reason = format!(
                "it may be described, but its secret, by which events are hashed, needs the right `observe`, or `lookup` to test events \
                 only: firstseen access grant PRINCIPAL --filter {name} --allow observe"
            );
            return Err(FilterError::Refused { name: name.to_owned(), reason });
        }
        let secret = FilterSecret::from_material(secret);
        let description = |reason: String| FilterError::Description { name: name.to_owned(), reason };
        let filter = FilterCore::new(self.clone(), id, record, secret, clock_ms);
        let filter = Arc::new(filter.map_err(|error| description(error.to_string()))?);
        filters.retain(|_, filter| filter.strong_count() > 0);
        filters.insert(id, Arc::downgrade(&filter));
        Ok(filter)
    }

    /// The root of the tree of which a filter is another level, where events of the tree can be claimed.
    fn root_of_claims(&self, record: &FilterRecord) -> Option<(FilterId, FilterRecord)> {
        record.policies.claim_lease_max_ms?;
        let root = record.branch.as_ref().filter(|branch| !branch.is_root())?.root;
        self.map().filters.get(&root).map(|record| (root, record.clone()))
    }

    /// The level of a tree at this client's site; the filter itself where it has no tree, or the client no site.
    fn level(&self, name: &str, id: FilterId, record: FilterRecord) -> Result<(FilterId, FilterRecord), FilterError> {
        let Some(Branch { root, top_down, .. }) = record.branch.clone() else { return Ok((id, record)) };
        let map = self.map();
        let levels = || {
            let branch = |filter: &FilterRecord| filter.branch.clone().filter(|branch| branch.root == root);
            map.filters.iter().filter_map(move |(id, filter)| Some((*id, filter, branch(filter)?)))
        };
        let is_leaf = |id: FilterId| levels().all(|(.., branch)| branch.parent != Some(id));
        let place = match self.site() {
            None => Some((id, record)),
            Some(site) => {
                let mut of_site = levels().filter(|(.., branch)| branch.place == site);
                of_site.next().map(|(id, level, _)| (id, level.clone()))
            }
        };
        let (name, places) = (name.to_owned(), |wanted: &dyn Fn(FilterId) -> bool| {
            levels().filter(|(id, ..)| wanted(*id)).map(|(.., branch)| branch.place).collect()
        });
        match place {
            // An event that no leaf knows would be taken for a false positive of the levels above.
            Some((id, _)) if top_down > 0 && !is_leaf(id) => {
                Err(FilterError::NoLeaf { name, leaves: places(&is_leaf) })
            }
            Some(place) => Ok(place),
            None => {
                let site = self.site().unwrap_or_default().to_owned();
                Err(FilterError::NoPlace { name, site, there: places(&|_| true) })
            }
        }
    }
}

/// What the node of this channel says of the filter.
async fn describe(channel: Channel, name: String) -> Result<proto::DescribeFilterReply, tonic::Status> {
    let request = proto::DescribeFilterRequest { name };
    producer_client(channel).describe_filter(request).await.map(tonic::Response::into_inner)
}
