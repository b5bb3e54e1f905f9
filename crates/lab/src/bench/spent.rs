//! The memory and the time of this process, by the system's own count.
//!
//! Promises: pages that the process really has, not those that it has asked for; time of cores is none of other processes.
//! Must not know: who uses them.

use std::fs;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// How long something took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Time {
    /// By the clock.
    pub(super) passed: Duration,
    /// Of all cores.
    pub(super) cores: Duration,
}

/// The time of all cores that this process has had.
pub(super) fn own_cores() -> anyhow::Result<Duration> {
    Ok(Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?))
}

/// Memory in use, and the most that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) bytes: u64,
    pub(super) peak_bytes: u64,
}

impl Used {
    /// What this is more than `before`; its peak over what was in use then.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(before.bytes),
            peak_bytes: self.peak_bytes.saturating_sub(before.bytes),
        }
    }
}

/// The resident memory of this process; `None` where there is no Linux to ask.
pub(super) fn used() -> Option<Used> {
    of_status(&fs::read_to_string("/proc/self/status").ok()?)
}

fn of_status(status: &str) -> Option<Used> {
    Some(Used { bytes: field(status, "VmRSS")?, peak_bytes: field(status, "VmHWM")? })
}

/// A field of a status, which has units of 1,024 bytes.
fn field(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(1024 * kib)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_read_from_the_status_of_a_process() {
        let status = "Name:\tfirstseen\nVmHWM:\t    3000 kB\nVmRSS:\t    2000 kB\nRssAnon:\t 7 kB\n";
        let used = of_status(status).unwrap();
        assert_eq!(used, Used { bytes: 2_048_000, peak_bytes: 3_072_000 });
        let before = Used { bytes: 1_024_000, peak_bytes: 1_024_000 };
        assert_eq!(used.since(before), Used { bytes: 1_024_000, peak_bytes: 2_048_000 });
        assert_eq!(of_status("Name:\tfirstseen\n"), None);
    }
}
