//! `firstseen-lab bench cluster`.
//!
//! Promises: every measurement has a filter and keys of its own; systems that are compared are measured in turns. Must
//! not know: how figures are printed.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use firstseen_client::{Client, ConnectOptions, Filter, TlsFiles};
use firstseen_filter::Kind;
use tokio::runtime::Runtime;

use super::ClusterBenchArgs;
use super::calls::{calls_latency, calls_per_s, until};
use super::figures::{ClusterFigures, Figures, Measured, RedisFigures};
use super::flow::{Asks, Expected, WINDOW_MS, events_per_s};
use super::keys::Keys;
use super::local::LocalCluster;
use super::open_loop::{Latency, latency};
use super::redis::Redis;
use super::redis_pool::RedisPool;

/// Redis gets so many times fewer events: a run would take minutes otherwise.
const REDIS_FEWER: u64 = 20;
/// Connections to Redis over which single calls are made.
pub(super) const REDIS_CONNECTIONS: usize = 64;
/// Calls of this long come before those that are measured: connections are made.
const WARM_UP: Duration = Duration::from_millis(300);
/// How long each rate of single calls is measured.
const CALLS_MEASURED: Duration = Duration::from_secs(3);
/// More events than single calls bring at any rate.
const CALLS_CAPACITY: u64 = 10_000_000;
/// The streams of keys of single calls, each rate's after the one before.
const CALLS_STREAM: u64 = 1000;

/// A cluster that is measured with filters of one kind.
struct Bench {
    cluster: Rc<LocalCluster>,
    kind: Kind,
    nodes: u32,
    tls: bool,
    values: Vec<f64>,
    latencies: Vec<Latency>,
}

pub(super) fn run(args: &ClusterBenchArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let redis = if args.no_redis { None } else { Redis::start()? };
    let mut clusters = vec![(1, false), (3, false)];
    if !args.no_tls {
        clusters.extend([(1, true), (3, true)]);
    }
    let mut benches = Vec::new();
    for (nodes, tls) in clusters {
        let cluster = Rc::new(LocalCluster::start(nodes, tls)?);
        benches.extend(args.kind.iter().map(|kind| Bench {
            cluster: cluster.clone(),
            kind: (*kind).into(),
            nodes,
            tls,
            values: Vec::new(),
            latencies: Vec::new(),
        }));
    }
    let mut redis_values = Vec::new();
    for number in 0..args.runs {
        for bench in &mut benches {
            bench.values.push(bench.measure(&runtime, args, u64::from(number))?);
        }
        if let Some(redis) = &redis {
            redis.flush()?;
            redis_values.push(redis.events_per_s(Keys::new(u64::from(number), args.events / REDIS_FEWER))?);
        }
    }
    let mut redis_latencies = Vec::new();
    for (stream, calls_per_s) in (CALLS_STREAM..).zip(&args.calls_per_s) {
        for bench in &mut benches {
            bench.latencies.push(bench.latency(&runtime, args, (stream, f64::from(*calls_per_s)))?);
        }
        if let Some(redis) = &redis {
            redis.flush()?;
            redis_latencies.push(runtime.block_on(redis_latency(redis, (stream, f64::from(*calls_per_s))))?);
        }
    }
    let clusters = benches.into_iter().map(|bench| bench.finish(&runtime, args)).collect::<anyhow::Result<_>>()?;
    let redis =
        redis.is_some().then(|| RedisFigures { events_per_s: Measured::of(redis_values), latencies: redis_latencies });
    let figures = Figures { events: args.events, batch_events: args.batch, clusters, redis };
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &figures)?
    } else {
        figures.print(&mut out)?
    }
    Ok(())
}

impl Bench {
    fn measure(&self, runtime: &Runtime, args: &ClusterBenchArgs, number: u64) -> anyhow::Result<f64> {
        self.with_filter(runtime, args, args.events, async |filter| {
            events_per_s(filter, Keys::new(number, args.events), args.batch, Expected::New, Asks::Observe).await
        })
    }

    /// How long single calls take.
    fn latency(
        &self,
        runtime: &Runtime,
        args: &ClusterBenchArgs,
        (stream, rate): (u64, f64),
    ) -> anyhow::Result<Latency> {
        self.with_filter(runtime, args, CALLS_CAPACITY, async |filter| {
            calls_latency(filter, 0, rate, until(WARM_UP)).await?;
            calls_latency(filter, stream, rate, until(CALLS_MEASURED)).await
        })
    }

    /// How many single calls go through is measured with one node only.
    fn finish(self, runtime: &Runtime, args: &ClusterBenchArgs) -> anyhow::Result<ClusterFigures> {
        let is_first = self.nodes == 1;
        let single_calls_per_s = is_first.then(|| {
            self.with_filter(runtime, args, CALLS_CAPACITY, async |filter| calls_per_s(filter, CALLS_STREAM).await)
        });
        Ok(ClusterFigures {
            kind: self.kind,
            nodes: self.nodes,
            tls: self.tls,
            single_calls_per_s: single_calls_per_s.transpose()?,
            events_per_s: Measured::of(self.values),
            latencies: self.latencies,
        })
    }

    /// Measures with a new filter, and drops it.
    fn with_filter<T>(
        &self,
        runtime: &Runtime,
        args: &ClusterBenchArgs,
        capacity: u64,
        measure: impl AsyncFnOnce(&Filter) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let slicing = format!("horizontal:{}", self.nodes);
        let (kind, capacity) = (self.kind.to_string(), capacity.to_string());
        let window = format!("{}s", WINDOW_MS / 1000);
        let definition = ["--kind", &kind, "--window", &window, "--capacity", &capacity, "--slicing", &slicing];
        self.cluster.filter(&[&["create", "bench"], &definition[..]].concat())?;
        let measured = runtime.block_on(async {
            let client = Client::connect(ConnectOptions {
                tls: self.cluster.client_files().map(|[ca, cert, key]| TlsFiles { ca, cert, key }),
                batch_events_max: args.batch,
                ..ConnectOptions::from(self.cluster.addresses())
            })
            .await?;
            measure(&client.filter("bench").await?).await
        });
        self.cluster.filter(&["drop", "bench", "--yes"])?;
        measured
    }
}

/// How long calls of Redis take, by the same loop.
async fn redis_latency(redis: &Redis, (stream, rate): (u64, f64)) -> anyhow::Result<Latency> {
    let pool = Arc::new(RedisPool::connect(redis.address(), REDIS_CONNECTIONS).await?);
    let calls = async |stream, measured| {
        let (pool, keys) = (pool.clone(), Keys::new(stream, u64::MAX));
        let call = move |number| {
            let pool = pool.clone();
            async move { pool.set_new(keys.key(number)).await }
        };
        latency(rate, until(measured), call).await
    };
    calls(0, WARM_UP).await?;
    calls(stream, CALLS_MEASURED).await
}
