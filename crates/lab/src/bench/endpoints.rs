//! `firstseen-lab bench endpoints` compares three interfaces of a node: the HTTP endpoint, the Redis endpoint, and the
//! protocol of the client library. A single node serves all three interfaces, which are measured alternately in one
//! run.
//!
//! The benchmark fails if an event does not get a definite verdict. It also fails if the number of keys that were
//! reported as new is not the number of distinct keys, apart from false positives.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::{Args, value_parser};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::figures::Measured;
use super::flow::{Expected, FlowOperation, events_per_s};
use super::keys::Keys;
use super::local::{LocalCluster, NewFilter};
use super::redis::write_set;
use super::{Figures, Size};

/// Maximum time for which a call is retried while an endpoint starts.
const OPENS_MAX: Duration = Duration::from_secs(10);
/// Factor by which there are fewer calls with a single event than events in batches.
const SINGLES_FEWER: u64 = 20;
/// Time to live of a key of a single call, in seconds.
const EXPIRE_S: u32 = 600;

/// Flags of `firstseen-lab bench endpoints`. There are a twentieth as many single calls as events in batches.
#[derive(Debug, Args)]
pub struct EndpointsArgs {
    #[command(flatten)]
    size: Size,
    /// Connections that send batches
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u64).range(1..=256))]
    batch_connections: u64,
    /// Connections that send single events
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u64).range(1..=256))]
    single_connections: u64,
}

/// All results of the benchmark.
#[derive(Debug, Serialize)]
pub(super) struct EndpointsFigures {
    events: u64,
    batch_events: u32,
    /// Number of connections for batches. The next field is the number of connections for single calls.
    batch_connections: u64,
    single_connections: u64,
    /// Rates of events in batches, in events per second: with the client of the cluster, and over HTTP with JSON and
    /// with plain text.
    client: Measured,
    json: Measured,
    text: Measured,
    json_of_client: f64,
    text_of_client: f64,
    /// Rates of single calls without pipelining, in calls per second: `SET key 1 NX EX 600`, and an event in the header
    /// `Idempotency-Key`.
    redis_singles: Measured,
    http_singles: Measured,
    http_of_redis: f64,
}

/// Encoding of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    Json,
    Text,
}

pub(super) fn measure(args: &EndpointsArgs) -> anyhow::Result<EndpointsFigures> {
    let size = args.size;
    let redis = free_port()?;
    let http = free_port()?;
    let redis_port = redis.port().to_string();
    let http_port = http.port().to_string();
    let cluster = LocalCluster::start_with(1, &["--redis", &redis_port, "--http-api", &http_port])?;
    let [mut client, mut json, mut text, mut redis_singles, mut http_singles] = [const { Vec::new() }; 5];
    let singles = (size.events / SINGLES_FEWER).max(1);
    let by_client = NewFilter::bench(size.events, &["--kind", "cuckoo"]);
    let by_endpoint = NewFilter::bench(size.events, &["--kind", "cuckoo", "--clock", "wall"]);
    // The Redis endpoint maps keys with this prefix to the filter.
    let by_call = NewFilter { name: "clicks", capacity: singles, ..by_endpoint };
    for number in 0..u64::from(size.runs) {
        let keys = Keys::new(number, size.events);
        client.push(cluster.with_client(by_client, size.batch, async |filter| {
            events_per_s(filter, keys, size.batch, Expected::New, FlowOperation::Observe).await
        })?);
        for (body, rates) in [(Body::Json, &mut json), (Body::Text, &mut text)] {
            rates.push(cluster.with_filter(by_endpoint, || batches(http, args, body, keys))?);
        }
        let keys = Keys::new(number, singles);
        redis_singles.push(cluster.with_filter(by_call, || single_calls(redis, args, Single::Redis, keys))?);
        http_singles.push(cluster.with_filter(by_call, || single_calls(http, args, Single::Http, keys))?);
    }
    let [client, json, text] = [client, json, text].map(Measured::of);
    let [redis_singles, http_singles] = [redis_singles, http_singles].map(Measured::of);
    Ok(EndpointsFigures {
        events: size.events,
        batch_events: size.batch,
        batch_connections: args.batch_connections,
        single_connections: args.single_connections,
        json_of_client: json.median / client.median,
        text_of_client: text.median / client.median,
        http_of_redis: http_singles.median / redis_singles.median,
        client,
        json,
        text,
        redis_singles,
        http_singles,
    })
}

/// Returns a port that no program uses.
fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

/// Measures the events per second over HTTP in batches. Each connection sends its share of the keys, one call after the
/// other.
fn batches(address: SocketAddr, args: &EndpointsArgs, body: Body, keys: Keys) -> anyhow::Result<f64> {
    let connections = args.batch_connections;
    // The endpoint learns about the filter with the first call, which is not measured.
    opened(address)?;
    let started = Instant::now();
    let first_seen: anyhow::Result<u64> = std::thread::scope(|scope| {
        let shares = (0..connections).map(|connection| keys.share(connection, connections));
        let threads: Vec<_> =
            shares.map(|share| scope.spawn(move || send(address, args.size.batch, body, share))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| bail!("a connection broke"))).sum()
    });
    let seconds = started.elapsed().as_secs_f64();
    let distinct: u64 = (0..connections).map(|connection| keys.share(connection, connections).distinct()).sum();
    check(first_seen?, distinct)?;
    Ok(keys.events() as f64 / seconds)
}

/// Checks that the number of new keys is the number of distinct keys, apart from false positives.
fn check(first_seen: u64, distinct: u64) -> anyhow::Result<()> {
    let is_near = first_seen <= distinct && first_seen as f64 > 0.98 * distinct as f64;
    ensure!(is_near, "{first_seen} of {distinct} distinct events were called new");
    Ok(())
}

/// Waits until the endpoint answers calls about the filter.
fn opened(address: SocketAddr) -> anyhow::Result<()> {
    let until = Instant::now() + OPENS_MAX;
    loop {
        let asked =
            Connection::to(address).and_then(|mut connection| connection.ask("text/plain", b"warm-up\n", "test"));
        match asked {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() >= until => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Sends a share of the keys in batches, and returns the number of new events.
fn send(address: SocketAddr, batch_events: u32, body: Body, keys: Keys) -> anyhow::Result<u64> {
    let mut connection = Connection::to(address)?;
    let mut bytes = Vec::new();
    let mut first_seen = 0;
    let mut next = 0;
    while next < keys.events() {
        let end = keys.events().min(next + u64::from(batch_events));
        bytes.clear();
        for event in next..end {
            match body {
                Body::Text => bytes.extend_from_slice(&keys.key(event)),
                Body::Json => {
                    bytes.extend_from_slice(if event == next { b"{\"events\":[\"" } else { b",\"" });
                    // JSON requires that some characters of the keys are escaped.
                    keys.key(event).iter().for_each(|letter| match letter {
                        b'\\' => bytes.extend_from_slice(b"\\\\"),
                        letter => bytes.push(*letter),
                    });
                    bytes.push(b'"');
                }
            }
            if body == Body::Text {
                bytes.push(b'\n');
            }
        }
        if body == Body::Json {
            bytes.extend_from_slice(b"]}");
        }
        let media = if body == Body::Json { "application/json" } else { "text/plain" };
        first_seen += connection.ask(media, &bytes, "observe")?;
        next = end;
    }
    Ok(first_seen)
}

/// Connection to the HTTP endpoint.
struct Connection {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Connection {
    fn to(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let replies = BufReader::new(stream.try_clone()?);
        Ok(Self { stream, replies, request: Vec::new(), reply: Vec::new() })
    }

    /// Sends a call, and returns how many of its events are new.
    fn ask(&mut self, media: &str, body: &[u8], call: &str) -> anyhow::Result<u64> {
        self.request.clear();
        let length = body.len();
        write!(
            self.request,
            "POST /v1/filters/bench/{call} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\r\n"
        )?;
        self.request.extend_from_slice(body);
        self.stream.write_all(&self.request)?;
        let mut status = String::new();
        self.replies.read_line(&mut status)?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.replies.read_line(&mut line)?;
            match line.trim_end().split_once(": ") {
                Some(("content-length", value)) => length = value.parse()?,
                Some(_) => {}
                None => break,
            }
        }
        self.reply.resize(length, 0);
        self.replies.read_exact(&mut self.reply)?;
        ensure!(
            status.starts_with("HTTP/1.1 200"),
            "the endpoint replied {status}{}",
            String::from_utf8_lossy(&self.reply)
        );
        ensure!(self.strings_in_reply(b"\"u") == 0, "events were undecided");
        Ok(self.strings_in_reply(b"\"f"))
    }

    /// Returns how many strings of the last reply begin with a quote and this letter.
    fn strings_in_reply(&self, beginning: &[u8; 2]) -> u64 {
        self.reply.windows(2).filter(|letters| letters == beginning).count() as u64
    }
}

/// Protocol of a single call.
#[derive(Clone, Copy)]
enum Single {
    Redis,
    Http,
}

/// Measures the single calls per second. Each connection sends its share of the keys, one call after the other.
fn single_calls(address: SocketAddr, args: &EndpointsArgs, single: Single, keys: Keys) -> anyhow::Result<f64> {
    let connections = args.single_connections;
    // All connections share one thread, as in `redis-benchmark`.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        call_all(address, single, Keys::new(1 << 20, 200)).await.context("a first call")?;
        let started = Instant::now();
        let mut calls = JoinSet::new();
        for connection in 0..connections {
            calls.spawn(call_all(address, single, keys.share(connection, connections)));
        }
        let mut first_seen = 0;
        while let Some(called) = calls.join_next().await {
            first_seen += called??;
        }
        let seconds = started.elapsed().as_secs_f64();
        let distinct: u64 = (0..connections).map(|connection| keys.share(connection, connections).distinct()).sum();
        check(first_seen, distinct)?;
        anyhow::Ok(keys.events() as f64 / seconds)
    })
}

/// Makes the calls of one connection, and returns the number of new keys.
async fn call_all(address: SocketAddr, single: Single, keys: Keys) -> anyhow::Result<u64> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    let mut replies = tokio::io::BufReader::new(reader);
    let mut request = Vec::new();
    let mut line = String::new();
    let mut body = Vec::new();
    let mut first_seen = 0;
    for event in 0..keys.events() {
        request.clear();
        let key = [b"clicks:".as_slice(), &keys.key(event)].concat();
        match single {
            Single::Redis => write_set(&mut request, &key, EXPIRE_S)?,
            Single::Http => {
                request.extend_from_slice(
                    b"POST /v1/filters/clicks/observe HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: ",
                );
                request.extend_from_slice(&key);
                request.extend_from_slice(b"\r\nContent-Length: 0\r\n\r\n");
            }
        }
        writer.write_all(&request).await?;
        line.clear();
        replies.read_line(&mut line).await?;
        match (single, line.trim_end()) {
            (Single::Redis, "+OK") | (Single::Http, "HTTP/1.1 200 OK") => first_seen += 1,
            (Single::Redis, "$-1") | (Single::Http, "HTTP/1.1 409 Conflict") => {}
            (_, other) => bail!("an endpoint replied {other:?}"),
        }
        if let Single::Http = single {
            let mut length = 0;
            while line != "\r\n" {
                line.clear();
                replies.read_line(&mut line).await?;
                if let Some(value) = line.strip_prefix("content-length: ") {
                    length = value.trim_end().parse()?;
                }
            }
            body.resize(length, 0);
            replies.read_exact(&mut body).await?;
        }
    }
    Ok(first_seen)
}

impl Figures for EndpointsFigures {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "{} events in batches of {}, {} connections",
            self.events, self.batch_events, self.batch_connections
        )?;
        writeln!(out, "  client of the cluster  {}", self.client.millions())?;
        writeln!(out, "  HTTP, JSON             {}, {:.2} of it", self.json.millions(), self.json_of_client)?;
        writeln!(out, "  HTTP, plain text       {}, {:.2} of it", self.text.millions(), self.text_of_client)?;
        writeln!(out, "single events, no pipeline, {} connections", self.single_connections)?;
        writeln!(out, "  Redis, SET NX EX       {}", self.redis_singles.thousands())?;
        writeln!(out, "  HTTP, Idempotency-Key  {}, {:.2} of it", self.http_singles.thousands(), self.http_of_redis)
    }
}
