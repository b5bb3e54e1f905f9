//! Memory and CPU time of this process, as reported by the operating system. The memory is the resident memory, so
//! pages that were allocated but never used are not counted. The CPU time does not include other processes, such as a
//! server that is measured.

use std::fs;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Duration of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Time {
    /// Elapsed time.
    pub(super) passed: Duration,
    /// CPU time of all cores.
    pub(super) cores: Duration,
}

/// Returns the CPU time that this process has used on all cores.
pub(super) fn own_cores() -> anyhow::Result<Duration> {
    Ok(Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?))
}

/// Memory in use, and its maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) bytes: u64,
    pub(super) peak_bytes: u64,
}

impl Used {
    /// Returns the growth since `before`. The peak is the difference between the maximum and the memory in use at that
    /// time.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(before.bytes),
            peak_bytes: self.peak_bytes.saturating_sub(before.bytes),
        }
    }
}

/// Returns the resident memory of this process. Returns `None` on systems other than Linux.
pub(super) fn used() -> Option<Used> {
    of_status(&fs::read_to_string("/proc/self/status").ok()?)
}

fn of_status(status: &str) -> Option<Used> {
    Some(Used { bytes: field(status, "VmRSS")?, peak_bytes: field(status, "VmHWM")? })
}

/// Returns a field of a status file in bytes. The file has it in units of 1,024 bytes.
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
