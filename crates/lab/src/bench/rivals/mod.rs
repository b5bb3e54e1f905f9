//! `firstseen-lab bench rivals` compares filters of this project with other systems that are in common use, such as
//! Redis. It measures the memory that each system needs for the keys of one window, and the time that it takes for each
//! key.
//!
//! All systems that are compared get the same keys at the same times. They are measured alternately, and each
//! measurement runs in a process of its own, so that memory left over from one system does not affect the next system.
//! The time for generating the keys is not counted.

mod figures;
mod keys;
mod systems;

use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum, value_parser};
use serde::{Deserialize, Serialize};

use self::figures::{RivalFigures, RivalsFigures};
use self::keys::{KEY_BYTES, Keys};
use self::systems::Rival;
use super::spent::{Time, own_cores, used};

/// Length of the window in milliseconds. The measured keys fill one window.
const WINDOW_MS: u64 = 3_600_000;
/// Time of the first key.
const BEGIN_MS: u64 = 1_750_000_000_000;
/// Number of keys that are generated together before a system receives them.
const CHUNK_KEYS: u64 = 65_536;

/// Number of keys that a system receives before the measurement.
const WARM_KEYS: u64 = 1000;

/// Compared systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum System {
    /// Kind `cuckoo` at a rate of 0.1 %
    #[value(name = "cuckoo-1e-3")]
    #[serde(rename = "cuckoo-1e-3")]
    Cuckoo1e3,
    /// Kind `cuckoo` at a rate of 1e-8
    #[value(name = "cuckoo-1e-8")]
    #[serde(rename = "cuckoo-1e-8")]
    Cuckoo1e8,
    /// Kind `generations` at a rate of 0.1 %
    Generations,
    /// A map from keys to their expiry times, swept every five minutes
    Map,
    /// Redis, `SET key 1 NX EX 3600`
    Redis,
    /// The crate cuckoo-clock 0.2 at a rate of 0.1 %
    CuckooClock,
}

/// Single measurement of one system.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Measurement {
    /// Number of bytes by which the memory grows during the first pass over the keys, in which all keys are new. For
    /// Redis, this is the memory of the Redis server. For all other systems, it is the memory of the measuring process.
    /// `None` means that the operating system does not report the memory.
    memory_bytes: Option<u64>,
    /// Maximum growth of the memory up to that time.
    peak_bytes: Option<u64>,
    /// Elapsed nanoseconds per key if all keys are new.
    new_ns: f64,
    /// CPU nanoseconds per key in that case, of this process and of a server.
    new_core_ns: f64,
    /// Elapsed nanoseconds per key if all keys are known.
    known_ns: f64,
    /// CPU nanoseconds per key in that case.
    known_core_ns: f64,
    /// Number of new keys that were reported as duplicates.
    wrong: u64,
    /// Number of keys that were repeated within the window and reported as new.
    forgotten: u64,
}

/// Flags of `firstseen-lab bench rivals`.
#[derive(Debug, Args)]
pub struct RivalsArgs {
    /// Keys in the window, all different; each of them is sent a second time within the window
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = value_parser!(u64).range(1_000..))]
    keys: u64,
    /// Measurements of each system, made alternately; the median is printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=99))]
    runs: u32,
    /// Measure only this system; may be given several times
    #[arg(long, value_name = "SYSTEM")]
    system: Vec<System>,
    /// Measure a single system in this process, once, with a hash of this seed
    #[arg(long, value_name = "SEED", hide = true)]
    pub(super) alone: Option<u64>,
}

pub(super) fn measure(args: &RivalsArgs) -> anyhow::Result<RivalsFigures> {
    let systems = if args.system.is_empty() { System::value_variants() } else { &args.system };
    let mut measured: Vec<Vec<Measurement>> = systems.iter().map(|_| Vec::new()).collect();
    for seed in 0..args.runs {
        for (system, measurements) in systems.iter().zip(&mut measured) {
            measurements.extend(measure_alone(*system, args.keys, seed)?);
        }
    }
    let rivals = systems.iter().zip(&measured).filter_map(|(system, runs)| RivalFigures::of(*system, runs)).collect();
    Ok(RivalsFigures { keys: args.keys, key_bytes: KEY_BYTES, window_ms: WINDOW_MS, runs: args.runs, rivals })
}

/// Measures one system in this process, and prints the measurement for the parent process.
pub(super) fn print_alone(args: &RivalsArgs, seed: u64) -> anyhow::Result<()> {
    let [system] = args.system[..] else { bail!("--alone needs one --system") };
    Ok(serde_json::to_writer(io::stdout().lock(), &measure_here(system, args.keys, seed)?)?)
}

/// Measures one system in a separate process. Returns `None` if that process reports that the system is not installed.
fn measure_alone(system: System, keys: u64, seed: u32) -> anyhow::Result<Option<Measurement>> {
    let name = system.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "rivals", "--alone", &seed.to_string(), "--system", &name, "--keys", &keys.to_string()]);
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("{name} could not be measured");
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("{name}: its process printed something else"))
}

/// Measures one system in this process.
fn measure_here(system: System, keys: u64, seed: u64) -> anyhow::Result<Option<Measurement>> {
    let mut chunks = Chunks::new(keys);
    if system != System::Redis {
        // The warm-up loads code and tables that a process needs once, so that they do not count as memory of the keys.
        let mut small = Chunks::new(WARM_KEYS);
        if let Some(mut warmed) = systems::build(system, WARM_KEYS, seed)? {
            small.pass(warmed.as_mut(), |key| BEGIN_MS + key * WINDOW_MS / WARM_KEYS)?;
        }
    }
    let before = used();
    let Some(mut rival) = systems::build(system, keys, seed)? else { return Ok(None) };
    let new = chunks.pass(rival.as_mut(), |key| BEGIN_MS + key * WINDOW_MS / keys)?;
    let grown = match rival.used()? {
        Some(used) => Some(used),
        None => used().zip(before).map(|(after, before)| after.since(before)),
    };
    let known = chunks.pass(rival.as_mut(), |_| BEGIN_MS + WINDOW_MS - 1)?;
    Ok(Some(Measurement {
        memory_bytes: grown.map(|used| used.bytes),
        peak_bytes: grown.map(|used| used.peak_bytes),
        new_ns: each_ns(keys, new.time.passed),
        new_core_ns: each_ns(keys, new.time.cores),
        known_ns: each_ns(keys, known.time.passed),
        known_core_ns: each_ns(keys, known.time.cores),
        wrong: keys - new.first_seen,
        forgotten: known.first_seen,
    }))
}

/// Returns the nanoseconds per key.
fn each_ns(keys: u64, time: Duration) -> f64 {
    time.as_nanos() as f64 / keys as f64
}

/// Pass in which every key is sent once.
struct Pass {
    time: Time,
    /// Number of keys that were reported as new.
    first_seen: u64,
}

/// All keys, generated in chunks.
struct Chunks {
    keys: Keys,
    count: u64,
    chunk: Vec<[u8; KEY_BYTES]>,
    times_ms: Vec<u64>,
}

impl Chunks {
    fn new(count: u64) -> Self {
        let room = CHUNK_KEYS.min(count) as usize;
        Self { keys: Keys, count, chunk: vec![[1; KEY_BYTES]; room], times_ms: vec![1; room] }
    }

    /// Sends every key at its time.
    fn pass(&mut self, rival: &mut dyn Rival, time_ms: impl Fn(u64) -> u64) -> anyhow::Result<Pass> {
        let mut time = Time::default();
        let mut first_seen = 0;
        let server_before = rival.server_cores()?;
        for begin in (0..self.count).step_by(CHUNK_KEYS as usize) {
            let chunk = begin..self.count.min(begin + CHUNK_KEYS);
            self.chunk.clear();
            self.chunk.extend(chunk.clone().map(|key| self.keys.key(key)));
            self.times_ms.clear();
            self.times_ms.extend(chunk.map(&time_ms));
            let cores_before = own_cores()?;
            let started = Instant::now();
            first_seen += rival.observe(&self.chunk, &self.times_ms)?;
            time.passed += started.elapsed();
            time.cores += own_cores()?.saturating_sub(cores_before);
        }
        time.cores += rival.server_cores()?.saturating_sub(server_before);
        Ok(Pass { time, first_seen })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_knows_the_keys_that_come_again() {
        let keys = 20_000;
        for system in System::value_variants() {
            // The system is skipped if it is not installed, which is possible for Redis.
            let Some(measured) = measure_here(*system, keys, 1).unwrap() else { continue };
            assert!(measured.wrong as f64 <= 0.002 * keys as f64, "{system:?}: {measured:?}");
            assert!(measured.new_ns > 0.0 && measured.known_ns > 0.0 && measured.new_core_ns > 0.0, "{measured:?}");
            if *system != System::CuckooClock {
                assert_eq!(measured.forgotten, 0, "{system:?}: {measured:?}");
            }
        }
    }
}
