#!/usr/bin/env bash
# Tests the cluster of docker-compose.yml without a registry. The script builds a static binary, starts three nodes, sends the
# sample log through them, and compares the verdicts with those of a run in one process. It does so for a filter whose events
# are divided over the nodes, for a filter whose positions are divided, and for a tree with a producer at each of three sites.
# If no container engine answers, the script prints a notice and exits with 0.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! docker info >/dev/null 2>&1; then
  echo "NOT CHECKED: no container engine answers (docker info), so the cluster of docker-compose.yml was not tried"
  exit 0
fi
if docker compose version >/dev/null 2>&1; then
  compose=(docker compose)
elif command -v docker-compose >/dev/null; then
  compose=(docker-compose)
else
  echo "NOT CHECKED: neither docker compose nor docker-compose is installed"
  exit 0
fi

binary=$(cluster/image.sh)

export FIRSTSEEN_DOCKERFILE=cluster/Dockerfile.offline FIRSTSEEN_IMAGE=firstseen:check
compose+=(-p firstseen-check)
end() {
  "${compose[@]}" --profile sites down --volumes --remove-orphans >/dev/null 2>&1 || true
  docker image rm firstseen:check >/dev/null 2>&1 || true
  rm -rf cluster/image
}
trap end EXIT

# Prints the number in a field of the JSON report. The report is the last line that begins with a brace.
field() { grep -o '{.*}' | tail -n 1 | grep -o "\"$1\":[0-9]*" | head -n 1 | cut -d: -f2; }

wait_for() { # seconds, what, command...
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      echo "FAILED: $what" >&2
      "${compose[@]}" ps >&2 || true
      "${compose[@]}" logs --tail=30 >&2 || true
      exit 1
    fi
    sleep 1
  done
}

healthy() { [ "$(docker inspect --format '{{.State.Health.Status}}' "$(container "$1")" 2>/dev/null)" = healthy ]; }
container() {
  docker ps --all --quiet --filter label=com.docker.compose.project=firstseen-check \
    --filter "label=com.docker.compose.service=$1"
}
ended() { [ "$(docker inspect --format '{{.State.Status}}' "$(container "$1")" 2>/dev/null)" = exited ]; }

# Producers at three sites read the same log at the same time. Together they must pass on the same records as one process, and
# leaves must answer repeats of their own site.
check_tree() {
  echo "== a tree over three sites"
  local once site told first_seen=0 once_first_seen leaf
  once=$("$binary" dedup --format clf --capacity 100k --fpr 0.000001 --seed 1 --out /dev/null --report json \
    examples/data/apache_logs.gz 2>&1)
  once_first_seen=$(echo "$once" | field first_seen)
  cluster/delay.sh 25 firstseen-check
  "${compose[@]}" --profile sites up --detach athens ioannina oslo
  for site in athens ioannina oslo; do
    wait_for 60 "the producer at $site has not ended" ended "$site"
    told=$(docker logs "$(container "$site")" 2>&1)
    leaf=$(echo "$told" | grep -o '"duplicates_by_level":\[[0-9]*,[0-9]*\]' | tr -d ']' | cut -d, -f2)
    if [ "${leaf:-0}" -eq 0 ] || [ "$(echo "$told" | field undecided)" != 0 ]; then
      echo "FAILED: the producer at $site found no repeats at its leaf, or some events were undecided: $told" >&2
      exit 1
    fi
    first_seen=$((first_seen + $(echo "$told" | field first_seen)))
    printf '%-12s %s repeats found at the leaf\n' "$site" "$leaf"
  done
  if [ "$first_seen" != "$once_first_seen" ]; then
    echo "FAILED: first_seen is $once_first_seen in one process and $first_seen over three sites" >&2
    exit 1
  fi
  printf '%-12s %s\n' first_seen "$first_seen"
}

expected=$("$binary" dedup --format clf --window 24h --capacity 100k --fpr 0.000001 --seed 1 --out /dev/null \
  --report json examples/data/apache_logs.gz 2>&1)
for slicing in horizontal:3 vertical:3; do
  echo "== $slicing"
  FIRSTSEEN_SLICING=$slicing "${compose[@]}" up --detach --build
  for node in node-1 node-2 node-3; do
    wait_for 120 "$node is not healthy" healthy "$node"
  done
  wait_for 120 "the producer has not ended" ended producer
  told=$(docker logs "$(container producer)" 2>&1)
  for name in events first_seen duplicates undecided rejected; do
    here=$(echo "$expected" | field "$name") there=$(echo "$told" | field "$name")
    if [ -z "$there" ] || [ "$here" != "$there" ]; then
      echo "FAILED: $name is $here in one process and '$there' in the cluster ($slicing): $told" >&2
      exit 1
    fi
    printf '%-12s %s\n' "$name" "$there"
  done
  if [ "$slicing" = horizontal:3 ]; then
    check_tree
  fi
  "${compose[@]}" --profile sites down --volumes --remove-orphans
done
echo "the cluster told what one process tells"
