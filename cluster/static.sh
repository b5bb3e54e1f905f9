#!/usr/bin/env bash
# Builds firstseen and firstseen-lab without shared libraries, with the C library's own resolver, for the processor that builds.
# Prints the path of firstseen; firstseen-lab is next to it.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(rustc -vV | sed -n 's/^host: //p')
# With --target, build scripts and macros are not linked statically.
# One package after the other: built together, firstseen would get the features that firstseen-lab needs for simulations.
for package in firstseen-cli firstseen-lab; do
  RUSTFLAGS='-C target-feature=+crt-static' cargo build --locked --profile dist -p "$package" --target "$target" >&2
done
echo "${CARGO_TARGET_DIR:-target}/$target/dist/firstseen"
