//! Implements `firstseen filter place`, which adds places to filter trees and removes them.

use std::collections::BTreeSet;
use std::io::Write;

use clap::{Args, Subcommand};
use firstseen_routing::{
    Branch, ClusterMap, CutOff, FilterId, FilterRecord, PlaceSpec, Slicing, folded, place_slicing,
};
use firstseen_wire::proto::admin::{AddPlaceRequest, RemovePlaceRequest};
use firstseen_wire::tree::encode_place;

use super::{ClusterAddresses, agreed, find};
use crate::cluster;
use crate::cluster::connect::{Operator, fresh_id};
use crate::cluster::places;
use crate::exit::UsageError;
use crate::text::size::ByteSize;

/// Flags of `firstseen filter place`.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// The command to run.
    #[command(subcommand)]
    pub command: PlaceCommand,
}

/// The commands of `firstseen filter place`.
#[derive(Debug, Subcommand)]
pub enum PlaceCommand {
    /// Add a place to a tree, for example for a new site. The place has no events yet, and asks its parent about every
    /// event that it does not know
    Add(AddPlaceArgs),
    /// Remove a place from a tree, after its producers have stopped. The root still knows all of its events
    Remove(RemovePlaceArgs),
}

/// Flags of `firstseen filter place add`.
#[derive(Debug, Args)]
pub struct AddPlaceArgs {
    /// Name of the filter at the root of the tree
    pub filter: String,
    /// Name of the new place, which its producers give as their site (`firstseen dedup --site`)
    pub place: String,
    /// Place that the new place asks about events that it does not know. The default is the root
    #[arg(long, value_name = "PLACE")]
    pub parent: Option<String>,
    /// Make the place 2^N times smaller than the root. The default is the fold of the parent
    #[arg(long, value_name = "N")]
    pub fold: Option<u8>,
    /// Sites whose nodes own the slices of the place. The default is the site with the name of the place
    #[arg(long, value_name = "SITE,...", value_delimiter = ',')]
    pub sites: Vec<String>,
    /// Slicing of the place, with as many groups as the root. The default is one slice for each group
    #[arg(long, value_name = "SLICING")]
    pub slicing: Option<Slicing>,
    /// Flags that say how to connect to the cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
}

/// Flags of `firstseen filter place remove`.
#[derive(Debug, Args)]
pub struct RemovePlaceArgs {
    /// Name of the filter at the root of the tree
    pub filter: String,
    /// Name of the place
    pub place: String,
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
    /// Flags that say how to connect to the cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
}

/// Runs the command.
///
/// # Errors
/// Returns the errors of the cluster, or an error if the operator does not confirm.
pub(super) async fn run(args: &PlaceArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    match &args.command {
        PlaceCommand::Add(args) => add(args, &args.at.operator()?, out).await,
        PlaceCommand::Remove(args) => remove(args, &args.at.operator()?, out).await,
    }
}

async fn add(args: &AddPlaceArgs, operator: &Operator, out: &mut dyn Write) -> anyhow::Result<()> {
    let AddPlaceArgs { filter, place, parent, fold, sites, slicing, .. } = args;
    let map = cluster::status::ask(operator).await?.map;
    let (root, record) = find(&map, filter)?;
    let branch = branch_of_root(filter, record)?;
    let parent = parent.as_ref().unwrap_or(&branch.place);
    let fold = fold.unwrap_or_else(|| fold_at(&map, root, parent));
    let sites = if sites.is_empty() { vec![place.clone()] } else { sites.clone() };
    let definition = &record.definition;
    let slicing = slicing.unwrap_or_else(|| place_slicing(definition.slicing));
    let cells = folded(definition, fold, slicing).map_err(|refusal| UsageError(refusal.to_string()))?;
    let spec = PlaceSpec { name: place.clone(), parent: Some(parent.clone()), fold, slicing: Some(slicing), sites };
    let request =
        AddPlaceRequest { command_id: fresh_id().into(), filter: filter.clone(), place: Some(encode_place(&spec)) };
    operator.call(async |mut client| client.add_place(request.clone()).await).await?;
    writeln!(
        out,
        "added place {place}: up to {} of cells at {}; it asks {parent} about each event that it does not know yet",
        ByteSize(places::bytes(&cells)),
        spec.sites.join(", ")
    )?;
    if branch.cut_off == CutOff::Local {
        notice!(
            "firstseen: while place {place} is cut off, it decides alone, and can report events as first-seen that were \
             recorded elsewhere before it was added"
        );
    }
    print_places(operator, root, out).await
}

async fn remove(args: &RemovePlaceArgs, operator: &Operator, out: &mut dyn Write) -> anyhow::Result<()> {
    let RemovePlaceArgs { filter, place, yes, .. } = args;
    let map = cluster::status::ask(operator).await?.map;
    let (root, record) = find(&map, filter)?;
    branch_of_root(filter, record)?;
    let name = name_at(&map, root, place)?;
    agreed(
        *yes,
        &format!(
            "place `{place}` of `{filter}` would be removed. Stop its producers first: events that they still send are \
             undecided, and they must name another place. Its events stay known, because the root knows all of them, \
             unless the root has lost events that were given up (`filter forgive`, or a restore)"
        ),
    )?;
    let request = RemovePlaceRequest { command_id: fresh_id().into(), name };
    operator.call(async |mut client| client.remove_place(request.clone()).await).await?;
    writeln!(out, "removed place {place}")?;
    print_places(operator, root, out).await
}

async fn print_places(operator: &Operator, root: FilterId, out: &mut dyn Write) -> anyhow::Result<()> {
    let map = cluster::status::ask(operator).await?.map;
    Ok(out.write_all(places::table(&places::places(&map, root)).as_bytes())?)
}

/// Returns the branch of a filter at the root of a tree.
fn branch_of_root<'a>(name: &str, record: &'a FilterRecord) -> Result<&'a Branch, UsageError> {
    record.branch.as_ref().filter(|branch| branch.is_root()).ok_or_else(|| {
        UsageError(format!("filter `{name}` is not the root of a tree: `firstseen filter list` shows the trees"))
    })
}

/// Returns the fold of a place, or 0 if the tree has no such place.
fn fold_at(map: &ClusterMap, root: FilterId, place: &str) -> u8 {
    let branches = map.filters.values().filter_map(|record| record.branch.as_ref());
    let mut of_tree = branches.filter(|branch| branch.root == root);
    of_tree.find(|branch| branch.place == place).map_or(0, |branch| branch.fold)
}

/// Returns the name of the filter at a place.
fn name_at(map: &ClusterMap, root: FilterId, place: &str) -> Result<String, UsageError> {
    let places = places::places(map, root);
    if let Some(found) = places.iter().find(|found| found.place == place) {
        return Ok(found.filter.to_owned());
    }
    let names: BTreeSet<&str> = places.iter().map(|place| place.place).collect();
    let there = names.into_iter().collect::<Vec<_>>().join(", ");
    Err(UsageError(format!("the tree has no place `{place}`: its places are {there}")))
}
