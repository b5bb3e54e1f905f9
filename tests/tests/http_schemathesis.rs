//! Runs schemathesis on the OpenAPI document of the HTTP endpoint, with requests that match the document and requests
//! that do not.

use crate::http_wire::HttpNode;
use crate::local_cluster::eventually;
use crate::python::{fetch, python, said};
use crate::run::Folder;

const SCHEMATHESIS: [&str; 1] = ["schemathesis==4.32.5"];
const SEED: u64 = 57;

/// Configuration for Schemathesis, which tests the HTTP endpoint with generated requests. The configuration lists the
/// status codes that the endpoint may return for a request although the request matches the schemas. One of these codes
/// is 422, which reports errors that a schema cannot express, such as lists of different lengths.
const CONFIG: &str = r#"
[parameters]
"path.name" = "FILTER"

[checks.positive_data_acceptance]
expected-statuses = ["2xx", 404, 409, 422, 503]

[checks.not_a_server_error]
expected-statuses = ["2xx", "4xx", 503]
"#;

#[test]
#[ignore = "it fetches schemathesis from a registry, and is skipped with a notice where there is none"]
fn schemathesis_finds_nothing() {
    let folder = Folder::new();
    if !fetch(&folder, &SCHEMATHESIS) {
        return;
    }
    let endpoint = HttpNode::start("");
    endpoint.run("filter create jobs --kind cuckoo --capacity 1M --fpr 1e-8 --window 1h --claims 30s");
    for (filter, calls) in [
        ("clicks", "(observe|test|dedup)$"),
        ("jobs", "(observe|test|claim|confirm|release)$"),
        ("clicks", "(filters|name.|openapi.json)$"),
    ] {
        folder.write("schemathesis.toml", CONFIG.replace("FILTER", filter));
        let at = format!("http://127.0.0.1:{}/v1/openapi.json", endpoint.port);
        let (seed, examples) = (SEED.to_string(), "200");
        let arguments = [
            "-m",
            "schemathesis.cli",
            "run",
            &at,
            "--include-path-regex",
            calls,
            "--checks",
            "all",
            "--max-examples",
            examples,
            "--seed",
            &seed,
        ];
        let output = python(&folder, &arguments).output().expect("python3");
        let (is_well, text) = said(output);
        assert!(is_well, "{filter} {calls}: {text}");
        println!("{text}");
    }
    eventually("the endpoint", || endpoint.ask("GET", "/v1/filters", &[], b"").status == 200);
}
