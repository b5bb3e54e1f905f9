//! Redis as a reference in benchmarks: each event is the command `SET key 1 NX EX seconds`. The benchmark starts a
//! Redis server that listens only on the loopback interface and stores nothing on disk. The server ends with the
//! benchmark.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::bench::keys::Keys;
use crate::bench::spent::Used;

/// Number of connections that send at the same time.
pub(crate) const CONNECTIONS: u64 = 8;
/// Number of commands that a connection sends before it reads the answers.
pub(crate) const PIPELINE: u64 = 128;
/// Time to live of a key, in seconds.
pub(super) const EXPIRE_S: u32 = 600;
/// Number of keys that are set to determine the memory of one key.
const SIZED_KEYS: u64 = 100_000;
/// Maximum time until the server answers for the first time.
const START_MAX: Duration = Duration::from_secs(5);

/// Redis server that ends when this value is dropped.
pub(crate) struct Redis {
    child: Child,
    address: SocketAddr,
}

impl Redis {
    /// Starts `redis-server`. Returns `None` if it is not installed.
    pub(crate) fn start() -> anyhow::Result<Option<Self>> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        let child = match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context("redis-server does not start"),
        };
        let redis = Self { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) };
        let started = Instant::now();
        while TcpStream::connect(redis.address).is_err() {
            if started.elapsed() > START_MAX {
                bail!("redis-server does not answer at {}", redis.address);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(redis))
    }

    /// Returns the address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Measures the events per second over all connections. Each connection sends its share of `keys`.
    pub(crate) fn events_per_s(&self, keys: Keys) -> anyhow::Result<f64> {
        let started = Instant::now();
        let first_seen: anyhow::Result<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..CONNECTIONS)
                .map(|connection| scope.spawn(move || self.share(keys.share(connection, CONNECTIONS))))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| bail!("a connection broke"))).sum()
        });
        let seconds = started.elapsed().as_secs_f64();
        let first_seen = first_seen?;
        let distinct: u64 = (0..CONNECTIONS).map(|connection| keys.share(connection, CONNECTIONS).distinct()).sum();
        if first_seen != distinct {
            bail!("redis called {first_seen} of {distinct} distinct keys new");
        }
        Ok(keys.events() as f64 / seconds)
    }

    /// Sets every key that does not exist for `expire_s` seconds, over all connections. Returns the number of keys that
    /// did not exist.
    pub(super) fn set_new<K: AsRef<[u8]> + Sync>(&self, keys: &[K], expire_s: u32) -> anyhow::Result<u64> {
        let share = keys.len().div_ceil(CONNECTIONS as usize).max(1);
        std::thread::scope(|scope| {
            let threads: Vec<_> = keys
                .chunks(share)
                .map(|share| {
                    scope.spawn(move || self.send(share.len() as u64, expire_s, |event| &share[event as usize]))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| bail!("a connection broke"))).sum()
        })
    }

    /// Removes all keys.
    pub(crate) fn flush(&self) -> anyhow::Result<()> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(b"FLUSHALL\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        Ok(())
    }

    /// Returns the memory of one key in bytes. It is the growth of the server's memory after many keys were set,
    /// divided by their number.
    pub(crate) fn key_bytes(&self) -> anyhow::Result<f64> {
        self.flush()?;
        let before = self.used_bytes()?;
        let keys = self.share(Keys::with_distinct(0, SIZED_KEYS))?;
        let more = self.used_bytes()?.saturating_sub(before);
        Ok(more as f64 / keys as f64)
    }

    /// Returns the memory that the server uses for its data, as reported by the server.
    fn used_bytes(&self) -> anyhow::Result<u64> {
        Ok(self.used()?.bytes)
    }

    /// Returns the present memory and the peak memory, as reported by the server.
    pub(super) fn used(&self) -> anyhow::Result<Used> {
        let info = self.info("memory")?;
        used(&info).with_context(|| format!("redis does not say what memory it uses: {info:?}"))
    }

    /// Returns the CPU time that the server has used.
    pub(super) fn cores(&self) -> anyhow::Result<Duration> {
        let info = self.info("cpu")?;
        cores(&info).with_context(|| format!("redis does not say what time it has had: {info:?}"))
    }

    fn info(&self, section: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        write!(stream, "INFO {section}\r\n")?;
        let mut answer = BufReader::new(stream);
        let mut line = String::new();
        answer.read_line(&mut line)?;
        let length = line.trim_end().strip_prefix('$').and_then(|length| length.parse().ok());
        let mut info = String::new();
        answer.take(length.with_context(|| format!("redis answered {line:?}"))?).read_to_string(&mut info)?;
        Ok(info)
    }

    /// Sends every key of a share, and returns the number of new keys.
    fn share(&self, keys: Keys) -> anyhow::Result<u64> {
        self.send(keys.events(), EXPIRE_S, |event| keys.key(event))
    }

    /// Sends `events` keys over one connection, and returns the number of new keys.
    fn send<K: AsRef<[u8]>>(&self, events: u64, expire_s: u32, key: impl Fn(u64) -> K) -> anyhow::Result<u64> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        let mut answers = BufReader::new(stream.try_clone()?);
        let mut request = Vec::new();
        let mut line = String::new();
        let mut first_seen = 0;
        let mut asked = 0;
        while asked < events {
            let pipelined = PIPELINE.min(events - asked);
            request.clear();
            for event in asked..asked + pipelined {
                write_set(&mut request, key(event).as_ref(), expire_s)?;
            }
            stream.write_all(&request)?;
            for _ in 0..pipelined {
                line.clear();
                answers.read_line(&mut line)?;
                match line.as_str() {
                    "+OK\r\n" => first_seen += 1,
                    "$-1\r\n" => {}
                    other => bail!("redis answered {other:?}"),
                }
            }
            asked += pipelined;
        }
        Ok(first_seen)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Appends the command `SET key 1 NX EX seconds`.
pub(super) fn write_set(request: &mut Vec<u8>, key: &[u8], expire_s: u32) -> std::io::Result<()> {
    write!(request, "*6\r\n$3\r\nSET\r\n${}\r\n", key.len())?;
    request.extend_from_slice(key);
    let seconds = expire_s.to_string();
    write!(request, "\r\n$1\r\n1\r\n$2\r\nNX\r\n$2\r\nEX\r\n${}\r\n{seconds}\r\n", seconds.len())
}

/// Returns the value of a field in an answer to `INFO`.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end)
}

/// Returns the fields `used_memory` and `used_memory_peak` of an answer to `INFO memory`.
fn used(info: &str) -> Option<Used> {
    let bytes = field(info, "used_memory")?.parse().ok()?;
    let peak_bytes = field(info, "used_memory_peak")?.parse().ok()?;
    Some(Used { bytes, peak_bytes })
}

/// Returns the sum of `used_cpu_user` and `used_cpu_sys` in an answer to `INFO cpu`, which are in seconds.
fn cores(info: &str) -> Option<Duration> {
    let user_s: f64 = field(info, "used_cpu_user")?.parse().ok()?;
    let system_s: f64 = field(info, "used_cpu_sys")?.parse().ok()?;
    Duration::try_from_secs_f64(user_s + system_s).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_used_memory_is_found_among_fields_of_like_names() {
        let info = "# Memory\r\nused_memory_human:1.02M\r\nused_memory:1067520\r\nused_memory_rss:3678208\r\n\
                    used_memory_peak_human:1.03M\r\nused_memory_peak:1067900\r\n";
        assert_eq!(used(info), Some(Used { bytes: 1_067_520, peak_bytes: 1_067_900 }));
        assert_eq!(used("# Memory\r\nused_memory_human:1.02M\r\n"), None);
    }

    #[test]
    fn the_time_of_cores_is_that_of_the_server_and_not_of_its_children() {
        let info = "# CPU\r\nused_cpu_sys:0.25\r\nused_cpu_user:1.5\r\nused_cpu_sys_children:9.0\r\n";
        assert_eq!(cores(info), Some(Duration::from_millis(1750)));
        assert_eq!(cores("# CPU\r\n"), None);
    }

    #[test]
    fn a_key_takes_more_than_its_letters_and_less_than_a_page() {
        // The test is skipped if no server is installed.
        let Some(redis) = Redis::start().unwrap() else { return };
        let bytes = redis.key_bytes().unwrap();
        assert!(bytes > 16.0 && bytes < 1024.0, "{bytes}");
    }
}
