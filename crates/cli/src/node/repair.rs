//! `firstseen node repair`: a damaged journal.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;

use super::RepairArgs;
use super::config_file::NodeFile;
use crate::exit::UsageError;

/// Repairs the journal of the node of the configuration, after asking.
pub(super) fn run(args: &RepairArgs) -> anyhow::Result<ExitCode> {
    let file = NodeFile::read(&args.config)?;
    let data_dir = &file.node.data_dir;
    if !args.yes
        && !confirms(&format!(
            "{}: what cannot be read of the journal is given up, and slices of its filters count as incomplete",
            data_dir.display()
        ))?
    {
        println!("nothing was changed");
        return Ok(ExitCode::FAILURE);
    }
    let repaired = firstseen_node::repair(data_dir).with_context(|| format!("node {}", file.node.name))?;
    println!(
        "{} records kept, {} bytes could not be read; the damaged journal is in {}",
        repaired.records,
        repaired.lost_bytes,
        repaired.set_aside.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Asks at the terminal; without one, `--yes` must be given.
fn confirms(what: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(UsageError(format!("{what}: say --yes")).into());
    }
    eprint!("{what}. Go on? [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(answer.trim().eq_ignore_ascii_case("y"))
}
