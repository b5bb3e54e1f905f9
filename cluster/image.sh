#!/usr/bin/env bash
# Lays out cluster/image, from which cluster/Dockerfile.offline makes an image without a registry: the binary, linked
# statically, or FIRSTSEEN_BINARY with the libraries that it needs. Prints the path of the binary.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${FIRSTSEEN_BINARY:-}
if [ -z "$binary" ]; then
  binary=$(cluster/static.sh)
fi
rm -rf cluster/image
mkdir -p cluster/image/data cluster/image/certs
touch cluster/image/data/new-node
cp "$binary" cluster/image/firstseen
for library in $(ldd "$binary" 2>/dev/null | grep -o '/[^ ]*' || true); do
  mkdir -p "cluster/image$(dirname "$library")"
  cp --dereference "$library" "cluster/image$library"
done
echo "$binary"
