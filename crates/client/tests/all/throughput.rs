//! Measures how many events per second pass through a client to a fake node in the same process. This is a benchmark
//! without assertions. Run it with `cargo test -p firstseen-client --release --test all throughput -- --ignored
//! --nocapture`.

use std::time::{Duration, Instant};

use crate::common::{self, FakeCluster, definition};
use firstseen_client::{Batch, Digest, FilterSecret};
use firstseen_routing::ClockSource;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn events_a_second() {
    let cluster = FakeCluster::start(1).await;
    cluster.add_filter("clicks", definition("1h", "horizontal:4"), ClockSource::Wall);
    let client = common::connect(&cluster).await;
    let filter = client.filter("clicks").await.expect("a filter");

    let (started, window) = (Instant::now(), Duration::from_secs(3));
    let callers: Vec<_> = (0..64u64)
        .map(|caller| {
            let filter = filter.clone();
            tokio::spawn(async move {
                let mut calls = 0u64;
                while started.elapsed() < window {
                    filter.observe(&(caller << 40 | calls).to_le_bytes()).await.expect("a verdict");
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    let mut calls = 0;
    for caller in callers {
        calls += caller.await.expect("no panic");
    }
    let batches = cluster.arrivals().len();
    println!("64 callers of one event: {:.0} events/s in {batches} batches", calls as f64 / 3.0);

    let secret = FilterSecret::from_material(&common::SECRET);
    let digests: Vec<Digest> = (0..500_000u64).map(|number| secret.digest(&number.to_be_bytes())).collect();
    let started = Instant::now();
    filter.observe_batch(Batch::hashed(&|_| digests.to_vec())).await.expect("verdicts");
    println!("one call of 500,000 events: {:.0} events/s", 500_000.0 / started.elapsed().as_secs_f64());
}
