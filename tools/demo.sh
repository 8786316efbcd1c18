#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job in every language: builds each binding as a user would, replays recorded PyTorch workloads through
# it, and shows them side by side with the C library's own command. Expects a release build.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/languages.sh
demo=$root/build/demo
mkdir -p "$demo"

say() { echo "== $*"; }

say "Python: pip install ./bindings/python"
[ -x "$demo/python/bin/python" ] || python3 -m venv "$demo/python"
"$demo/python/bin/pip" -q --disable-pip-version-check install ./bindings/python
if rust_fits; then
  say "Rust: cargo build"
  CARGO_TARGET_DIR=$demo/rust cargo build -q --locked --release --manifest-path bindings/rust/Cargo.toml \
    --example basic --example replay
else
  say "Rust: 1.88 or later is not here, left out"
fi
say "Go: go build"
(cd bindings/go && go build -tags gpupool_shared -o "$demo/go/" ./cmd/basic ./cmd/replay)
say "Java, C#, Lua and Ruby: swig"
make -s -j2 -C bindings/swig BUILD="$demo/swig" all

say "a first program in each language"
run_java() { java -Djava.library.path="$demo/swig/java" -cp "$demo/swig/java/gpupool.jar:$demo/swig/java/programs" "$@"; }
in_language() { # in_language NAME COMMAND...: what it prints, with the name in front
  "${@:2}" | sed "s/^/$(printf '%-7s' "$1")| /"
}
in_language Python "$demo/python/bin/python" examples/python/basic.py
in_language ctypes python3 examples/python/ctypes_dlopen.py
if rust_fits; then in_language Rust "$demo/rust/release/examples/basic"; fi
in_language Go "$demo/go/basic"
in_language Java run_java Basic
in_language 'C#' env LD_LIBRARY_PATH="$demo/swig/csharp:$LD_LIBRARY_PATH" mono "$demo/swig/csharp/Basic.exe"
in_language Lua env LUA_PATH="$demo/swig/lua/?.lua;;" LUA_CPATH="$demo/swig/lua/?.so;;" lua5.4 examples/lua/basic.lua
in_language Ruby ruby -I "$demo/swig/ruby" examples/ruby/basic.rb

say "two recorded PyTorch workloads in each language that has an example of it"
for trace in tests/data/streams_prefetch.trace.gz tests/data/zero_gather.trace.gz; do
  {
    gpupool replay --json "$trace"
    "$demo/python/bin/python" examples/python/replay.py "$trace"
    if rust_fits; then "$demo/rust/release/examples/replay" "$trace"; fi
    "$demo/go/replay" "$trace"
    run_java Replay "$trace"
  } >"$demo/replays.json"
  python3 tools/compare_replays.py "$demo/replays.json"
done
"$demo/python/bin/python" examples/python/picture.py tests/data/streams_prefetch.trace.gz "$demo/streams_prefetch.svg"
