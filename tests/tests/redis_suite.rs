//! The test suite of redis-py for RedisBloom, unmodified, against the sandbox.

use std::process::Command;

use crate::redis_door::Door;
use crate::run::Folder;

/// The version whose suite is run.
const REDIS_PY: &str = "redis==5.0.8";
/// What of it concerns Bloom filters, without what calls commands of other modules.
const CASES: &str = "bf_ and (add or insert or info or card)";

fn python(folder: &Folder, arguments: &[&str]) -> Option<(bool, String)> {
    let output = Command::new("python3").args(arguments).current_dir(folder.path("")).output().ok()?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Some((output.status.success(), text))
}

/// The folder of the suite; none where there is no Python, or no way to the registry.
fn fetch(folder: &Folder) -> Option<String> {
    let install = ["-m", "pip", "install", "-q", "--target", "packages", REDIS_PY, "pytest<9", "pytest-asyncio<0.24"];
    let fetch = ["-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", REDIS_PY];
    let unpack = ["-c", "import glob, tarfile; tarfile.open(glob.glob('redis-*.tar.gz')[0]).extractall('suite')"];
    for step in [&install[..], &fetch, &unpack] {
        let (is_done, text) = python(folder, step)?;
        if !is_done {
            println!("{text}");
            return None;
        }
    }
    Some(format!("suite/{}", REDIS_PY.replace("==", "-")))
}

#[test]
#[ignore = "it fetches the suite from a registry, and is skipped with a notice where there is none"]
fn the_suite_of_redis_py_passes_unmodified() {
    let folder = Folder::new();
    let Some(suite) = fetch(&folder) else {
        println!("skipped: redis-py cannot be fetched from here");
        return;
    };
    let door = Door::open("sandbox = true\n");
    drop(door.node.folder.run(&format!("cluster init --addr {}", door.node.address)));
    drop(door.client());
    for protocol in [2, 3] {
        let url = format!("redis://127.0.0.1:{}/0?protocol={protocol}", door.port);
        let run = format!(
            "import sys; sys.path.insert(0, '../../packages'); import pytest; sys.exit(pytest.main(['-q', 'tests/test_bloom.py', \
             'tests/test_asyncio/test_bloom.py', '-o', 'asyncio_mode=auto', '-p', 'no:cacheprovider', '-W', 'ignore', '-k', \
             '{CASES}', '--redis-url', '{url}']))"
        );
        let output =
            Command::new("python3").args(["-c", &run]).current_dir(folder.path(&suite)).output().expect("python3");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success() && text.contains("12 passed"), "version {protocol}: {text}");
    }
}
