# `just` lists these commands (https://just.systems); CONTRIBUTING.md says more of each.

_list:
    @just --list --unsorted

# Quick tests: of all, or of a crate and what matches, as in `just test routing closing::`
test crate="" filter="":
    cargo test --locked {{ if crate == "" { "--workspace" } else { "-p firstseen-" + crate } }} -- {{ filter }}

# Tests that take minutes each
test-long:
    cargo test --locked --workspace --exclude firstseen-sim --tests --features firstseen-tests/kafka -- --ignored --skip whole_logs --skip at_full_size
    cargo test --locked --profile long -p firstseen-sim --test all -- --ignored

# Format and lints, as CI wants them
lint:
    cargo fmt --all --check
    cargo clippy --locked --workspace --all-targets --features firstseen-tests/kafka,firstseen-pipe/kafka -- -D warnings
    cargo clippy --locked -p firstseen-cli -- -D warnings
    cargo clippy --locked -p firstseen-cli --no-default-features -- -D warnings

# Pages of the API, and the rules for pages and sources
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps
    cargo test --locked -p firstseen-tidy --test all

# A benchmark of a crate: `just bench`, `just bench records parse`, `just bench wire packing`
bench crate="filter" name="observe":
    cargo bench -p firstseen-{{ crate }} --bench {{ name }}

# A storm by its seed
storm seed="0":
    cargo run --locked -p firstseen-lab -- simulate --storms {{ seed }}..$(({{ seed }} + 1))

# All that a seed of a family does, as in `just trace moves 7 > trace.txt`
trace family seed:
    cargo run --locked -p firstseen-lab -- simulate --{{ family }} {{ seed }}..$(({{ seed }} + 1)) --trace

# Whether a rule that nodes break is found, as in `just without SingleFlight`
without rule family="storms" seeds="0..100":
    cargo run --locked -p firstseen-lab -- simulate --{{ family }} {{ seeds }} --without {{ rule }}

# A cluster on this machine, until Ctrl-C
up nodes="3":
    cargo run --locked -- up --nodes {{ nodes }}

# A scenario with real nodes: kill, rolling-restart, pause, ...
chaos name="kill":
    cargo build --locked
    cargo run --locked -p firstseen-lab -- chaos run {{ name }}

# Binaries that need no libraries; prints the path of firstseen, next to which firstseen-lab lies
static:
    @cluster/static.sh

# An image with nothing but these binaries, without a registry
image tag="firstseen:0.2.0":
    cluster/image.sh
    docker build -f cluster/Dockerfile.offline -t {{ tag }} .

# A Debian package, with a unit, man pages and completions (cargo install cargo-deb)
deb:
    contrib/deb/build.sh

# The manifests for Kubernetes as one file: `just manifests | kubectl apply -f -`
manifests:
    @kubectl kustomize contrib/kubernetes

# The crates that are published, each built from its package alone, in order
package:
    cargo package --locked -p firstseen-filter -p firstseen-routing -p firstseen-wire -p firstseen-client

# Everything that must hold before a change lands
ci:
    .ci/run

# The wheel and the source distribution of the Python package, in target/wheels
wheel:
    crates/python/wheel
