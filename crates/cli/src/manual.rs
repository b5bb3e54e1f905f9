//! What a package brings beside the binary: man pages, and completions for shells.
//!
//! Promises: both say what `--help` says, as they are made of the same. Must not know: what the commands do.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

/// Flags of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell that they are for
    pub shell: Shell,
}

/// Flags of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder for the pages, one of the program and one of each command below; it is made where it is missing
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Writes completions of `command` for a shell.
///
/// # Errors
/// `out` cannot be written to.
pub fn completions(args: &CompletionsArgs, mut command: Command, out: &mut impl Write) -> anyhow::Result<()> {
    // Into memory first: the generator does not return what goes wrong when it writes.
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    out.write_all(&script).context("cannot write the completions")
}

/// Writes the man pages of `command` and of all commands below it.
///
/// # Errors
/// The folder or a page cannot be written.
pub fn man(args: &ManArgs, command: Command) -> anyhow::Result<()> {
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make the folder {}", args.out.display()))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    pages(&command, &args.out)
}

fn pages(command: &Command, folder: &Path) -> anyhow::Result<()> {
    // The version stands where the date of a page does: an empty date would be left out, and what follows it moved.
    let man = Man::new(command.clone()).date(env!("CARGO_PKG_VERSION")).source("firstseen").manual("User Commands");
    let path = folder.join(man.get_filename());
    let written = page(&man, command).and_then(|page| fs::write(&path, page));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    command.get_subcommands().filter(|below| !below.is_hide_set()).try_for_each(|below| pages(below, folder))
}

/// A page, with the examples that help begins with at its end: the generator leaves them out.
fn page(man: &Man, command: &Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render(&mut page)?;
    if let Some(examples) = command.get_before_help() {
        let examples = examples.to_string().replace('\\', "\\e").replace('-', "\\-");
        let lines = examples.lines().map(|line| format!("\\&{line}\n")).collect::<String>();
        write!(page, ".SH EXAMPLES\n.EX\n{lines}.EE\n")?;
    }
    Ok(page)
}
