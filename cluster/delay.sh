#!/usr/bin/env bash
# Puts the nodes of docker-compose.yml far from each other: packets from one node to another are held back for a while,
# those of producers and operators are not. `down` of the cluster takes the delay away with the nodes.
#
#   cluster/delay.sh [MILLISECONDS] [PROJECT]     one way, 25 by default; of the compose project (firstseen)
#
# Needs root, tc and a kernel with netem; ends well with a notice where one of them is missing.
set -euo pipefail
delay_ms=${1:-25} project=${2:-firstseen}

skip() {
  echo "NO DELAY: $1"
  exit 0
}
[ "$(id -u)" = 0 ] || skip "only root may hold packets back"
command -v tc >/dev/null || skip "tc (iproute2) is not installed"
# Tried in a network of its own first, where nothing else is held back.
unshare --net tc qdisc add dev lo root netem delay 1ms 2>/dev/null || skip "the kernel has no netem (sch_netem)"

node() {
  docker ps --quiet --filter "label=com.docker.compose.project=$project" --filter "label=com.docker.compose.service=$1"
}
address() { docker inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$1"; }
# The end of a container's link that is on this side.
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
