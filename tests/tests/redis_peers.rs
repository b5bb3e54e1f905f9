//! Compares the Redis endpoint with software that users have today: fakeredis as a reference, and programs that
//! deduplicate with Redis.

use serde_json::Value;

use crate::python::{REDIS_PY, fetch, run};
use crate::redis_endpoint::RedisEndpoint;
use crate::run::{Folder, number};

const FAKEREDIS: [&str; 3] = ["fakeredis==2.41.0", "pyprobables==0.7.0", REDIS_PY];
const SCRAPY_REDIS: [&str; 4] = ["scrapy-redis==0.9.1", "scrapy==2.19.0", "fakeredis==2.41.0", REDIS_PY];
const DJANGO: [&str; 2] = ["django==5.2.19", REDIS_PY];

const SEED: u64 = 20_261;
const COMMANDS: u64 = 4_000;
/// Commands that must occur among those whose replies are compared.
const COMPARED: [&str; 17] = [
    "BF.ADD",
    "BF.MADD",
    "BF.EXISTS",
    "BF.MEXISTS",
    "BF.INSERT",
    "BF.CARD",
    "BF.RESERVE",
    "BF.INFO",
    "SADD",
    "SISMEMBER",
    "SMISMEMBER",
    "SET",
    "SETNX",
    "EXISTS",
    "DEL",
    "TYPE",
    "EXEC",
];

/// Checks that the same commands get the same replies as from fakeredis, except for the differences listed in
/// docs/reference/redis.md.
#[test]
#[ignore = "it fetches fakeredis from a registry, and is skipped with a notice where there is none"]
fn the_endpoint_replies_as_fakeredis_does() {
    let folder = Folder::new();
    if !fetch(&folder, &FAKEREDIS) {
        return;
    }
    let mapped = "[[redis.prefix]]\nmatch = \"dedup:\"\nfilter = \"clicks\"\n";
    let settings = format!("sandbox = true\nmissing = \"zero\"\nforget = \"ignore\"\n{mapped}");
    let endpoint = RedisEndpoint::with_cluster(&settings);
    for name in ["tags2", "tags3"] {
        endpoint.run(&format!("filter create {name} --capacity 100k --fpr 1e-8 --clock wall --window 1h"));
    }
    drop(endpoint.client());
    for protocol in [2, 3] {
        println!("version {protocol}, seed {SEED}");
        let arguments = [u64::from(endpoint.port), protocol, SEED, COMMANDS].map(|number| number.to_string());
        let said = run(&folder, include_str!("python/oracle.py"), &arguments);
        let said: Value = serde_json::from_str(said.trim()).unwrap_or_else(|error| panic!("{error}: {said}"));
        println!("{said:#}");
        assert_eq!(said["differences"], Value::Array(Vec::new()), "version {protocol}, seed {SEED}");
        assert_eq!(said["unmet"], Value::Array(Vec::new()), "rows of the table that nothing needs");
        assert!(number(&said, "commands") >= 2_000, "{said}");
        for name in COMPARED {
            assert!(said["sent"][name].as_u64() > Some(10), "{name} was hardly sent: {said}");
        }
    }
}

/// Runs two crawls at the same time, and one after them. The name of the filter is the default key of scrapy-redis.
#[test]
#[ignore = "it fetches scrapy-redis from a registry, and is skipped with a notice where there is none"]
fn crawls_of_scrapy_redis_ask_for_every_page_once() {
    let folder = Folder::new();
    if !fetch(&folder, &SCRAPY_REDIS) {
        return;
    }
    let endpoint = RedisEndpoint::with_cluster("");
    endpoint.run("filter create pages:dupefilter --capacity 10k --fpr 1e-8 --clock wall --window 24h");
    drop(endpoint.client());
    let said = run(&folder, include_str!("python/crawler.py"), &[endpoint.port.to_string()]);
    assert!(said.contains("every page once"), "{said}");
}

/// Sends webhooks to a Django site over HTTP, each of them several times and concurrently.
#[test]
#[ignore = "it fetches Django from a registry, and is skipped with a notice where there is none"]
fn a_site_of_django_handles_every_webhook_once() {
    let folder = Folder::new();
    if !fetch(&folder, &DJANGO) {
        return;
    }
    let endpoint = RedisEndpoint::with_cluster("[[redis.prefix]]\nmatch = \"webhooks:1:\"\nfilter = \"webhooks\"\n");
    endpoint.run("filter create webhooks --capacity 10k --fpr 1e-8 --clock wall --window 10m");
    drop(endpoint.client());
    let said = run(&folder, include_str!("python/django_site.py"), &[endpoint.port.to_string()]);
    assert!(said.contains("every webhook once"), "{said}");
}

#[test]
#[ignore = "it fetches Django from a registry, and is skipped with a notice where there is none"]
fn a_cache_of_django_adds_every_key_once() {
    let folder = Folder::new();
    if !fetch(&folder, &DJANGO) {
        return;
    }
    // This is the prefix that Django adds to its keys.
    let endpoint = RedisEndpoint::with_cluster("[[redis.prefix]]\nmatch = \":1:\"\nfilter = \"clicks\"\n");
    drop(endpoint.client());
    let said = run(&folder, include_str!("python/django_cache.py"), &[endpoint.port.to_string()]);
    assert!(said.contains("every webhook once"), "{said}");
}
