#!/usr/bin/env bash
# Builds a Debian package of the binary, with man pages, completions and a unit, by cargo-deb (cargo install cargo-deb); prints
# its path. On the oldest Debian that it shall be installed on, as it links the C library of the machine that builds.
#
#   contrib/deb/build.sh [PROFILE]      cargo's profile, dist by default
set -euo pipefail
cd "$(dirname "$0")/../.."
# A test may have it from `.ci/timed`.
unset RUSTC_BOOTSTRAP
profile=${1:-dist}
target=${CARGO_TARGET_DIR:-target}
cargo build --locked --profile "$profile" -p firstseen-cli >&2
binary=$target/$profile/firstseen

# Where the assets of crates/cli/Cargo.toml are looked for.
beside=contrib/deb/beside
rm -rf "$beside"
mkdir -p "$beside/man"
"$binary" man --out "$beside/man"
for shell in bash zsh fish; do "$binary" completions "$shell" > "$beside/$shell"; done
cargo deb --locked --no-build --profile "$profile" -p firstseen-cli
