//! Implements `firstseen cluster restore`, which restores the filters of a backup to the present nodes of a cluster.
//!
//! # Guarantees
//!
//! - Nothing is changed before every checksum of the backup was verified and an operator has confirmed.
//! - A restore that is interrupted is undone.
//! - No producer finds a filter before the filter has its cells.
//!
//! This module does not depend on the meaning of cells.

mod plan;
mod write;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::backup::Backup;
use super::{NodeArgs, status};
use crate::exit::{FAILED, INTERRUPTED};
use crate::terminal::consent::confirms;
use crate::terminal::progress::Progress;
use crate::terminal::signals::Signals;
use plan::Plan;
use write::Restoring;

/// Flags of `firstseen cluster restore`.
///
/// After the restore, the filters contain only the events that were recorded before the backup began. The command
/// prints the time at which the backup began, and asks whether events that are newer than the backup may be reported as
/// first-seen again (--yes). With --undecided, events that are not in the backup are reported as undecided instead.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// Folder of the backup
    #[arg(value_name = "DIR")]
    pub backup: PathBuf,
    /// Any node of the cluster.
    #[command(flatten)]
    pub member: NodeArgs,
    /// Only check the backup, and print what would be restored
    #[arg(long)]
    pub plan: bool,
    /// Do not ask for confirmation
    #[arg(long, conflicts_with = "plan")]
    pub yes: bool,
    /// Do not give up events recorded since the backup began: events that are not in it are undecided until all events
    /// that may be missing have expired (never without a window), or until the filter is forgiven
    #[arg(long)]
    pub undecided: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Restores a backup.
pub(super) async fn run(args: &RestoreArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let member = args.member.operator()?;
    let mut progress: Option<Progress> = None;
    let backup = Backup::open(&args.backup, |seen, total| {
        progress.get_or_insert_with(|| Progress::new(Some(total), false)).at(seen, || "checked".to_owned());
    });
    if let Some(progress) = progress {
        progress.end();
    }
    let backup = backup?;
    let map = status::ask(&member).await?.map;
    let plan = Plan::new(&backup, &map, &args.member.addr.join(","), args.undecided)?;
    if !args.json {
        out.write_all(plan.text(&args.backup).as_bytes())?;
        out.flush()?;
    }
    plan.lacking().for_each(|why| notice!("firstseen: {why}"));
    if args.plan {
        if args.json {
            writeln!(out, "{}", plan.json(&args.backup, false)?)?
        } else {
            writeln!(out, "nothing was changed: leave out --plan")?
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes && !confirms(&plan.question(&map.cluster.to_string()))? {
        notice!("nothing was changed");
        return Ok(ExitCode::FAILURE);
    }
    let mut signals = Signals::new()?;
    let mut restoring = Restoring::new(&member, &backup, &map);
    let restored = tokio::select! {
        biased;
        signal = signals.next() => Err(signal),
        restored = restoring.carry_out(&plan) => Ok(restored),
    };
    restoring.progress_ends();
    match restored {
        Ok(Ok(not_forgiven)) => {
            if args.json {
                writeln!(out, "{}", plan.json(&args.backup, true)?)?
            } else {
                out.write_all(plan.afterwards().as_bytes())?
            }
            not_forgiven.iter().for_each(|why| notice!("firstseen: {why}"));
            Ok(if not_forgiven.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
        }
        Ok(Err(error)) => {
            let undone = restoring.undo().await;
            Err(error.context(undone))
        }
        Err(signal) => {
            notice!("firstseen: {signal}: {}", restoring.undo().await);
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}
