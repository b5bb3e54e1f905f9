#!/usr/bin/env bash
# Lays out cluster/image, from which cluster/Dockerfile.offline makes an image without a registry: the binary, linked
# statically, or FIRSTSEEN_BINARY with the libraries that it needs. Prints the path of the binary.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${FIRSTSEEN_BINARY:-}
if [ -z "$binary" ]; then
  target=$(rustc -vV | sed -n 's/^host: //p')
  # With --target, build scripts and macros are not linked statically.
  RUSTFLAGS='-C target-feature=+crt-static' cargo build --locked --profile dist -p firstseen-cli --target "$target" >&2
  binary=${CARGO_TARGET_DIR:-target}/$target/dist/firstseen
fi
rm -rf cluster/image
mkdir -p cluster/image/data cluster/image/certs
cp "$binary" cluster/image/firstseen
for library in $(ldd "$binary" 2>/dev/null | grep -o '/[^ ]*' || true); do
  mkdir -p "cluster/image$(dirname "$library")"
  cp --dereference "$library" "cluster/image$library"
done
echo "$binary"
