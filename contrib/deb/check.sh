#!/usr/bin/env bash
# Installs a Debian package in a container with systemd, which is made of Debian's packages, and runs its unit: it does not begin in
# a folder that nobody called a new node's, it lives through a reload, it has its data after a restart, and its sandbox is tight.
# Ends well with a notice where something is missing that this needs.
#
#   contrib/deb/check.sh [PACKAGE]      what contrib/deb/build.sh builds, by default
set -euo pipefail
cd "$(dirname "$0")/../.."

missing() {
  echo "NOT CHECKED: $1"
  exit 0
}
docker info >/dev/null 2>&1 || missing "no container engine answers (docker info)"
for tool in lintian mmdebstrap $([ $# -gt 0 ] || echo cargo-deb); do
  command -v "$tool" >/dev/null || missing "$tool is not installed"
done

package=${1:-$(contrib/deb/build.sh)}
lintian --fail-on error,warning "$package"
echo "lintian has nothing to say"

image=firstseen-deb:check container=firstseen-deb-check
end() {
  docker rm --force "$container" >/dev/null 2>&1 || true
  docker image rm "$image" >/dev/null 2>&1 || true
}
trap end EXIT
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,man-db "$suite" - | docker import - "$image" >/dev/null ||
  missing "no root file system could be made of Debian's packages"
docker run --detach --name "$container" --tty --cap-add SYS_ADMIN --security-opt seccomp=unconfined \
  --security-opt apparmor=unconfined --cgroupns=host --volume /sys/fs/cgroup:/sys/fs/cgroup:rw --tmpfs /run --tmpfs /run/lock \
  --tmpfs /tmp "$image" /sbin/init >/dev/null
inside() { docker exec "$container" "$@"; }
soon() { # what, command...
  local deadline=$((SECONDS + 120)) what=$1
  shift
  until "$@" >/dev/null 2>&1; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      echo "FAILED: $what" >&2
      inside journalctl --unit firstseen --no-pager --lines 50 >&2 || true
      exit 1
    fi
    sleep 1
  done
}
soon "systemd does not run" inside systemctl is-active --quiet basic.target

docker cp "$package" "$container:/root/firstseen.deb" >/dev/null
inside dpkg --install /root/firstseen.deb
state() { inside systemctl show --property "$1" --value firstseen; }
is() { [ "$(state "$1")" = "$2" ] || { echo "FAILED: $1 is $(state "$1"), not $2" >&2; return 1; }; }
is ActiveState inactive

echo "== a folder that nobody has called a new node's"
inside systemctl start firstseen
soon "a node began in an empty folder" is ExecMainStatus 2
inside journalctl --unit firstseen --no-pager | grep -F "put an empty file \`new-node\` there"

echo "== a new node"
inside touch /var/lib/firstseen/new-node
inside systemctl restart firstseen
init() { inside firstseen cluster init --addr 127.0.0.1:7400; }
soon "no cluster was made" init
soon "the node is not ready" inside firstseen node health --config /etc/firstseen/node.toml
inside firstseen filter create clicks --cluster 127.0.0.1:7400 --window 1h --clock wall --capacity 10k --durability durable
inside sh -c 'seq 100 | firstseen dedup --cluster 127.0.0.1:7400 --filter clicks > /tmp/once 2>/tmp/report'
main=$(state MainPID)
inside systemctl reload firstseen
sleep 1
is MainPID "$main"
inside systemctl restart firstseen
soon "the node is not ready again" inside firstseen node health --config /etc/firstseen/node.toml
inside sh -c 'seq 101 | firstseen dedup --cluster 127.0.0.1:7400 --filter clicks > /tmp/twice 2>/tmp/report'
[ "$(inside cat /tmp/twice)" = 101 ] || { echo "FAILED: a restart has lost events" >&2; exit 1; }
inside sh -c '[ "$(stat --format %U:%a /var/lib/firstseen)" = firstseen:700 ] && ! [ -e /var/lib/firstseen/new-node ]'
inside systemd-analyze security --no-pager --threshold=30 firstseen | tail -n 1

echo "== man pages, an upgrade, and the end"
inside man --warnings --where firstseen-cluster-safe-to-stop
inside dpkg --install /root/firstseen.deb >/dev/null
is ActiveState active
inside dpkg --purge firstseen >/dev/null
is ActiveState inactive
inside test -e /var/lib/firstseen/meta.redb
echo "the package was installed, run and removed"
