//! The state that commands change: the map, the secrets, and what the newest commands have done.
//!
//! Promises: a function of the commands before, the same on every node; numbers of nodes and filters are never given
//! twice; a command that comes again within [`OUTCOMES_MAX`] commands is answered as the first time and changes
//! nothing; no node is given more cells than it has memory for. Must not know: openraft, disks, the network, clocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use firstseen_routing::{ClusterId, ClusterMap, FilterId, Format, Incarnation, NodeId, NodeRecord, SecretMaterial};
use firstseen_wire::limits::{NAME_TEXT_BYTES_MAX, NODES_MAX};
use serde::{Deserialize, Serialize};

use crate::codec::{self, CodecError};
use crate::command::{Change, Command, CommandId, NodeProfile, Outcome};
use crate::filters::CompleteReport;
use crate::node_start::NodeStart;
use crate::refusal::Refusal;
use crate::{access, alterations, filters, liveness, moves, restore, shares, slots};

/// Commands whose outcomes are remembered.
pub const OUTCOMES_MAX: usize = 4096;

/// Secrets by filter; never part of the map.
pub type Secrets = BTreeMap<FilterId, SecretMaterial>;

/// By node, the others that cannot reach it; never part of the map.
pub(crate) type Doubts = BTreeMap<NodeId, BTreeSet<NodeId>>;

/// Everything that is agreed on.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub(crate) map: Arc<ClusterMap>,
    pub(crate) secrets: Arc<Secrets>,
    next_node: u64,
    /// By node, the others that cannot reach it.
    pub(crate) doubts: Doubts,
    outcomes: VecDeque<(CommandId, Result<Outcome, Refusal>)>,
}

impl Default for State {
    fn default() -> Self {
        let map = ClusterMap { next_filter: FilterId(1), ..ClusterMap::default() };
        Self {
            map: Arc::new(map),
            secrets: Arc::default(),
            next_node: 1,
            doubts: Doubts::default(),
            outcomes: VecDeque::new(),
        }
    }
}

/// The parts of a snapshot. The map travels as JSON, as definitions do (see [`crate::command::NewFilter`]).
#[derive(Serialize, Deserialize)]
struct Parts {
    map_json: String,
    secrets: Secrets,
    next_node: u64,
    doubts: Doubts,
    outcomes: VecDeque<(CommandId, Result<Outcome, Refusal>)>,
}

impl State {
    /// The map.
    pub fn map(&self) -> &Arc<ClusterMap> {
        &self.map
    }

    /// The secrets.
    pub fn secrets(&self) -> &Arc<Secrets> {
        &self.secrets
    }

    /// Whether `node` was in the cluster and has left, or its number was passed over. It is never a member again.
    pub fn has_left(&self, node: NodeId) -> bool {
        node.0 < self.next_node && !self.map.nodes.contains_key(&node)
    }

    /// Whether the command of this id was done lately.
    pub(crate) fn remembers(&self, id: CommandId) -> bool {
        self.outcomes.iter().any(|(done, _)| *done == id)
    }

    /// Does `command`, the entry `index` of the log.
    ///
    /// # Errors
    /// [`Refusal`]: nothing has changed, except that the refusal is remembered.
    pub fn apply(&mut self, index: u64, command: Command) -> Result<Outcome, Refusal> {
        if let Some((_, outcome)) = self.outcomes.iter().find(|(id, _)| *id == command.id) {
            return outcome.clone();
        }
        let (before, secrets_before) = (Arc::clone(&self.map), Arc::clone(&self.secrets));
        let may_take_more = shares::may_take_more(&command.change);
        let mut outcome = self.change(command.change);
        if may_take_more && let Err(refused) = shares::check(&before, &self.map) {
            (self.map, self.secrets) = (Arc::clone(&before), secrets_before);
            outcome = Err(refused);
        }
        if !Arc::ptr_eq(&before, &self.map) {
            let map = Arc::make_mut(&mut self.map);
            map.version = index;
            alterations::settle(map);
            liveness::open_gaps_beside_complete(map);
            liveness::raise_epochs_since(&before, map);
            alterations::ask_again(&before, map);
        }
        self.outcomes.push_back((command.id, outcome.clone()));
        if self.outcomes.len() > OUTCOMES_MAX {
            self.outcomes.pop_front();
        }
        outcome
    }

    /// The bytes of the whole state.
    ///
    /// # Errors
    /// [`CodecError`] where it is too large.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        let parts = Parts {
            map_json: serde_json::to_string(&*self.map).map_err(|error| CodecError::Malformed(error.to_string()))?,
            secrets: (*self.secrets).clone(),
            next_node: self.next_node,
            doubts: self.doubts.clone(),
            outcomes: self.outcomes.clone(),
        };
        codec::encode_as(self.map.format.0, &parts)
    }

    /// The state that `bytes` encode.
    ///
    /// # Errors
    /// [`CodecError`]: what is wrong with the bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        let parts: Parts = codec::decode(bytes)?;
        let map: ClusterMap =
            serde_json::from_str(&parts.map_json).map_err(|error| CodecError::Malformed(error.to_string()))?;
        Ok(Self {
            map: Arc::new(map),
            secrets: Arc::new(parts.secrets),
            next_node: parts.next_node,
            doubts: parts.doubts,
            outcomes: parts.outcomes,
        })
    }

    /// Passes over the next so many numbers of nodes, which others may have given.
    pub(crate) fn pass_numbers(&mut self, numbers: u64) {
        self.next_node = self.next_node.saturating_add(numbers);
    }

    fn change(&mut self, change: Change) -> Result<Outcome, Refusal> {
        if self.map.nodes.is_empty() && !matches!(change, Change::FoundCluster { .. } | Change::FoundAs { .. }) {
            return Err(Refusal::NotFounded);
        }
        match change {
            Change::FoundCluster { cluster, profile } => self.found(cluster, profile, Format::FIRST),
            Change::FoundAs { cluster, profile, format } => self.found(cluster, profile, format),
            Change::Raise { format } => {
                if self.map.format < format {
                    Arc::make_mut(&mut self.map).format = format;
                }
                Ok(Outcome::Done)
            }
            Change::AddNode { profile } => self.add_node(profile),
            Change::NodeStarted { node, address, site, memory_bytes } => {
                self.node_started(node, address, site, memory_bytes)
            }
            Change::SetVoter { node, voter } => self.set_voter(node, voter),
            Change::RemoveNode { node } => self.remove_node(node),
            Change::CreateFilter(asked) => filters::create(self, asked),
            Change::DropFilter { name } => filters::drop_named(self, &name),
            Change::OpenGeneration { filter, group, number } => filters::open_generation(self, filter, group, number),
            Change::SlicesComplete { filter, group, slices, epoch, node, incarnation } => {
                let report = CompleteReport { filter, group, slices: &slices, epoch };
                filters::slices_complete(self, &report, NodeStart { node, incarnation })
            }
            Change::SlicesMissing { filter, group, node, incarnation } => {
                filters::slices_missing(self, filter, group, NodeStart { node, incarnation })
            }
            Change::SlicesSpared { filter, group, node, incarnation } => {
                filters::slices_spared(self, filter, group, NodeStart { node, incarnation })
            }
            Change::MoveSlices { filter, moves } => moves::begin(self, filter, &moves),
            Change::CancelMoves { name } => moves::cancel(self, &name),
            Change::PeerReached { by, by_incarnation, peer, peer_incarnation, is_reached } => {
                let seer = NodeStart { node: by, incarnation: by_incarnation };
                let seen = NodeStart { node: peer, incarnation: peer_incarnation };
                liveness::peer_reached(self, seer, seen, is_reached)
            }
            Change::ForgiveFilter { name, ended } => filters::forgive(self, &name, &ended),
            Change::RestoreFilter(asked) => restore::begin(self, asked),
            Change::FinishRestore { filter } => restore::finish(self, filter),
            Change::AlterFilter(asked) => alterations::alter(self, asked),
            Change::FilterEnded { filter, node, incarnation, newest_unit } => {
                alterations::ended(self, filter, NodeStart { node, incarnation }, newest_unit)
            }
            Change::FilterPassed { filter, node, incarnation } => {
                alterations::passed(self, filter, NodeStart { node, incarnation })
            }
            Change::FinishAlteration { name } => alterations::finish(self, &name),
            Change::Access(change) => access::change(&mut self.map, change),
            Change::By { change, .. } => match change.into_change() {
                Change::By { .. } => Err(Refusal::AskedTwice),
                change => self.change(change),
            },
        }
    }

    fn found(&mut self, cluster: ClusterId, profile: NodeProfile, format: Format) -> Result<Outcome, Refusal> {
        if !self.map.nodes.is_empty() {
            return Err(Refusal::Founded);
        }
        let outcome = self.add_node(profile)?;
        let map = Arc::make_mut(&mut self.map);
        (map.cluster, map.format) = (cluster, format);
        map.nodes.values_mut().for_each(|record| record.voter = true);
        Ok(outcome)
    }

    fn add_node(&mut self, profile: NodeProfile) -> Result<Outcome, Refusal> {
        let NodeProfile { name, site, address, memory_bytes } = profile;
        check_text("the name of a node", &name)?;
        check_text("a site", &site)?;
        check_text("an address", &address)?;
        if let Some((node, _)) = self.map.node_named(&name) {
            return Err(Refusal::NameTaken { name, node });
        }
        self.check_address(&address, None)?;
        if self.map.nodes.len() >= NODES_MAX {
            return Err(Refusal::Full { what: "nodes".to_owned(), most: NODES_MAX as u64 });
        }
        let node = NodeId(slots::number_for(self.next_node, &self.map.nodes));
        self.next_node = node.0 + 1;
        let record = NodeRecord {
            name,
            site,
            address,
            incarnation: Incarnation::default(),
            memory_bytes,
            voter: false,
            is_down: false,
        };
        Arc::make_mut(&mut self.map).nodes.insert(node, record);
        Ok(Outcome::NodeAdded(node))
    }

    fn check_address(&self, address: &str, except: Option<NodeId>) -> Result<(), Refusal> {
        let mut others = self.map.nodes.iter().filter(|(node, _)| Some(**node) != except);
        match others.find(|(_, record)| record.address == address) {
            Some((node, _)) => Err(Refusal::AddressTaken { address: address.to_owned(), node: *node }),
            None => Ok(()),
        }
    }

    fn node_started(
        &mut self,
        node: NodeId,
        address: String,
        site: String,
        memory_bytes: u64,
    ) -> Result<Outcome, Refusal> {
        check_text("a site", &site)?;
        check_text("an address", &address)?;
        self.check_address(&address, Some(node))?;
        let record = self.node_mut(node)?;
        let incarnation = Incarnation(record.incarnation.0 + 1);
        record.incarnation = incarnation;
        (record.address, record.site, record.memory_bytes) = (address, site, memory_bytes);
        liveness::started(self, node);
        Ok(Outcome::NodeStarted(incarnation))
    }

    fn set_voter(&mut self, node: NodeId, voter: bool) -> Result<Outcome, Refusal> {
        if self.map.nodes.get(&node).is_none_or(|record| record.voter != voter) {
            self.node_mut(node)?.voter = voter;
        }
        Ok(Outcome::Done)
    }

    fn remove_node(&mut self, node: NodeId) -> Result<Outcome, Refusal> {
        if !self.map.nodes.contains_key(&node) {
            return Err(Refusal::NodeUnknown { node });
        }
        if self.map.nodes.len() == 1 {
            return Err(Refusal::LastNode { node });
        }
        let owns = self.map.filters.values().filter(|filter| filter.is_on(node));
        let filters: Vec<String> = owns.map(|filter| filter.name.clone()).collect();
        if !filters.is_empty() {
            return Err(Refusal::NodeOwnsSlices { node, filters });
        }
        Arc::make_mut(&mut self.map).nodes.remove(&node);
        liveness::left(self, node);
        Ok(Outcome::Done)
    }

    /// The record of a living node, to be changed.
    fn node_mut(&mut self, node: NodeId) -> Result<&mut NodeRecord, Refusal> {
        if !self.map.nodes.contains_key(&node) {
            return Err(Refusal::NodeUnknown { node });
        }
        Arc::make_mut(&mut self.map).nodes.get_mut(&node).ok_or(Refusal::NodeUnknown { node })
    }
}

/// Checks a name or an address: short, and of characters that show.
pub(crate) fn check_text(what: &str, text: &str) -> Result<(), Refusal> {
    let rule = match text {
        "" => "give one",
        text if text.len() > NAME_TEXT_BYTES_MAX => "it is too long",
        text if text.chars().any(char::is_control) => "it must not contain control characters",
        _ => return Ok(()),
    };
    let value = text.chars().filter(|letter| !letter.is_control()).take(40).collect();
    Err(Refusal::Text { what: what.to_owned(), value, rule: rule.to_owned() })
}

#[cfg(test)]
pub(crate) mod tests;
