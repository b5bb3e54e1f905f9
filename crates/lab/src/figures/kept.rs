//! Reads and writes the file docs/figures.json, which contains the measured tables of the pages.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::bench::Content;

const FILE: &str = "docs/figures.json";

/// All tables, by the names that pages use.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) tables: BTreeMap<String, Kept>,
}

/// Table with its origin.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Command that measures the table.
    pub(super) command: String,
    /// Date of the measurement.
    pub(super) made: String,
    /// Machine of the measurement. `None` means the machine that the page describes.
    pub(super) machine: Option<Machine>,
    pub(super) table: Content,
}

/// Description of a machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Machine {
    cpu: Option<String>,
    cores: usize,
    memory_bytes: Option<u64>,
    kernel: Option<String>,
    rustc: String,
}

impl Figures {
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let path = root.join(FILE);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}: name the top of the repository with --root", path.display()))?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }

    pub(super) fn write(&self, root: &Path) -> anyhow::Result<()> {
        let path = root.join(FILE);
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Machine {
    /// Describes this machine. Facts that the system does not provide are left out.
    pub(super) fn this() -> Self {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Self {
            cpu: fs::read_to_string("/proc/cpuinfo").ok().as_deref().and_then(crate::eval::processor),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(memory_bytes),
            kernel: kernel.map(|release| format!("{} {}", std::env::consts::OS, release.trim())),
            rustc: env!("FIRSTSEEN_RUSTC").to_owned(),
        }
    }
}

/// Returns the field `MemTotal` in bytes. The file has it in units of 1,024 bytes.
fn memory_bytes(meminfo: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(1024 * kib)
}
