#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How programs find the library when they are built, and what they are told where they do not: check_build.sh FOLDER
# builds in FOLDER (absolute). Expects what check.sh does.
set -euo pipefail
cd "$(dirname "$0")"
: "${GPUPOOL_PREFIX:?}"
export CARGO_TARGET_DIR=$1/build

# says WORDS COMMAND...: the command fails, and its build script's last words are three lines, WORDS among them.
says() {
  local words=$1 output
  shift
  if output=$("$@" 2>&1); then
    echo "it did not fail: $*" >&2
    return 1
  fi
  output=${output##*--- stderr}
  if [[ $output != *"$words"* || $output == *panicked* || $(grep -c . <<<"$output") != 3 ]]; then
    echo "not \"$words\" in three lines: $output" >&2
    return 1
  fi
}

# The same folder throughout, so that each step has to notice that the environment has changed.
build=(cargo build --quiet --locked -p gpupool-sys --no-default-features)
says "libgpupool 0.2 was not found" env -u GPUPOOL_PREFIX PKG_CONFIG_PATH= PKG_CONFIG_LIBDIR=/nowhere "${build[@]}"
says 'GPUPOOL_PREFIX is "/nowhere"' env GPUPOOL_PREFIX=/nowhere "${build[@]}"
DOCS_RS=1 "${build[@]}"
cargo test --quiet --locked -p gpupool-sys --no-default-features --no-run # links, where documentation needed no library

# The README's program, in a crate that depends on gpupool as the README says.
block() { awk -v fence="\`\`\`$1" '$0 == fence {inside = 1; next} /^```/ {inside = 0} inside' README.md; }
program=$1/program
mkdir -p "$program/src"
block rust >"$program/src/main.rs"
{
  printf '[package]\nname = "program"\nversion = "0.0.0"\nedition = "2021"\n\n[workspace]\n\n[dependencies]\n'
  block toml | sed "s|bindings/rust|$PWD|"
} >"$program/Cargo.toml"
cp Cargo.lock "$program"
cargo run --quiet --offline --manifest-path "$program/Cargo.toml" | grep >/dev/null "^Pool { device: sim:0, reserved_bytes: "
