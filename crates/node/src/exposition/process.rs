//! Metrics of the node's process as the operating system reports them, such as memory and open files, and information
//! about the build. The metrics have the same names as in the official Prometheus client libraries. If the operating
//! system does not report a value, for example because it has no `/proc`, the series is omitted. It is not set to zero.

use std::fs;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::gathering::Gathering;
use super::{show_bytes, show_gauge};

/// Clock ticks per second in `/proc`. The kernel always reports hundredths of a second to programs, regardless of its
/// internal resolution.
const TICKS_PER_S: f64 = 100.0;
/// Indexes of the values in `/proc/self/stat`, counted from the field after the program name.
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;
const START_TICKS: usize = 19;

/// Adds information about the build of this process.
pub(super) fn show_build(now: &mut Gathering) {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let mut version = now.of("version", env!("CARGO_PKG_VERSION"));
    let mut of_arch = version.and("arch", std::env::consts::ARCH);
    let mut of_machine = of_arch.and("os", std::env::consts::OS);
    of_machine.and("profile", profile).gauge("build_info", "The build of this process; always 1").set(1);
}

/// Adds the metrics of the process to a registry without a prefix.
pub(super) fn show(registry: &mut Registry) {
    if let Some(usage) = stat().as_deref().and_then(usage) {
        let cpu = Counter::<f64, AtomicU64>::default();
        cpu.inc_by(usage.cpu_s);
        let help = "Processor time of this process in user and system mode";
        registry.register_with_unit("process_cpu", help, Unit::Seconds, cpu);
        if let Some(boot_s) = read("/proc/stat").as_deref().and_then(boot_s) {
            let start = Gauge::<f64, AtomicU64>::default();
            start.set(boot_s + usage.started_s);
            let help = "Start time of the process since 1970";
            registry.register_with_unit("process_start_time", help, Unit::Seconds, start);
        }
    }
    let status = read("/proc/self/status").unwrap_or_default();
    for (name, help, key) in [
        ("process_resident_memory", "Resident memory of the process", "VmRSS:"),
        ("process_virtual_memory", "Virtual memory of the process", "VmSize:"),
    ] {
        if let Some(bytes) = status_bytes(&status, key) {
            show_bytes(registry, name, help, bytes);
        }
    }
    let open = fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as u64);
    let most = read("/proc/self/limits").as_deref().and_then(files_max);
    for (name, help, files) in [
        ("process_open_fds", "Files and connections that are open in the process", open),
        ("process_max_fds", "Maximum number of files and connections that may be open in the process", most),
    ] {
        if let Some(files) = files {
            show_gauge(registry, name, help, files);
        }
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn stat() -> Option<String> {
    read("/proc/self/stat")
}

/// Processor time of the process, and the time between the start of the machine and the start of the process, in
/// seconds.
struct Usage {
    cpu_s: f64,
    started_s: f64,
}

/// Parses `/proc/self/stat`. The program name in it may contain any characters.
fn usage(stat: &str) -> Option<Usage> {
    let (_, behind_name) = stat.rsplit_once(") ")?;
    let figures: Vec<&str> = behind_name.split(' ').collect();
    let cpu_ticks = ticks(&figures, USER_TICKS)? + ticks(&figures, SYSTEM_TICKS)?;
    let start_ticks = ticks(&figures, START_TICKS)?;
    Some(Usage { cpu_s: cpu_ticks as f64 / TICKS_PER_S, started_s: start_ticks as f64 / TICKS_PER_S })
}

fn ticks(figures: &[&str], place: usize) -> Option<u64> {
    figures.get(place)?.trim().parse().ok()
}

/// Parses the start time of the machine from `/proc/stat`.
fn boot_s(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// Returns a value of `/proc/self/status` in bytes.
fn status_bytes(status: &str, key: &str) -> Option<u64> {
    let figure = status.lines().find_map(|line| line.strip_prefix(key))?;
    Some(figure.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Parses the maximum number of open files from `/proc/self/limits`. Returns `None` if there is no limit.
fn files_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_where_the_kernel_says() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 4 0 12345 99 8 1 2\n";
        let usage = usage(stat).expect("figures");
        assert_eq!((usage.cpu_s, usage.started_s), (2.0, 123.45));
        assert_eq!(boot_s("cpu 1 2\nbtime 1700000000\nprocesses 3\n"), Some(1_700_000_000.0));
        assert_eq!(status_bytes("VmSize:\t  9 kB\nVmRSS:\t     12 kB\n", "VmRSS:"), Some(12 << 10));
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096   files\n";
        assert_eq!(files_max(limits), Some(1024));
        assert_eq!(files_max("Max open files            unlimited            unlimited            files\n"), None);
        assert!(usage_is_absent("") && usage_is_absent("1 (a) S 2"));
    }

    fn usage_is_absent(stat: &str) -> bool {
        super::usage(stat).is_none()
    }
}
