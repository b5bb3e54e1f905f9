//! `firstseen bench cluster`.
//!
//! Promises: every measurement has a filter and keys of its own; systems that are compared are measured in turns. Must
//! not know: how figures are printed.

use firstseen_client::{Client, Filter, TlsFiles};
use tokio::runtime::Runtime;

use super::ClusterBenchArgs;
use super::calls::{calls_per_s, latency};
use super::figures::{ClusterFigures, Figures, Measured};
use super::flow::{Expected, WINDOW_MS, events_per_s};
use super::keys::Keys;
use super::local::LocalCluster;
use crate::bench::redis::Redis;

/// Redis gets so many times fewer events: a run would take minutes otherwise.
const REDIS_FEWER: u64 = 20;

/// A cluster that is measured.
struct Bench {
    cluster: LocalCluster,
    nodes: u32,
    tls: bool,
    values: Vec<f64>,
}

pub(super) fn run(args: &ClusterBenchArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let redis = if args.no_redis { None } else { Redis::start()? };
    let mut kinds = vec![(1, false), (3, false)];
    if !args.no_tls {
        kinds.extend([(1, true), (3, true)]);
    }
    let mut benches = Vec::new();
    for (nodes, tls) in kinds {
        benches.push(Bench { cluster: LocalCluster::start(nodes, tls)?, nodes, tls, values: Vec::new() });
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
    let clusters = benches.into_iter().map(|bench| bench.finish(&runtime, args)).collect::<anyhow::Result<_>>()?;
    let redis_events_per_s = (!redis_values.is_empty()).then(|| Measured::of(redis_values));
    let figures = Figures { events: args.events, batch_events: args.batch, clusters, redis_events_per_s };
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
        self.with_filter(runtime, args, async |filter| {
            events_per_s(filter, Keys::new(number, args.events), args.batch, Expected::New).await
        })
    }

    /// Single calls come last: they are measured with the first of each kind only.
    fn finish(self, runtime: &Runtime, args: &ClusterBenchArgs) -> anyhow::Result<ClusterFigures> {
        let (mut single_calls_per_s, mut at_half) = (None, None);
        if self.nodes == 1 {
            let calls = self.with_filter(runtime, args, async |filter| {
                let calls = calls_per_s(filter, 1000).await?;
                Ok((calls, latency(filter, 1001, calls / 2.0).await?))
            })?;
            (single_calls_per_s, at_half) = (Some(calls.0), Some(calls.1));
        }
        let events_per_s = Measured::of(self.values);
        Ok(ClusterFigures { nodes: self.nodes, tls: self.tls, events_per_s, single_calls_per_s, latency: at_half })
    }

    /// Measures with a new filter, and drops it.
    fn with_filter<T>(
        &self,
        runtime: &Runtime,
        args: &ClusterBenchArgs,
        measure: impl AsyncFnOnce(&Filter) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let slicing = format!("horizontal:{}", self.nodes);
        let capacity = args.events.to_string();
        let window = format!("{}s", WINDOW_MS / 1000);
        let definition = ["--kind", "generations", "--window", &window, "--capacity", &capacity, "--slicing", &slicing];
        self.cluster.filter(&[&["create", "bench"], &definition[..]].concat())?;
        let measured = runtime.block_on(async {
            let files = self.cluster.client_files().map(|[ca, cert, key]| TlsFiles { ca, cert, key });
            let mut builder = Client::builder().seeds(self.cluster.addresses()).batch_events_max(args.batch);
            if let Some(files) = files {
                builder = builder.tls(files);
            }
            let client = builder.connect().await?;
            measure(&client.filter("bench").await?).await
        });
        self.cluster.filter(&["drop", "bench", "--yes"])?;
        measured
    }
}
