#!/usr/bin/env bash
# Creates the folder cluster/image, from which cluster/Dockerfile.offline makes an image without a registry. The folder gets
# firstseen and firstseen-lab, linked statically. If FIRSTSEEN_BINARY and FIRSTSEEN_LAB_BINARY are set, it gets those binaries
# with the libraries that they need instead. If only FIRSTSEEN_BINARY is set, the image has no firstseen-lab. The script prints
# the path of firstseen.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${FIRSTSEEN_BINARY:-}
lab=${FIRSTSEEN_LAB_BINARY:-}
if [ -z "$binary" ]; then
  binary=$(cluster/static.sh)
  lab=$(dirname "$binary")/firstseen-lab
fi
rm -rf cluster/image
mkdir -p cluster/image/data cluster/image/certs
touch cluster/image/data/new-node
cp "$binary" cluster/image/firstseen
[ -z "$lab" ] || cp "$lab" cluster/image/firstseen-lab
for library in $(ldd "$binary" ${lab:+"$lab"} 2>/dev/null | grep -o '[[:space:]]/[^ ]*' | sort -u || true); do
  mkdir -p "cluster/image$(dirname "$library")"
  cp --dereference "$library" "cluster/image$library"
done
echo "$binary"
