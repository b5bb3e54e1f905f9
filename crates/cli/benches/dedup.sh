#!/usr/bin/env bash
# Compares `firstseen dedup` with huniq on a generated CSV. Prints the median time of five runs in seconds, and the peak memory.
# Usage: crates/cli/benches/dedup.sh [LINES]; temporary files go to $TMPDIR (about 0.9 GB for 10 million lines).
set -euo pipefail
cd "$(dirname "$0")/../../.."
lines=${1:-10000000}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
target=${CARGO_TARGET_DIR:-target}/dist
cargo build --profile dist -q -p firstseen-cli --bin firstseen --example generate_clicks
"$target/examples/generate_clicks" "$lines" > "$folder/clicks.csv"
tail -n +2 "$folder/clicks.csv" | cut -d, -f2-4 > "$folder/keys.txt"

# Prints the median time of five runs in seconds, and the peak memory of the last run.
measure() {
    local name=$1; shift
    for _ in 1 2 3 4 5; do
        python3 - "$@" <<'PY'
import resource, subprocess, sys, time
start = time.monotonic()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(f"{time.monotonic() - start:.3f} {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f}")
PY
    done | sort -n | sed -n 3p | awk -v name="$name" '{ printf "%-34s %7.2f s %6d MiB\n", name, $1, $2 }'
}

dedup=("$target/firstseen" dedup --format csv --key user,campaign,ad --report none --seed 1)
measure "firstseen, unbounded" "${dedup[@]}" "$folder/clicks.csv"
measure "firstseen, sliding hour" "${dedup[@]}" --time time --window 1h --capacity 3M "$folder/clicks.csv"
measure "firstseen, jumping hour" \
    "${dedup[@]}" --time time --window 1h --kind generations --capacity 3M "$folder/clicks.csv"
if command -v huniq >/dev/null; then
    measure "huniq on the cut columns" sh -c "huniq < '$folder/keys.txt'"
else
    echo "huniq is not installed, so it is not measured: cargo install huniq --version 2.7.0"
fi
