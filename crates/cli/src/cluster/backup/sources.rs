//! Chooses the node from which a backup reads the cells of a slice. If the slice has several copies, a node with a
//! complete copy is preferred. A node with an incomplete copy is used only if no other node sends the cells.
//!
//! The backup marks a slice as complete only if every message from the sending node has confirmed that its copy is
//! complete.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use firstseen_filter::{GenerationNumber, UnitNumber};
use firstseen_routing::{AskCells, ClusterMap, FilterId, FilterRecord, NodeId, SliceOwner};
use firstseen_wire::cells::{CellsOf, encode_ask};
use firstseen_wire::proto::peer;
use tokio::sync::mpsc;
use tokio::time::Duration;

use super::cells::{self, Header};
use super::folder::{FileEntry, NewFolder};
use super::status;
use crate::cluster::connect::Operator;

/// How long a node may take to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);

/// Maximum number of attempts to read the cells of a slice. An attempt can fail because the slice moves to another node
/// while its cells are read. The cluster map is therefore read again before each further attempt.
const ROUNDS: usize = 3;

/// The nodes of a cluster as sources of cells.
pub(super) struct Sources {
    member: Operator,
    map: ClusterMap,
    allow_missing: bool,
    nodes: BTreeMap<NodeId, Operator>,
    /// Nodes that could not be reached, each with the error.
    silent: BTreeMap<NodeId, String>,
}

/// A slice that was copied to a file.
pub(super) struct Copied {
    /// The file.
    pub(super) file: FileEntry,
    /// Whether the slice has every event that was ever recorded in it.
    pub(super) complete: bool,
    /// Greatest number of a generation in the copy.
    pub(super) newest_generation: GenerationNumber,
}

/// Why a copy of a slice could not be written to a file.
enum Failed {
    /// The node does not send the copy. Another node may send it.
    Node(anyhow::Error),
    /// Writing to the disk of this machine failed.
    Disk(anyhow::Error),
}

impl Sources {
    pub(super) fn new(member: &Operator, map: ClusterMap, allow_missing: bool) -> Self {
        let nodes = BTreeMap::new();
        let silent = BTreeMap::new();
        Self { member: member.clone(), map, allow_missing, nodes, silent }
    }

    /// Reads the cells of a slice from a node, and writes them to a file of the backup. The function calls `at` with
    /// the number of bytes that it has copied so far. Returns `None` if no node can send the cells and the user allows
    /// a backup without them (`--allow-missing`).
    ///
    /// # Errors
    /// Returns an error if no node can send the cells, or the errors of the disk.
    pub(super) async fn copy(
        &mut self,
        filter: FilterId,
        slice: u32,
        folder: &NewFolder,
        at: impl Fn(u64),
    ) -> anyhow::Result<Option<Copied>> {
        let mut found = None;
        let mut complaint = "all nodes that have it are down".to_owned();
        for round in 0..ROUNDS {
            if round > 0 {
                self.map = status::ask(&self.member).await?.map;
            }
            let Some(record) = self.map.filters.get(&filter).cloned() else {
                bail!("a filter was dropped while the backup was taken: take it again");
            };
            for node in self.candidates(&record, slice) {
                match self.fetch(filter, &record, slice, node, folder, &at).await {
                    Ok(copied) if copied.complete || !self.map.is_complete(&record, slice) => return Ok(Some(copied)),
                    Ok(copied) => found = Some(copied),
                    Err(Failed::Disk(error)) => return Err(error),
                    Err(Failed::Node(error)) => {
                        complaint = format!("{error:#}");
                        self.silent.insert(node, complaint.clone());
                        found = None;
                    }
                }
            }
            if found.is_some() {
                return Ok(found);
            }
            if self.allow_missing {
                break;
            }
        }
        let name = self.map.filters.get(&filter).map_or("?", |record| &record.name);
        if self.allow_missing {
            notice!("firstseen: slice {slice} of filter {name} is left out: {complaint}");
            Ok(None)
        } else {
            bail!(
                "slice {slice} of filter {name} cannot be read from any node: {complaint}. --allow-missing leaves out what is lost"
            )
        }
    }

    /// Returns the nodes that have a copy and are not down. Nodes with a complete copy come first.
    fn candidates(&self, record: &FilterRecord, slice: u32) -> Vec<NodeId> {
        let is_there =
            |copy: &&SliceOwner| !(self.map.is_gone(copy) || self.allow_missing && self.is_silent(copy.node));
        let mut copies: Vec<&SliceOwner> = record.copies_of(slice).filter(is_there).collect();
        copies.sort_by_key(|copy| (!self.map.is_complete_copy(copy), self.is_silent(copy.node)));
        copies.into_iter().map(|copy| copy.node).collect()
    }

    fn is_silent(&self, node: NodeId) -> bool {
        self.silent.contains_key(&node)
    }

    fn operator(&mut self, node: NodeId) -> Result<Operator, Failed> {
        let address = self.map.nodes.get(&node).map(|record| record.address.clone());
        let address = address.context("it is no member any more").map_err(Failed::Node)?;
        let Self { nodes, member, .. } = self;
        Ok(nodes.entry(node).or_insert_with(|| member.at(&address).within(REQUEST_TIMEOUT)).clone())
    }

    /// Requests one piece after another from a node, while a thread writes them.
    async fn fetch(
        &mut self,
        filter: FilterId,
        record: &FilterRecord,
        slice: u32,
        node: NodeId,
        folder: &NewFolder,
        at: impl Fn(u64),
    ) -> Result<Copied, Failed> {
        let operator = self.operator(node)?;
        let per_group = record.definition.slicing.slices_per_group().max(1);
        let of = CellsOf { filter, epoch: record.epoch, group: slice / per_group };
        let ask = AskCells { slice: slice % per_group, unit: UnitNumber::FIRST, from: None };
        let mut request = encode_ask(of, &ask);
        let header = Header { filter: filter.0, name: record.name.clone(), slice };
        let (sender, mut pieces) = cells::queue();
        let folder = folder.path().to_owned();
        let path = NewFolder::cells_path(filter.0, slice);
        let writing = tokio::task::spawn_blocking(move || {
            NewFolder::write(&folder, path, |sink| cells::write(sink, &header, &mut pieces))
        });
        let received = ask_all(&operator, &mut request, &sender, at).await;
        // Dropping the sender ends the thread, no matter what the node has sent.
        drop(sender);
        let file = writing.await.context("the thread that writes has ended").map_err(Failed::Disk)?;
        let file = file.map_err(Failed::Disk)?;
        let (complete, newest_generation) = received.map_err(Failed::Node)?;
        Ok(Copied { file, complete, newest_generation })
    }
}

/// Requests one piece after another. Returns whether all pieces belong to a complete slice, and the newest generation.
async fn ask_all(
    operator: &Operator,
    request: &mut peer::AskCells,
    pieces: &mpsc::Sender<peer::Cells>,
    at: impl Fn(u64),
) -> anyhow::Result<(bool, GenerationNumber)> {
    let mut complete = true;
    let mut newest_generation = GenerationNumber::FIRST;
    loop {
        let reply = operator.call(async |mut client| client.read_cells(*request).await).await?;
        let cells = reply.cells.context("the node sends nothing")?;
        complete &= reply.complete;
        newest_generation = newest_generation.max(newest_of(&cells));
        request.from = cells.next;
        at(cells.next.map_or(0, |next| next.start_bytes));
        // The receiver is dropped only when the thread has ended, which happens early only if the disk has failed.
        if pieces.send(cells).await.is_err() || request.from.is_none() {
            return Ok((complete, newest_generation));
        }
    }
}

/// Returns the number of the newest generation in a piece.
fn newest_of(cells: &peer::Cells) -> GenerationNumber {
    let newest =
        |outline: &peer::SliceOutline| outline.oldest.saturating_add((outline.live.len() as u64).saturating_sub(1));
    let outlined = cells.outline.as_ref().map(newest);
    let newest = cells.runs.iter().map(|run| run.generation).chain(outlined).max();
    newest.map_or(GenerationNumber::FIRST, GenerationNumber)
}
