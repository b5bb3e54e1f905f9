#!/usr/bin/env bash
# Builds firstseen and firstseen-lab without shared libraries, with the C library's own resolver, for the architecture of the
# build machine. The script prints the path of firstseen, and firstseen-lab is in the same folder.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(rustc -vV | sed -n 's/^host: //p')
# An explicit --target prevents that build scripts and macros are linked statically.
# Build the two packages separately. In one build, cargo would also enable the features in firstseen that firstseen-lab needs
# for simulations.
for package in firstseen-cli firstseen-lab; do
  RUSTFLAGS='-C target-feature=+crt-static' cargo build --locked --profile dist -p "$package" --target "$target" >&2
done
echo "${CARGO_TARGET_DIR:-target}/$target/dist/firstseen"
