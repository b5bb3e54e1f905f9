//! Checks how much memory the system allows a node to use. The limit is the memory of the machine, or the limit of the
//! control group in which the node runs if that is lower.
//!
//! The memory use of a node grows as its cells fill. If the configured memory is more than the system allows, the
//! system would kill the node only months later, while the node serves clients. This module prevents that by refusing
//! to start such a node.
//!
//! If the system does not report how much memory it has, nothing is refused. This module does not depend on how memory
//! is used.

use std::fs;
use std::path::Path;

use firstseen_node::NodeConfig;

use crate::exit::UsageError;
use crate::text::size::ByteSize;

/// An amount of memory, and what limits it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Memory {
    bytes: u64,
    of: String,
}

/// Returns an error if the cells of the node may grow beyond the memory that the system allows. Returns a warning if
/// the cells fit, but leave too little memory for everything else that the node needs.
///
/// # Errors
/// Returns an error with the setting and the available memory.
pub(super) fn check(config: &NodeConfig, path: &Path) -> Result<Option<String>, UsageError> {
    memory(Path::new("/")).map_or(Ok(None), |memory| fits(config, &memory, path))
}

fn fits(config: &NodeConfig, memory: &Memory, path: &Path) -> Result<Option<String>, UsageError> {
    let cells = config.memory_max_bytes;
    let limits = &config.limits;
    let of_cells = format!("{}: memory_max_bytes is {}", path.display(), ByteSize(cells));
    let there = format!("{} has {}", memory.of, ByteSize(memory.bytes));
    if cells > memory.bytes {
        return Err(UsageError(format!("{of_cells}, but {there}: lower memory_max_bytes, or give it more memory")));
    }
    let beside = [limits.guard_bytes_max, limits.claims_bytes_max, limits.inflight_bytes_max];
    let beside = beside.into_iter().fold(0u64, u64::saturating_add);
    let is_tight = cells.saturating_add(beside) > memory.bytes;
    Ok(is_tight.then(|| {
        format!(
            "{of_cells}, and up to {} may be used in addition to the cells (guard_bytes_max, claims_bytes_max and \
             inflight_bytes_max of [limits]), but {there}: if all of it is used, the system ends the node",
            ByteSize(beside)
        )
    }))
}

/// Returns the lowest memory limit. `root` is the folder with the system's files.
fn memory(root: &Path) -> Option<Memory> {
    let machine = machine(root).map(|bytes| Memory { bytes, of: "this machine".to_owned() });
    let group = group(root).map(|bytes| Memory { bytes, of: "its control group".to_owned() });
    machine.into_iter().chain(group).min_by_key(|memory| memory.bytes)
}

fn machine(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    Some((meminfo_kib(&text, "MemTotal")? + meminfo_kib(&text, "SwapTotal").unwrap_or(0)) * 1024)
}

/// Returns a field of `/proc/meminfo`, in KiB.
fn meminfo_kib(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the lowest limit of the control groups of this process (version 2: a line `0::/path`).
fn group(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let top = root.join("sys/fs/cgroup");
    let limits = Path::new(own)
        .ancestors()
        .filter_map(|folder| fs::read_to_string(top.join(folder).join("memory.max")).ok()?.trim().parse::<u64>().ok());
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_counts_and_a_system_that_does_not_say_has_none() {
        let root = tempfile::TempDir::new().unwrap();
        assert_eq!(memory(root.path()), None);
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/meminfo", "MemTotal:        1048576 kB\nMemFree: 7 kB\nSwapTotal:  1024 kB\n");
        assert_eq!(memory(root.path()), Some(Memory { bytes: (1048576 + 1024) * 1024, of: "this machine".to_owned() }));
        write("proc/self/cgroup", "0::/pods/one\n");
        write("sys/fs/cgroup/memory.max", "max\n");
        write("sys/fs/cgroup/pods/one/memory.max", "max\n");
        assert_eq!(memory(root.path()).unwrap().of, "this machine");
        write("sys/fs/cgroup/pods/memory.max", "536870912\n");
        assert_eq!(memory(root.path()), Some(Memory { bytes: 512 << 20, of: "its control group".to_owned() }));
    }

    #[test]
    fn a_node_that_was_promised_more_than_there_is_is_refused_with_both_numbers() {
        let memory = Memory { bytes: 4 << 30, of: "this machine".to_owned() };
        let config = |memory_max_bytes| NodeConfig {
            memory_max_bytes,
            ..NodeConfig::new("a", std::net::SocketAddr::from(([127, 0, 0, 1], 7400)), "data")
        };
        let of = |bytes| fits(&config(bytes), &memory, Path::new("node.toml"));
        assert_eq!(of(1 << 30).ok(), Some(None));
        let warning = of(4 << 30).ok().flatten().unwrap();
        assert!(warning.contains("node.toml") && warning.matches("4 GiB").count() == 2, "{warning}");
        let refused = of(5 << 30).unwrap_err().to_string();
        assert!(refused.contains("is 5 GiB") && refused.contains("has 4 GiB"), "{refused}");
        assert!(of(u64::MAX).is_err());
    }
}
