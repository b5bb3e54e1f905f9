//! Runs the unmodified test suite of redis-py for RedisBloom against the endpoint's sandbox mode.

use crate::python::{REDIS_PY, fetch_by, python, said};
use crate::redis_endpoint::RedisEndpoint;
use crate::run::Folder;

/// Test cases about Bloom filters, without those that call commands of other modules.
const CASES: &str = "bf_ and (add or insert or info or card)";

#[test]
#[ignore = "it fetches the suite from a registry, and is skipped with a notice where there is none"]
fn the_suite_of_redis_py_passes_unmodified() {
    let folder = Folder::new();
    let install = ["-m", "pip", "install", "-q", "--target", "packages", REDIS_PY, "pytest<9", "pytest-asyncio<0.24"];
    let download = ["-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", REDIS_PY];
    let unpack = ["-c", "import glob, tarfile; tarfile.open(glob.glob('redis-*.tar.gz')[0]).extractall('suite')"];
    if !fetch_by(&folder, &[&install, &download, &unpack]) {
        return;
    }
    let suite = folder.path("suite").join(REDIS_PY.replace("==", "-"));
    let endpoint = RedisEndpoint::open("sandbox = true\n");
    drop(endpoint.node.folder.run(&format!("cluster init --addr {}", endpoint.node.address)));
    drop(endpoint.client());
    for protocol in [2, 3] {
        let url = format!("redis://127.0.0.1:{}/0?protocol={protocol}", endpoint.port);
        let run = format!(
            "import sys; sys.path.insert(0, '../../packages'); import pytest; sys.exit(pytest.main(['-q', 'tests/test_bloom.py', \
             'tests/test_asyncio/test_bloom.py', '-o', 'asyncio_mode=auto', '-p', 'no:cacheprovider', '-W', 'ignore', '-k', \
             '{CASES}', '--redis-url', '{url}']))"
        );
        let (is_well, text) = said(python(&folder, &["-c", &run]).current_dir(&suite).output().expect("python3"));
        assert!(is_well && text.contains("12 passed"), "version {protocol}: {text}");
    }
}
