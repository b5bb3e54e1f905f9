//! Finds the binary `firstseen`, which runs the nodes of benchmarks and scenarios.

use std::env;
use std::path::PathBuf;

use anyhow::Context;
use firstseen_cli::exit::UsageError;

/// Environment variable that selects another binary.
const VARIABLE: &str = "FIRSTSEEN_BINARY";

/// Returns the binary that [`VARIABLE`] names. If the variable is not set, returns the binary next to this program, or
/// else the one on `PATH`.
///
/// # Errors
/// Returns [`UsageError`] if no binary is found.
pub(crate) fn firstseen() -> anyhow::Result<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE) {
        return Ok(named.into());
    }
    let this = env::current_exe().context("cannot find the program itself")?;
    let beside = this.parent().map(PathBuf::from);
    let on_path = env::var_os("PATH").unwrap_or_default();
    let mut folders = beside.into_iter().chain(env::split_paths(&on_path));
    let found = folders.find_map(|folder| Some(folder.join("firstseen")).filter(|program| program.is_file()));
    found.ok_or_else(|| {
        let text = format!(
            "the binary `firstseen` is neither next to {} nor on PATH: build it with `cargo build --release`, or name it in \
             {VARIABLE}",
            this.display()
        );
        UsageError(text).into()
    })
}
