//! stub
use std::io::Write;
/// stub
#[derive(Debug, clap::Args)]
pub struct PlanArgs {}
/// stub
pub fn run(_args: &PlanArgs, _out: &mut dyn Write) -> anyhow::Result<()> { Ok(()) }
