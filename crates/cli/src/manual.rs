//! Writes the man pages and shell completions that packages ship with the binary. Both are generated from the
//! definitions of the command line, which also produce the output of `--help`. The texts of all three are therefore
//! always the same.

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
    /// The shell to complete commands and flags for
    pub shell: Shell,
}

/// Flags of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder for the pages: one page for the program and one for each of its commands. It is created if it does not
    /// exist
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Writes the completion script of `command` for a shell.
///
/// # Errors
/// Returns an error if `out` cannot be written to.
pub fn completions(args: &CompletionsArgs, mut command: Command, out: &mut impl Write) -> anyhow::Result<()> {
    // The script is generated in memory first, because the generator does not return the errors of its writer.
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    out.write_all(&script).context("cannot write the completions")
}

/// Writes the man pages of `command` and of all commands below it.
///
/// # Errors
/// Returns an error if the folder or a page cannot be written.
pub fn man(args: &ManArgs, command: Command) -> anyhow::Result<()> {
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make the folder {}", args.out.display()))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    pages(&command, &args.out)
}

fn pages(command: &Command, folder: &Path) -> anyhow::Result<()> {
    // The version takes the place of the date of the page. The generator would leave out an empty date, and the fields
    // after it would move.
    let man = Man::new(command.clone()).date(env!("CARGO_PKG_VERSION")).source("firstseen").manual("User Commands");
    let path = folder.join(man.get_filename());
    let written = page(&man, command).and_then(|page| fs::write(&path, page));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    command.get_subcommands().filter(|below| !below.is_hide_set()).try_for_each(|below| pages(below, folder))
}

/// Returns the text of a man page. The examples from the help are appended, because the generator leaves them out.
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
