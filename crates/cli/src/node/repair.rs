//! Implements `firstseen node repair`, which repairs a damaged journal.

use std::process::ExitCode;

use anyhow::Context;

use super::RepairArgs;
use super::config_file::NodeFile;
use crate::terminal::consent::confirms;

/// Asks for confirmation, and repairs the journal of the configured node.
pub(super) fn run(args: &RepairArgs) -> anyhow::Result<ExitCode> {
    let file = NodeFile::read(&args.config, &[])?;
    let data_dir = &file.node.data_dir;
    if !args.yes
        && !confirms(&format!(
            "{}: the unreadable parts of the journal are discarded, and slices of its filters count as incomplete",
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
