#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the crates for the registry: gpupool-sys, with the library's sources in it, and gpupool.
#
#   build.sh FOLDER            the packages go to FOLDER
#   build.sh FOLDER --verify   and both are compiled from what is in them, as `cargo publish --dry-run` does
#
# Once a maintainer has logged in, `cargo publish --workspace` in bindings/rust publishes them.
set -euo pipefail
out=$(realpath -m "${1:?usage: build.sh FOLDER [--verify]}")
verify=(--no-verify)
[ "${2:-}" != --verify ] || verify=()
cd "$(dirname "$0")/../.."
export CARGO_TARGET_DIR=$PWD/build/packaging/rust
mkdir -p "$out" "$CARGO_TARGET_DIR"
# The packages must do without an installed library, even if there is one here.
unset GPUPOOL_PREFIX
export PKG_CONFIG_LIBDIR=$CARGO_TARGET_DIR PKG_CONFIG_PATH=
echo "== rust: packages"
rm -f "$CARGO_TARGET_DIR"/package/*.crate
cargo package --quiet --locked --workspace --allow-dirty "${verify[@]}" --manifest-path bindings/rust/Cargo.toml
cp "$CARGO_TARGET_DIR"/package/*.crate "$out"
