//! Implements `firstseen cluster recover`, which lets a single node continue alone after more than half of the voters
//! of the consensus group are lost for good. Some data is then lost, so the command prints what is lost before it
//! changes anything.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use firstseen_node::{LostFilter, Recovery};
use serde::Serialize;

use crate::terminal::consent::confirms;
use crate::text::table::Table;

/// Flags of `firstseen cluster recover`.
#[derive(Debug, Args)]
pub struct RecoverArgs {
    /// Data folder of the remaining node, which must not be running
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Only print what would be lost
    #[arg(long)]
    pub plan: bool,
    /// Do not ask for confirmation
    #[arg(long, conflicts_with = "plan")]
    pub yes: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The JSON document. Its field names do not change between releases.
#[derive(Serialize)]
struct Document<'a> {
    node: &'a str,
    former_cluster: String,
    lost: Vec<LostNodeDocument<'a>>,
    filters: Vec<LostFilterDocument<'a>>,
    done: bool,
}

#[derive(Serialize)]
struct LostNodeDocument<'a> {
    name: &'a str,
    /// Present name of the filter. `None` means that the cluster map no longer contains it.
    called: Option<&'a str>,
}

#[derive(Serialize)]
struct LostFilterDocument<'a> {
    name: &'a str,
    slices: u32,
    lost_slices: u32,
    incomplete_slices: u32,
}

/// Recovers a cluster.
pub(super) async fn run(args: &RecoverArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let mut asked: anyhow::Result<bool> = Ok(false);
    let mut known = None;
    let recovered = firstseen_node::recover(&args.data_dir, &mut |recovery: &Recovery| {
        known = Some(recovery.clone());
        asked = consent(args, recovery, out);
        matches!(asked, Ok(true))
    })
    .await;
    let recovered = recovered.with_context(|| format!("cannot recover with {}", args.data_dir.display()))?;
    asked?;
    match (&recovered, &known) {
        (Some(recovery), _) if !args.json => out.write_all(afterwards(recovery).as_bytes())?,
        (_, Some(recovery)) if args.json => writeln!(out, "{}", json(recovery, recovered.is_some())?)?,
        (None, _) if args.plan => writeln!(out, "nothing was changed: leave out --plan")?,
        (None, _) => notice!("nothing was changed"),
        _ => {}
    }
    Ok(if recovered.is_some() || args.plan { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the consequences of the recovery, and asks the operator for confirmation.
fn consent(args: &RecoverArgs, recovery: &Recovery, out: &mut dyn Write) -> anyhow::Result<bool> {
    if !args.json {
        out.write_all(text(recovery).as_bytes())?;
        out.flush()?;
    }
    if args.plan || args.yes {
        return Ok(args.yes);
    }
    confirms("The other nodes are lost permanently, and must never be started again with their data")
}

fn text(recovery: &Recovery) -> String {
    let mut text = format!("node {} of cluster {} goes on alone", recovery.name, recovery.former);
    let _ = writeln!(text, ", as a new cluster with the newest state that it knows.\n");
    let mut nodes = Table::new(&["other node", "what becomes of it"]);
    for (name, called) in &recovery.lost {
        let becomes = match called {
            Some(called) => format!("it has slices, and stays in the map as `{called}`, which is down"),
            None => "it has no slices, and is gone".to_owned(),
        };
        nodes.row([name.clone(), becomes]);
    }
    text.push_str(&nodes.text());
    if recovery.filters.is_empty() {
        text.push_str("\nNo filter has lost anything.\n");
        return text;
    }
    let mut filters = Table::new(&["filter", "slices", "lost", "here, but perhaps not all"]);
    for LostFilter { name, slices, lost, incomplete } in &recovery.filters {
        filters.row([name.clone(), slices.to_string(), lost.to_string(), incomplete.to_string()]);
    }
    let _ = write!(
        text,
        "\n{}\nWhat was in lost slices is lost: their events get the verdict of the filter's `--when-lost`, until the slices \
         are drained to other nodes and their window has passed, or `firstseen filter forgive` ends that. So it is with slices \
         here that others may have gone on without. Filters that are not durable have lost this node's slices with its process.\n",
        filters.text()
    );
    text
}

fn afterwards(recovery: &Recovery) -> String {
    let called: Vec<&str> = recovery.lost.iter().filter_map(|(_, called)| called.as_deref()).collect();
    let mut text = format!(
        "\nDone. Start node {} as usual; others join with empty data folders (firstseen cluster join).\n",
        recovery.name
    );
    if !called.is_empty() {
        let _ = writeln!(
            text,
            "When there is room for their slices: firstseen cluster drain --cluster HOST:PORT {}, then firstseen cluster leave for \
             each.",
            called.join(" ")
        );
    }
    text.push_str("Producers that were connected to the former cluster must be started again.\n");
    text
}

fn json(recovery: &Recovery, done: bool) -> anyhow::Result<String> {
    let document = Document {
        node: &recovery.name,
        former_cluster: recovery.former.to_string(),
        lost: recovery.lost.iter().map(|(name, called)| LostNodeDocument { name, called: called.as_deref() }).collect(),
        filters: recovery
            .filters
            .iter()
            .map(|filter| LostFilterDocument {
                name: &filter.name,
                slices: filter.slices,
                lost_slices: filter.lost,
                incomplete_slices: filter.incomplete,
            })
            .collect(),
        done,
    };
    Ok(serde_json::to_string_pretty(&document)?)
}
