#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries the crates in FOLDER as a newcomer would: a new program, a new CARGO_HOME without a network, no installed library.
#
#   try.sh FOLDER
#
# Other crates come from cargo's cache, by `cargo vendor`; a compiler cache is used if there is one.
set -euo pipefail
crates=$(realpath "${1:?usage: try.sh FOLDER}")
cd "$(dirname "$0")/../.."
work=$PWD/build/packaging/try_rust
rm -rf "$work"
mkdir -p "$work/home" "$work/crates" "$work/program/src"

echo "== rust: a program with the packages"
cargo vendor --quiet --locked --manifest-path bindings/rust/Cargo.toml "$work/crates" >/dev/null
for crate in "$crates"/gpupool*.crate; do
  tar -xf "$crate" -C "$work/crates"
  name=$(basename "$crate" .crate)
  printf '{"files": {}, "package": "%s"}\n' "$(sha256sum "$crate" | cut -d ' ' -f 1)" \
    >"$work/crates/$name/.cargo-checksum.json"
done
sed -n '/^```rust$/,/^```$/{/^```/d; p}' bindings/rust/gpupool/README.md >"$work/program/src/main.rs"
printf '[package]\nname = "program"\nversion = "0.0.0"\nedition = "2021"\n\n[workspace]\n' >"$work/program/Cargo.toml"
printf '[source.crates-io]\nreplace-with = "here"\n\n[source.here]\ndirectory = "%s"\n' "$work/crates" >"$work/home/config.toml"

cxx=${CXX:-c++}
! command -v ccache >/dev/null || cxx="ccache $cxx"
cd "$work/program"
# The toolchain, and nothing else of this environment.
clean=(env -i PATH="$PATH" HOME="$HOME" CARGO_HOME="$work/home" PKG_CONFIG_LIBDIR=/nowhere CXX="$cxx"
  CCACHE_BASEDIR="$work" CCACHE_NOHASHDIR=1 GPUPOOL_BACKEND=sim)
"${clean[@]}" cargo add --quiet --offline gpupool
"${clean[@]}" cargo build --quiet --offline
said=$("${clean[@]}" target/debug/program)
[[ $said == "Pool { device: sim:0, reserved_bytes: "* ]] || { echo "try.sh: the program says: $said" >&2; exit 1; }
if ldd target/debug/program | grep gpupool; then
  echo "try.sh: the program needs an installed library" >&2
  exit 1
fi
