#!/usr/bin/env bash
# Simulates nodes of docker-compose.yml that are far from each other. Packets from one node to another are delayed, and packets
# of producers and operators are not. `docker compose down` removes the delay together with the nodes.
#
#   cluster/delay.sh [MILLISECONDS] [PROJECT]     one way, 25 by default; of the compose project (firstseen)
#
# The script needs root, tc and a kernel with netem. If one of them is missing, it prints a notice and exits with 0.
set -euo pipefail
delay_ms=${1:-25} project=${2:-firstseen}

skip() {
  echo "NO DELAY: $1"
  exit 0
}
[ "$(id -u)" = 0 ] || skip "only root may hold packets back"
command -v tc >/dev/null || skip "tc (iproute2) is not installed"
# Test in a separate network namespace whether the kernel supports netem, so that no other traffic is delayed.
unshare --net tc qdisc add dev lo root netem delay 1ms 2>/dev/null || skip "the kernel has no netem (sch_netem)"

node() {
  docker ps --quiet --filter "label=com.docker.compose.project=$project" --filter "label=com.docker.compose.service=$1"
}
address() { docker inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$1"; }
# Prints the host's end of a container's network link.
link() {
  local number
  number=$(cat "/proc/$(docker inspect --format '{{.State.Pid}}' "$1")/root/sys/class/net/eth0/iflink")
  ip -o link | sed -n "s/^$number: \([^@:]*\).*/\1/p"
}

nodes=()
for name in node-1 node-2 node-3; do
  id=$(node "$name")
  [ -n "$id" ] || { echo "no $name runs in project $project: start the cluster first" >&2; exit 1; }
  nodes+=("$id")
done
for to in "${nodes[@]}"; do
  link=$(link "$to")
  [ -n "$link" ] || { echo "the link of container $to is not found on this host" >&2; exit 1; }
  tc qdisc replace dev "$link" root handle 1: prio bands 4
  tc qdisc replace dev "$link" parent 1:4 handle 40: netem delay "${delay_ms}ms"
  for from in "${nodes[@]}"; do
    [ "$from" = "$to" ] || tc filter add dev "$link" parent 1: protocol ip u32 match ip src "$(address "$from")/32" flowid 1:4
  done
done
echo "nodes are $delay_ms ms from each other, one way"
