//! Determines which filters a backup would restore to a cluster, and which obstacles prevent the restore, such as a
//! filter of the same name that already exists. Every obstacle that the cluster map shows is reported with the name of
//! its filter before the first request is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use firstseen_filter::Window;
use firstseen_node::restoring_name;
use firstseen_routing::{Branch, ClusterMap, FilterId, FilterRecord};
use jiff::Timestamp;
use serde::Serialize;

use crate::cluster::backup::{Backup, has_parts};
use crate::exit::UsageError;
use crate::text::size::ByteSize;
use crate::text::table::Table;

/// The filters of a backup, as they will be in the cluster.
pub(super) struct Plan {
    /// A single filter, or the levels of a tree with the root first. Each filter has the list of sites that it is bound
    /// to.
    pub(super) trees: Vec<Vec<(FilterId, FilterRecord, Vec<String>)>>,
    filters: Vec<FilterDocument>,
    /// Filters that are not restored because the backup lacks them.
    left_out: Vec<String>,
    cluster: String,
    /// Address of a node of the target cluster.
    address: String,
    /// Start of the backup, in milliseconds since 1970.
    begun_ms: u64,
}

#[derive(Clone, Serialize)]
struct FilterDocument {
    name: String,
    kind: String,
    slices: u32,
    /// Number of slices whose cells are restored.
    contained_slices: u32,
    /// Number of these slices that had lost events when the backup was taken.
    incomplete_slices: u32,
    bytes: u64,
    /// Whether only the definition is restored, because nodes cannot send the cells of this kind.
    definition_only: bool,
    /// Whether the filter was being altered when the backup was taken. The backup then lacks the events that were
    /// recorded before the alteration.
    altered: bool,
    /// Whether events that are not in the backup are first-seen. Otherwise they are undecided for a while.
    decided: bool,
    /// Whether the filter is a level below a root. The setting of the root then applies.
    #[serde(skip)]
    is_below: bool,
    /// Whether the events of the filter expire at all.
    #[serde(skip)]
    expires: bool,
}

impl FilterDocument {
    /// Returns whether the backup contains every event that was recorded before it began.
    fn is_whole(&self) -> bool {
        self.contained_slices == self.slices && self.incomplete_slices == 0
    }
}

/// The JSON document. Its field names do not change between releases.
#[derive(Serialize)]
struct Document<'a> {
    folder: String,
    from_cluster: &'a str,
    /// Start of the backup, in milliseconds since 1970. The backup contains the events that were recorded before.
    begun_ms: u64,
    filters: &'a [FilterDocument],
    /// Filters that were being altered or restored when the backup was taken, and that it does not contain.
    left_out: &'a [String],
    /// Whether the filters are in the cluster now.
    done: bool,
}

/// Returns the levels of a tree with consecutive numbers of their parents, as a cluster gives them to a new tree. Places
/// that were added later have other numbers in the cluster of the backup.
fn numbered(mut tree: Vec<(FilterId, FilterRecord, Vec<String>)>) -> Vec<(FilterId, FilterRecord, Vec<String>)> {
    let former: Vec<FilterId> = tree.iter().map(|(id, ..)| *id).collect();
    for branch in tree.iter_mut().filter_map(|(_, record, _)| record.branch.as_mut()) {
        let index = branch.parent.and_then(|parent| former.iter().position(|id| *id == parent));
        branch.parent = index.map(|index| FilterId(branch.root.0 + index as u64));
    }
    tree
}

impl Plan {
    /// Plans the restore of `backup` to the cluster with the cluster map `map`, one of whose nodes has the address
    /// `address`.
    ///
    /// The restored filters do not contain the events that were recorded after the backup began. By default, they
    /// report such an event as first-seen. If `undecided` is set, they report it as undecided instead.
    ///
    /// # Errors
    /// Returns a [`UsageError`] if the names of filters are already in use, or if there are no nodes for a filter.
    pub(super) fn new(backup: &Backup, map: &ClusterMap, address: &str, undecided: bool) -> anyhow::Result<Self> {
        let former = &backup.metadata.map;
        check_names(former, map, address)?;
        let mut trees: BTreeMap<FilterId, Vec<_>> = BTreeMap::new();
        let mut filters = Vec::new();
        for (filter, record) in &former.filters {
            let root = record.branch.as_ref().map_or(*filter, |branch| branch.root);
            let sites = sites(former, record);
            check(record, &sites, map)?;
            trees.entry(root).or_default().push((*filter, record.clone(), sites));
            filters.push((root, document(backup, *filter, record)));
        }
        let lacking: BTreeSet<FilterId> =
            filters.iter().filter(|(_, document)| !document.is_whole()).map(|(root, _)| *root).collect();
        let filters = filters
            .into_iter()
            .map(|(root, document)| FilterDocument { decided: !undecided && !lacking.contains(&root), ..document });
        Ok(Self {
            trees: trees.into_values().map(numbered).collect(),
            filters: filters.collect(),
            left_out: backup.metadata.left_out.clone(),
            cluster: backup.manifest.cluster.clone(),
            address: address.to_owned(),
            begun_ms: backup.manifest.begun_ms,
        })
    }

    /// Returns the filters whose missing events are given up. For a tree, only the root is returned, whose setting
    /// applies to all levels.
    pub(super) fn decided(&self) -> impl Iterator<Item = &str> {
        self.filters.iter().filter(|filter| filter.decided && !filter.is_below).map(|filter| filter.name.as_str())
    }

    /// Returns the command after which a filter no longer waits for its missing events.
    pub(super) fn forgive(&self, name: &str) -> String {
        format!("firstseen filter forgive {name} --cluster {}", self.address)
    }

    /// Returns the question that an operator must confirm.
    pub(super) fn question(&self, cluster: &str) -> String {
        let made = format!("{} made in cluster {cluster}", self.filters_are());
        match self.decided().next() {
            None => made,
            Some(_) => format!("{made}, and what was recorded since {} is given up", self.begun()),
        }
    }

    fn begun(&self) -> String {
        let time = i64::try_from(self.begun_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        time.map_or_else(|| format!("{} ms", self.begun_ms), |time| format!("{time:.0}"))
    }

    /// Returns the number of filters.
    pub(super) fn filters(&self) -> usize {
        self.filters.len()
    }

    fn filters_are(&self) -> String {
        match self.filters() {
            1 => "1 filter is".to_owned(),
            filters => format!("{filters} filters are"),
        }
    }

    /// Returns one warning for each filter that the backup lacks.
    pub(super) fn lacking(&self) -> impl Iterator<Item = String> {
        let left_out = self.left_out.iter().map(|name| {
            format!(
                "filter {name} is not in this backup, as it was being altered or restored when that was taken: restore it from \
                 another one, or create it anew"
            )
        });
        let altered = self.filters.iter().filter(|filter| filter.altered).map(|FilterDocument { name, .. }| {
            format!(
                "filter {name} is in this backup without what was recorded before it was altered, as that was under way when the \
                 backup was taken"
            )
        });
        left_out.chain(altered)
    }

    /// Returns the plan as a table.
    pub(super) fn text(&self, folder: &Path) -> String {
        let mut table = Table::new(&["filter", "kind", "slices", "with their cells", "bytes", "what is not in it"]);
        for filter in &self.filters {
            let FilterDocument {
                name,
                kind,
                slices,
                contained_slices,
                incomplete_slices,
                bytes,
                definition_only,
                altered,
                decided,
                ..
            } = filter.clone();
            let mut contained = if definition_only {
                "none: definition and secret only".to_owned()
            } else {
                contained_slices.to_string()
            };
            if altered {
                contained += ", since it was altered";
            } else if incomplete_slices > 0 {
                contained += &format!(", {incomplete_slices} of which lacked something");
            }
            let rest = if decided { "first-seen" } else { "undecided" };
            table.row([name, kind, slices.to_string(), contained, ByteSize(bytes).to_string(), rest.to_owned()]);
        }
        for name in &self.left_out {
            let none = String::new;
            table.row([name.clone(), none(), none(), "left out: it does not come back".to_owned(), none(), none()]);
        }
        let folder = folder.display();
        let cluster = &self.cluster;
        let altered = self.filters.iter().filter(|filter| filter.altered).count();
        let whole = match (self.left_out.len(), altered) {
            (0, 0) => "is whole".to_owned(),
            (0, 1) => "lacks a part of a filter, and nothing is damaged".to_owned(),
            (0, altered) => format!("lacks parts of {altered} filters, and nothing is damaged"),
            (1, _) => "lacks a filter, of the others nothing is damaged".to_owned(),
            (lacking, _) => format!("lacks {lacking} filters, of the others nothing is damaged"),
        };
        format!(
            "backup {folder} of cluster {cluster} {whole}; it was begun {}; from it come:\n{}",
            self.begun(),
            table.text()
        )
    }

    /// Returns what an operator must know after the restore.
    pub(super) fn afterwards(&self) -> String {
        let mut text = format!("{} restored\n", self.filters_are());
        let begun = self.begun();
        let decided: Vec<&str> = self.decided().collect();
        if !decided.is_empty() {
            // The sentence does not apply to filters with missing events that are still waited for.
            let all = self.filters.iter().all(|filter| filter.decided);
            let of = if all { String::new() } else { format!("of {}, ", decided.join(", ")) };
            text += &format!(
                "{of}what was recorded before {begun} counts; what was recorded since is lost, and may be first-seen again\n"
            );
        }
        for FilterDocument { name, decided, is_below, expires, .. } in &self.filters {
            if !decided && !is_below {
                let until = if *expires {
                    "until all that may be missing has expired; or give it up"
                } else {
                    "until you give it up, as nothing expires"
                };
                let forgive = self.forgive(name);
                text += &format!("filter {name}: what is not in the backup is undecided {until}:\n  {forgive}\n");
            }
        }
        text
    }

    /// Returns the plan as one JSON document.
    pub(super) fn json(&self, folder: &Path, done: bool) -> anyhow::Result<String> {
        let document = Document {
            folder: folder.display().to_string(),
            from_cluster: &self.cluster,
            begun_ms: self.begun_ms,
            filters: &self.filters,
            left_out: &self.left_out,
            done,
        };
        Ok(serde_json::to_string_pretty(&document)?)
    }
}

/// Checks that the names of a backup's filters are not in use in the cluster of `map`.
fn check_names(former: &ClusterMap, map: &ClusterMap, address: &str) -> Result<(), UsageError> {
    let mut against = Vec::new();
    let names = former.filters.values().map(|record| record.name.as_str());
    let taken = names.filter(|name| map.filter_named(name).is_some()).collect::<Vec<_>>().join(", ");
    if !taken.is_empty() {
        against.push(format!(
            "the cluster has filters of these names already: {taken}. Restore to another cluster, or drop them first"
        ));
    }
    // The levels of a tree are dropped together with their root, so checking roots is enough.
    let roots = former.filters.values().filter(|record| record.branch.as_ref().is_none_or(Branch::is_root));
    let left = roots.map(|record| restoring_name(&record.name)).filter(|name| map.filter_named(name).is_some());
    let drops = left.map(|name| format!("\n  firstseen filter drop {name} --cluster {address}")).collect::<String>();
    if !drops.is_empty() {
        against.push(format!(
            "the cluster has filters that wait for their cells: an earlier restore was broken off, or another is under way. \
             If none is, drop them first:{drops}"
        ));
    }
    if against.is_empty() { Ok(()) } else { Err(UsageError(against.join("\n"))) }
}

/// Returns the sites of a level of a tree when the backup was taken. The result is empty for other filters, which may
/// be anywhere.
fn sites(map: &ClusterMap, record: &FilterRecord) -> Vec<String> {
    if record.branch.is_none() {
        return Vec::new();
    }
    let nodes = record.all_copies().filter_map(|(_, copy)| map.nodes.get(&copy.node));
    nodes.map(|node| node.site.clone()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Checks that there are nodes for a filter.
fn check(record: &FilterRecord, sites: &[String], map: &ClusterMap) -> anyhow::Result<()> {
    let usable = map
        .nodes
        .values()
        .filter(|node| node.incarnation.0 > 0 && !node.is_down && (sites.is_empty() || sites.contains(&node.site)));
    let nodes = usable.count();
    let wanted = record.policies.copies as usize + 1;
    if nodes >= wanted {
        return Ok(());
    }
    let at = if sites.is_empty() { String::new() } else { format!(" at {}", sites.join(", ")) };
    let name = &record.name;
    Err(UsageError(format!("filter {name} needs {wanted} nodes{at}, and {nodes} are there: let more join first"))
        .into())
}

fn document(backup: &Backup, filter: FilterId, record: &FilterRecord) -> FilterDocument {
    let slices = record.owners.len() as u32;
    let files = (0..slices).filter_map(|slice| backup.cells_of(filter.0, slice)).map(|(_, entry)| entry);
    let mut contained_slices = 0;
    let mut incomplete_slices = 0;
    let mut bytes = 0;
    for entry in files {
        contained_slices += 1;
        incomplete_slices += u32::from(!entry.slice.is_some_and(|slice| slice.complete));
        bytes += entry.bytes;
    }
    FilterDocument {
        name: record.name.clone(),
        kind: record.definition.group.cells.kind().to_string(),
        slices,
        contained_slices,
        incomplete_slices,
        bytes,
        definition_only: !has_parts(record),
        altered: backup.metadata.altered.contains(&filter),
        decided: false,
        is_below: record.branch.as_ref().is_some_and(|branch| !branch.is_root()),
        expires: record.definition.group.window != Window::Unbounded,
    }
}
