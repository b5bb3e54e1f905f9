//! `firstseen-lab bench cluster` measures the speed of a client with a cluster of one node and with a cluster of three
//! nodes. Redis is measured in the same way if it is installed. Each measurement has its own filter and keys. The
//! clusters and Redis are measured alternately, so that changes in the load of the machine affect all of them.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, value_parser};
use firstseen_cli::flags::filter::KindArg;
use firstseen_client::Filter;
use firstseen_filter::Kind;

use super::Size;
use super::calls::{calls_latency, calls_per_s, until};
use super::figures::{ClusterFigures, Measured, RedisFigures, Side};
use super::flow::{Expected, FlowOperation, events_per_s};
use super::keys::Keys;
use super::local::{LocalCluster, NewFilter};
use super::open_loop::{Latency, latency};
use super::redis::Redis;
use super::redis_pool::RedisPool;

/// Redis gets fewer events by this factor, because a run would take minutes otherwise.
const REDIS_FEWER: u64 = 20;
/// Number of connections to Redis for single calls.
const REDIS_CONNECTIONS: usize = 64;
/// Duration of the calls before the measurement, which establish connections.
const WARM_UP: Duration = Duration::from_millis(300);
/// Duration of the measurement of single calls at each rate.
const CALLS_MEASURED: Duration = Duration::from_secs(3);
/// Capacity of the filter for single calls. It exceeds the number of events at any rate.
const CALLS_CAPACITY: u64 = 10_000_000;
/// First key stream of single calls. Each rate uses the next stream.
const CALLS_STREAM: u64 = 1000;

/// Flags of `firstseen-lab bench cluster`.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    #[command(flatten)]
    size: Size,
    /// Rates of single calls at which the latency is measured, in calls per second; a call starts even if earlier calls
    /// have not returned
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [20_000, 40_000, 60_000, 80_000],
          value_parser = value_parser!(u32).range(1..=1_000_000))]
    calls_per_s: Vec<u32>,
    /// Leave Redis out
    #[arg(long)]
    no_redis: bool,
    /// Leave TLS out
    #[arg(long)]
    no_tls: bool,
    /// Kind of filter to measure; may be given several times, and rates are compared with those of the first kind
    #[arg(long, value_name = "KIND", value_enum, default_value = "generations")]
    kind: Vec<KindArg>,
}

/// Cluster that is measured with filters of one kind.
struct Bench {
    cluster: Rc<LocalCluster>,
    kind: Kind,
    nodes: u32,
    tls: bool,
    values: Vec<f64>,
    latencies: Vec<Latency>,
}

pub(super) fn measure(args: &ClusterArgs) -> anyhow::Result<ClusterFigures> {
    let redis = if args.no_redis { None } else { Redis::start()? };
    let mut benches = Vec::new();
    for tls in [false, true].into_iter().filter(|tls| !(*tls && args.no_tls)) {
        for nodes in [1, 3] {
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
    }
    let mut redis_values = Vec::new();
    for number in 0..args.size.runs {
        for bench in &mut benches {
            bench.values.push(bench.rate(args.size, u64::from(number))?);
        }
        if let Some(redis) = &redis {
            redis.flush()?;
            redis_values.push(redis.events_per_s(Keys::new(u64::from(number), args.size.events / REDIS_FEWER))?);
        }
    }
    let mut redis_latencies = Vec::new();
    for (stream, calls_per_s) in (CALLS_STREAM..).zip(&args.calls_per_s) {
        let calls_per_s = f64::from(*calls_per_s);
        for bench in &mut benches {
            bench.latencies.push(bench.latency(args.size, stream, calls_per_s)?);
        }
        if let Some(redis) = &redis {
            redis.flush()?;
            redis_latencies.push(redis_latency(redis, stream, calls_per_s)?);
        }
    }
    let clusters = benches.into_iter().map(|bench| bench.finish(args.size)).collect::<anyhow::Result<_>>()?;
    let redis =
        redis.is_some().then(|| RedisFigures { events_per_s: Measured::of(redis_values), latencies: redis_latencies });
    Ok(ClusterFigures { events: args.size.events, batch_events: args.size.batch, clusters, redis })
}

impl Bench {
    /// Measures the rate in events per second.
    fn rate(&self, size: Size, number: u64) -> anyhow::Result<f64> {
        self.with_filter(size, size.events, async |filter| {
            events_per_s(filter, Keys::new(number, size.events), size.batch, Expected::New, FlowOperation::Observe)
                .await
        })
    }

    /// Measures the latency of single calls at `rate` calls per second.
    fn latency(&self, size: Size, stream: u64, rate: f64) -> anyhow::Result<Latency> {
        self.with_filter(size, CALLS_CAPACITY, async |filter| {
            calls_latency(filter, 0, rate, until(WARM_UP)).await?;
            calls_latency(filter, stream, rate, until(CALLS_MEASURED)).await
        })
    }

    /// Finishes the measurements. The maximum rate of single calls is measured only with a single node.
    fn finish(self, size: Size) -> anyhow::Result<Side> {
        let mut single_calls_per_s = None;
        if self.nodes == 1 {
            let measured =
                self.with_filter(size, CALLS_CAPACITY, async |filter| calls_per_s(filter, CALLS_STREAM).await);
            single_calls_per_s = Some(measured?);
        }
        Ok(Side {
            kind: self.kind,
            nodes: self.nodes,
            tls: self.tls,
            single_calls_per_s,
            events_per_s: Measured::of(self.values),
            latencies: self.latencies,
        })
    }

    fn with_filter<T>(
        &self,
        size: Size,
        capacity: u64,
        measure: impl AsyncFnOnce(&Filter) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let slicing = format!("horizontal:{}", self.nodes);
        let flags = ["--kind", &self.kind.to_string(), "--slicing", &slicing];
        self.cluster.with_client(NewFilter::bench(capacity, &flags), size.batch, measure)
    }
}

/// Measures the latency of calls to Redis with the same method.
fn redis_latency(redis: &Redis, stream: u64, rate: f64) -> anyhow::Result<Latency> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let pool = Arc::new(RedisPool::connect(redis.address(), REDIS_CONNECTIONS).await?);
        redis_calls(&pool, 0, rate, WARM_UP).await?;
        redis_calls(&pool, stream, rate, CALLS_MEASURED).await
    })
}

async fn redis_calls(pool: &Arc<RedisPool>, stream: u64, rate: f64, measured: Duration) -> anyhow::Result<Latency> {
    let pool = pool.clone();
    let keys = Keys::new(stream, u64::MAX);
    latency(rate, until(measured), move |number| {
        let pool = pool.clone();
        async move { pool.set_new(keys.key(number)).await }
    })
    .await
}
