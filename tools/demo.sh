#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job in every language: builds the library, its command and each binding as a user would, replays recorded
# PyTorch workloads through them, and shows the results side by side. It skips, with a message, a language whose tools
# are missing or too old. If a language with suitable tools does not build, the demo names it and fails at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
demo=$PWD/build/demo
logs=$demo/logs
mkdir -p "$logs"
. tools/progress.sh

say() { echo "== $*"; }
has_built() { [[ " $built " == *" $1 "* ]]; }

# ---- the library

say "the library, the command gpupool and the examples in C and C++"
build_library() {
  cmake --preset release --log-level=WARNING &&
    cmake --build --preset release --target gpupool_installed examples
}
begin library build_library
finish || exit 1

# ---- the languages, side by side

. tools/languages.sh
build_python() {
  { [ -x "$demo/python/bin/pip" ] || python3 -m venv --clear "$demo/python"; } &&
    "$demo/python/bin/pip" -q --disable-pip-version-check install ./bindings/python
}
build_rust() {
  CARGO_TARGET_DIR=$demo/rust cargo build -q --locked --release --manifest-path bindings/rust/Cargo.toml \
    --example basic --example replay
}
build_go() { cd bindings/go && go build -tags gpupool_shared -o "$demo/go/" ./cmd/basic ./cmd/replay; }
build_with_swig() { make -s -C bindings/swig BUILD="$demo/swig" "$1"; }

say "the bindings"
for language in Python Rust Go Java 'C#' Lua Ruby; do
  why=$(lacks "$language")
  if [ -n "$why" ]; then
    echo "   $language is skipped: $why"
    continue
  fi
  case $language in
    Python | Rust | Go) begin "$language" "build_${language,,}" ;;
    'C#') begin "$language" build_with_swig csharp ;;
    *) begin "$language" build_with_swig "${language,,}" ;;
  esac
done
finish || true

# ---- what they can do

say "gpupool info"
gpupool info
echo
say "a first program in each language"
in_language() { # in_language NAME COMMAND...: what it prints, with the name in front
  "${@:2}" | sed "s/^/$(printf '%-7s' "$1")| /"
}
run_java() { java -Djava.library.path="$demo/swig/java" -cp "$demo/swig/java/gpupool.jar:$demo/swig/java/programs" "$@"; }
for example in build/release/examples/example_*; do
  if [ -x "$example" ] && [ -f "$example" ]; then
    name=${example##*/example_}
    case $name in c_*) name=C ;; *) name=C++ ;; esac
    in_language "$name" "$example"
  fi
done
in_language ctypes python3 examples/python/ctypes_dlopen.py
if has_built Python; then in_language Python "$demo/python/bin/python" examples/python/basic.py; fi
if has_built Rust; then in_language Rust "$demo/rust/release/examples/basic"; fi
if has_built Go; then in_language Go "$demo/go/basic"; fi
if has_built Java; then in_language Java run_java Basic; fi
if has_built 'C#'; then
  in_language 'C#' env LD_LIBRARY_PATH="$demo/swig/csharp:$LD_LIBRARY_PATH" MONO_CRASH_NOFILE=1 \
    mono "$demo/swig/csharp/Basic.exe"
fi
if has_built Lua; then
  in_language Lua env LUA_PATH="$demo/swig/lua/?.lua;;" LUA_CPATH="$demo/swig/lua/?.so;;" lua5.4 examples/lua/basic.lua
fi
if has_built Ruby; then in_language Ruby ruby -I "$demo/swig/ruby" examples/ruby/basic.rb; fi

echo
say "two recorded PyTorch workloads in each language with a replay example"
for trace in tests/data/streams_prefetch.trace.gz tests/data/zero_gather.trace.gz; do
  {
    gpupool replay --json "$trace"
    if has_built Python; then "$demo/python/bin/python" examples/python/replay.py "$trace"; fi
    if has_built Rust; then "$demo/rust/release/examples/replay" "$trace"; fi
    if has_built Go; then "$demo/go/replay" "$trace"; fi
    if has_built Java; then run_java Replay "$trace"; fi
  } >"$demo/replays.json"
  python3 tools/compare_replays.py "$demo/replays.json"
done

echo
if has_built Python; then
  "$demo/python/bin/python" examples/python/picture.py tests/data/streams_prefetch.trace.gz \
    "$demo/streams_prefetch.svg" >"$logs/picture.log"
  echo "A picture of the first one: build/demo/streams_prefetch.svg"
fi
cat <<'TRY'
Three commands to try next:
  build/release/gpupool replay --find-cap tests/data/lm_train.trace.gz   the least memory that a training step fits into
  build/release/gpupool bench                                            how long a malloc and a free take
  build/release/gpupool --help                                           all of it
TRY
if [ -n "$failed" ]; then
  echo "These did not build, although their tools are recent enough; see the logs in build/demo/logs: $failed"
  exit 1
fi
