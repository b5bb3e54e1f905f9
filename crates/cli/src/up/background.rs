//! Runs a local cluster in a background process without a terminal. The command waits until the cluster is ready or has
//! failed, and tells the user which. Later, `--end` finds the process by the folder of the cluster. It ends only the
//! process that holds the lock of that folder, so it never ends an unrelated process.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::folder::{Folder, running};
use super::{Shown, UpArgs, asked};
use crate::exit::FAILED;
use crate::text::style::Look;

/// How long nodes may take to end. This is longer than the time after which they are killed.
const END: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// File in the folder that receives the output of the background process.
const LOG: &str = "up.log";

/// Starts the cluster in a separate process, waits until the cluster is ready, and prints how to end it.
///
/// # Errors
/// Returns the reason if the cluster does not become ready.
pub(super) fn detach(args: &UpArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    // Mistakes in the flags or in the folder are reported by this process. The background process then uses the folder
    // as it is.
    let folder = Folder::open(&args.data, asked(args)?)?;
    folder.check_nodes()?;
    let shown = Shown::of(&folder);
    // The background process needs the lock of the folder.
    drop(folder);
    let log = args.data.join(LOG);
    let mut child = start(&log)?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no pipe")?).read_line(&mut line)?;
    if line.is_empty() {
        child.wait()?;
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        notice!("{}", said.trim_end());
        return Ok(ExitCode::from(FAILED));
    }
    let process = child.id();
    if args.json {
        out.write_all(line.as_bytes())?
    } else {
        let ready: serde_json::Value = serde_json::from_str(&line).context("it says something else")?;
        let cluster = ready["cluster"].as_str().unwrap_or("?");
        let ends = format!(
            "It runs in the background (process {process}); `firstseen up --end{}` ends it. Make a filter, and send it a log:",
            shown.data_flag()
        );
        let look = Look::of(&std::io::stdout());
        out.write_all(shown.text(cluster, &ends, look).as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Starts this program with the same flags, as a process that does not receive the terminal's signals.
fn start(log: &Path) -> anyhow::Result<Child> {
    use std::os::unix::process::CommandExt;
    let program = std::env::current_exe().context("cannot find the program itself")?;
    let written = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let flags = std::env::args_os().skip(1).filter(|flag| flag != "--detach" && flag != "--json");
    let mut command = Command::new(&program);
    command.args(flags).arg("--json").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(written);
    command.spawn().with_context(|| format!("cannot start {}", program.display()))
}

/// Ends the cluster of the folder at `path`, and waits until it has ended.
///
/// # Errors
/// Returns an error if no cluster runs in the folder, or if the cluster does not end in time.
pub(super) fn end(path: &Path, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let shown = path.display();
    let Some(process) = running(path)? else {
        writeln!(out, "the cluster in {shown} is not running")?;
        return Ok(ExitCode::SUCCESS);
    };
    kill(Pid::from_raw(process), Signal::SIGTERM).with_context(|| format!("cannot end process {process}"))?;
    let begun = Instant::now();
    while running(path)?.is_some() {
        if begun.elapsed() > END {
            bail!("process {process}, which runs the cluster in {shown}, does not end: kill -9 {process}");
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    writeln!(out, "the cluster in {shown} has ended")?;
    Ok(ExitCode::SUCCESS)
}
