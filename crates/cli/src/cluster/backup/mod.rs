//! Implements `firstseen cluster backup`, which writes everything that a cluster knows to a folder.
//!
//! # Guarantees
//!
//! - The cluster continues during the backup, and a node sends a bounded amount of data at a time.
//! - The backup counts as complete only when all of its files are on the disk.
//! - The command names each filter and slice that the backup lacks.
//!
//! This module does not depend on the meaning of cells.

mod cells;
mod folder;
mod metadata;
mod sources;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use firstseen_filter::GenerationNumber;
use firstseen_node::is_restoring;
use firstseen_routing::check::check_copies;
use firstseen_routing::{ClusterMap, FilterId, FilterRecord};
use serde::Serialize;

use super::identified::owed_events;
use super::{NodeArgs, status};
use crate::cluster::connect::Operator;
use crate::exit::INTERRUPTED;
use crate::terminal::progress::Progress;
use crate::terminal::signals::Signals;
use crate::text::size::ByteSize;
use crate::text::table::Table;
pub(super) use cells::pieces;
pub(super) use folder::Backup;
use folder::{FileEntry, NewFolder, SliceEntry};
pub(super) use metadata::Metadata;
use sources::Sources;

/// Exit code of a backup that is complete except for filters that the command names.
const NOT_WHOLE: u8 = 3;

/// Flags of `firstseen cluster backup`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 0: the backup contains all filters; 3: it lacks filters that are being restored, or events \
                  that filters had recorded before an alteration in progress, and names these filters; other codes: \
                  there is no backup."
)]
pub struct BackupArgs {
    /// Any node of the cluster.
    #[command(flatten)]
    pub member: NodeArgs,
    /// Folder to create; it will contain the secrets of the filters
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Leave out slices that no node can send, for example because nodes are lost, instead of failing. The exit code is
    /// then 0 even if filters are being altered or restored
    #[arg(long)]
    pub allow_missing: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The JSON document. Its field names do not change between releases.
#[derive(Serialize)]
struct Document {
    folder: String,
    cluster: String,
    bytes: u64,
    filters: Vec<FilterDocument>,
    /// Filters that were being restored, which the backup does not contain.
    left_out: Vec<String>,
    /// Number of events that sites had decided alone and not reported when the backup began or ended, whichever is more.
    /// They may be missing at the roots of the trees in the backup. `null` means that a node did not say.
    owed_events: Option<u64>,
}

impl Document {
    /// Returns a line about events that sites have decided alone, if there may be any, and what to do.
    fn owed(&self) -> Option<String> {
        let what = match self.owed_events {
            Some(0) => return None,
            Some(events) => {
                format!("{events} events that sites had decided alone may be missing at the roots of trees")
            }
            None => "a node did not say whether sites have decided events alone that are missing at the roots of trees"
                .to_owned(),
        };
        Some(format!(
            "{what} in this backup, so that other sites could pass them again after a restore: take another one when all \
             sites can be reached and have reported (firstseen top shows what is left)"
        ))
    }

    /// Returns one line for each filter that is not completely in the backup, and what to do.
    fn lacking(&self) -> impl Iterator<Item = String> {
        let altered = self.filters.iter().filter(|filter| filter.altered).map(|FilterDocument { name, .. }| {
            format!(
                "filter {name} is in this backup without what was recorded before it was altered: take another one when the \
                 alteration is over (firstseen filter describe {name} says until when the former filter is there)"
            )
        });
        let left_out = self.left_out.iter().map(|name| {
            format!("filter {name} is not in this backup, as it is being restored: take another one when that is over")
        });
        altered.chain(left_out)
    }
}

#[derive(Serialize)]
struct FilterDocument {
    name: String,
    kind: String,
    slices: u32,
    /// Number of slices whose cells are in the backup. The other slices are lost, or their cells cannot be copied.
    contained_slices: u32,
    /// Number of contained slices that have lost events, or may have.
    incomplete_slices: u32,
    /// Whether only the definition and the secret are in the backup, because nodes cannot send the cells of this kind.
    definition_only: bool,
    /// Whether the filter is being altered. The backup then lacks the content of the predecessor, and all slices count
    /// as incomplete.
    altered: bool,
}

/// Takes a backup.
pub(super) async fn run(args: &BackupArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let member = args.member.operator()?;
    let mut signals = Signals::new()?;
    let folder = NewFolder::create(&args.out)?;
    let progress = &mut None;
    let taken = tokio::select! {
        biased;
        signal = signals.next() => Err(signal),
        taken = take(&member, &folder, args, progress) => Ok(taken),
    };
    if let Some(progress) = progress {
        progress.end();
    }
    match taken {
        Ok(Ok(document)) => {
            if args.json {
                writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?
            } else {
                out.write_all(text(&document).as_bytes())?
            }
            let lacking: Vec<String> = document.lacking().collect();
            lacking.iter().for_each(|what| notice!("firstseen: {what}"));
            document.owed().iter().for_each(|owed| notice!("firstseen: {owed}"));
            let is_whole = lacking.is_empty() || args.allow_missing;
            Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(NOT_WHOLE) })
        }
        Ok(Err(error)) => {
            folder.remove();
            Err(error)
        }
        Err(signal) => {
            folder.remove();
            notice!("firstseen: {signal}: there is no backup, and what was written of it is removed");
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

async fn take(
    member: &Operator,
    folder: &NewFolder,
    args: &BackupArgs,
    progress: &mut Option<Progress>,
) -> anyhow::Result<Document> {
    let begun_ms = now_ms();
    let mut map = status::ask(member).await?.map;
    let altered = remove_predecessors(&mut map);
    let left_out = leave_out(&mut map);
    let secrets = metadata::secrets(member, &map).await?;
    let total_bytes = map.filters.values().map(|record| cells_bytes(record) * record.owners.len() as u64).sum();
    let progress = &*progress.insert(Progress::new(Some(total_bytes), false));
    let mut sources = Sources::new(member, map.clone(), args.allow_missing);
    let owed_before = owed_events(member, &map).await;
    let mut files = Vec::new();
    let mut generations = Vec::new();
    let mut filters = Vec::new();
    let mut done_bytes = 0;
    for (filter, record) in &map.filters {
        let mut document = FilterDocument { altered: altered.contains(filter), ..FilterDocument::of(record) };
        let mut newest = vec![GenerationNumber::FIRST; record.definition.slicing.groups() as usize];
        let slices = if document.definition_only { 0 } else { document.slices };
        for slice in 0..slices {
            let name = record.name.as_str();
            let bytes = cells_bytes(record);
            let copied = sources.copy(*filter, slice, folder, |place_bytes| {
                progress.at(done_bytes + place_bytes.min(bytes), || format!("{name} {slice}"));
            });
            if let Some(copied) = copied.await? {
                let group = record.definition.slicing.group_of(slice) as usize;
                newest[group] = copied.newest_generation.max(newest[group]);
                // The predecessor has events that this filter lacks, even if all its own slices are complete.
                let complete = copied.complete && !document.altered;
                document.count(complete);
                let slice = SliceEntry { filter: filter.0, slice, complete };
                files.push(FileEntry { slice: Some(slice), ..copied.file });
            }
            done_bytes += bytes;
        }
        generations.push((*filter, newest));
        filters.push(document);
    }
    let metadata = Metadata { map: with_generations(map, generations), secrets, left_out, altered };
    files.push(folder.write_metadata(&metadata)?);
    let cluster = metadata.map.cluster.to_string();
    let bytes = folder.finish(&cluster, begun_ms, now_ms(), files)?;
    // Sites may decide further events alone while the cells are read.
    let owed_after = owed_events(member, &metadata.map).await;
    let owed_events = owed_before.zip(owed_after).map(|(before, after)| before.max(after));
    let folder = args.out.display().to_string();
    Ok(Document { folder, cluster, bytes, filters, left_out: metadata.left_out, owed_events })
}

/// Removes the predecessors of filters that are being altered from the map of the backup, and returns the numbers of
/// the altered filters.
///
/// A predecessor has the same name as the filter that replaces it, and lookups still ask it for older events. A backup
/// can contain only one filter of each name, so it contains only the new filter. The restored filter then lacks the
/// events of its predecessor, and counts them as lost.
fn remove_predecessors(map: &mut ClusterMap) -> BTreeSet<FilterId> {
    let lines: Vec<_> = map.filters.keys().filter_map(|id| Some((*id, map.former_of(*id)?.0))).collect();
    for (_, former) in &lines {
        map.filters.remove(former);
    }
    lines.into_iter().map(|(follower, _)| follower).collect()
}

/// Removes filters that are being restored, because they are not complete yet. Returns their names.
fn leave_out(map: &mut ClusterMap) -> Vec<String> {
    map.filters.extract_if(.., |_, record| is_restoring(&record.name)).map(|(_, record)| record.name).collect()
}

/// Corrects the generation numbers in the cluster map of the backup. A generation is a set of cells that a slice opens
/// when its previous set is full, and the map contains the number of the newest generation of each slice.
///
/// The backup reads the map before it reads the cells. If a slice opens a new generation between these two steps, the
/// number in the map is smaller than the number that was sent with the cells. The function then replaces the number in
/// the map with the greater one.
///
/// `sent` lists the filters. For each filter, it contains the number of the newest generation of each slice, as it was
/// sent with the cells.
fn with_generations(mut map: ClusterMap, sent: Vec<(FilterId, Vec<GenerationNumber>)>) -> ClusterMap {
    for (filter, newest) in sent {
        let Some(record) = map.filters.get_mut(&filter).filter(|record| record.has_flights()) else { continue };
        if newest.iter().any(|newest| *newest > GenerationNumber::FIRST) {
            record.generations.resize(newest.len(), GenerationNumber::FIRST);
            record.generations.iter_mut().zip(newest).for_each(|(known, sent)| *known = sent.max(*known));
        }
    }
    map
}

impl FilterDocument {
    fn of(record: &FilterRecord) -> Self {
        Self {
            name: record.name.clone(),
            kind: record.definition.group.cells.kind().to_string(),
            slices: record.owners.len() as u32,
            contained_slices: 0,
            incomplete_slices: 0,
            definition_only: !has_parts(record),
            altered: false,
        }
    }

    fn count(&mut self, is_complete: bool) {
        self.contained_slices += 1;
        self.incomplete_slices += u32::from(!is_complete);
    }
}

/// Returns whether nodes can send the cells of this filter's slices.
pub(super) fn has_parts(record: &FilterRecord) -> bool {
    check_copies(&record.definition, 1).is_ok()
}

/// Returns the size in bytes of one generation of one slice, which is the largest amount that a node must send.
fn cells_bytes(record: &FilterRecord) -> u64 {
    let geometry = record.definition.slice().ok().and_then(|slice| slice.cells.geometry().copied());
    geometry.map_or(0, |geometry| geometry.bytes())
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn text(document: &Document) -> String {
    let mut table = Table::new(&["filter", "kind", "slices", "in the backup"]);
    for filter in &document.filters {
        let FilterDocument { name, kind, slices, contained_slices, incomplete_slices, definition_only, altered } =
            filter;
        let mut contained = if *definition_only {
            "definition and secret only: cells of this kind cannot be copied".to_owned()
        } else {
            contained_slices.to_string()
        };
        if *altered {
            contained += ", without what was recorded before it was altered";
        } else if *incomplete_slices > 0 {
            contained += &format!(", {incomplete_slices} of which may lack something");
        }
        if !definition_only && contained_slices < slices {
            contained += &format!("; {} are lost", slices - contained_slices);
        }
        table.row([name.clone(), kind.clone(), slices.to_string(), contained]);
    }
    for name in &document.left_out {
        table.row([name.clone(), String::new(), String::new(), "left out: it is being restored".to_owned()]);
    }
    format!(
        "{}{} in {}, of {} filter{}; it holds their secrets: keep it as you keep keys\n",
        table.text(),
        ByteSize(document.bytes),
        document.folder,
        document.filters.len(),
        if document.filters.len() == 1 { "" } else { "s" }
    )
}
