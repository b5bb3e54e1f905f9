#!/usr/bin/env bash
# Builds a binary that needs no libraries, with the C library's own resolver, for the processor that builds; prints its path.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(rustc -vV | sed -n 's/^host: //p')
# With --target, build scripts and macros are not linked statically.
RUSTFLAGS='-C target-feature=+crt-static' cargo build --locked --profile dist -p firstseen-cli --target "$target" >&2
echo "${CARGO_TARGET_DIR:-target}/$target/dist/firstseen"
