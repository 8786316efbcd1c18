#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything that is checked of the Rust binding: check.sh FOLDER builds in FOLDER (absolute). Expects the library
# to be installed where GPUPOOL_PREFIX says, and LD_LIBRARY_PATH to lead to it.
set -euo pipefail
cd "$(dirname "$0")"
export CARGO_TARGET_DIR=$1 GPUPOOL_BACKEND=sim
: "${GPUPOOL_PREFIX:?}" "${LD_LIBRARY_PATH:?}"

features=gpupool/bytemuck,gpupool/cudarc,gpupool/half,gpupool/serde

# Debian's Rust comes without these two.
has() { cargo "$1" --version >/dev/null 2>&1 || { echo "== rust: no cargo $1 here, skipped"; return 1; }; }

echo "== rust: format"
if has fmt; then cargo fmt --check; fi
echo "== rust: clippy"
if has clippy; then
  cargo clippy --quiet --locked --workspace --all-targets --features $features -- --deny warnings
fi
echo "== rust: each feature alone"
for feature in bytemuck half serde; do
  cargo check --quiet --locked -p gpupool --features "$feature"
done
echo "== rust: documentation"
RUSTDOCFLAGS="--deny warnings" cargo doc --quiet --locked --no-deps --features $features
echo "== rust: tests"
cargo test --quiet --locked --workspace --features $features 2>&1 | sed -E '/^(running .*|\.+|)$/d'
echo "== rust: the example of elastic memory"
"$CARGO_TARGET_DIR/debug/examples/elastic" 0.05 | grep "^nobody does: 0 MiB" >/dev/null
echo "== rust: where the library is looked for"
./check_build.sh "$CARGO_TARGET_DIR/check"
shopt -s nullglob
scenarios=(../../tests/scenario/*.json)
if ((${#scenarios[@]})); then
  echo "== rust: scenarios"
  "$CARGO_TARGET_DIR/debug/examples/scenario" "${scenarios[@]}" >/dev/null
  GPUPOOL_LIMIT=256MiB GPUPOOL_FRACTION=0.5 GPUPOOL_CAP=75%,768MiB \
    "$CARGO_TARGET_DIR/debug/examples/scenario" ../../tests/scenario/limited/environment.json >/dev/null
fi
