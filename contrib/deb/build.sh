#!/usr/bin/env bash
# Builds a Debian package of firstseen and firstseen-lab, with man pages, completions and a unit, by cargo-deb (cargo install cargo-deb); prints
# its path. On the oldest Debian that it shall be installed on, as it links the C library of the machine that builds.
#
#   contrib/deb/build.sh [PROFILE]      cargo's profile, dist by default
set -euo pipefail
cd "$(dirname "$0")/../.."
# A test may have it from `.ci/timed`.
unset RUSTC_BOOTSTRAP
profile=${1:-dist}
target=${CARGO_TARGET_DIR:-target}
# One package after the other: built together, firstseen would get the features that firstseen-lab needs for simulations.
cargo build --locked --profile "$profile" -p firstseen-cli >&2
cargo build --locked --profile "$profile" -p firstseen-lab >&2

# Where the assets of crates/cli/Cargo.toml are looked for.
beside=contrib/deb/beside
rm -rf "$beside"
mkdir -p "$beside/man"
for program in firstseen firstseen-lab; do
  "$target/$profile/$program" man --out "$beside/man"
  for shell in bash zsh fish; do
    mkdir -p "$beside/$shell"
    "$target/$profile/$program" completions "$shell" > "$beside/$shell/$program"
  done
done
cargo deb --locked --no-build --profile "$profile" -p firstseen-cli
