#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job in every language: builds the library, its command and each binding as a user would, runs a first program
# in each language, replays recorded PyTorch workloads through them, and shows the results side by side. One line a
# language; all that they print is in build/demo/logs. A language whose tools are missing or too old is skipped, by name.
# Fails at the end, by name, if anything does not build or run.
set -euo pipefail
cd "$(dirname "$0")/.."
demo=$PWD/build/demo
logs=$demo/logs
mkdir -p "$logs"
quiet=1
. tools/progress.sh

# ---- the library

echo "== the library, the command and the examples in C and C++ (what it all prints: build/demo/logs)"
build_library() {
  cmake --preset release --log-level=WARNING &&
    cmake --build --preset release --target gpupool_installed examples
}
begin library build_library
finish || exit 1
echo "   built in $(seconds_of library) s"

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

languages=(Python Rust Go Java 'C#' Lua Ruby)
declare -A why  # a language is left out
for language in "${languages[@]}"; do
  why[$language]=$(lacks "$language")
  [ -z "${why[$language]}" ] || continue
  case $language in
    Python | Rust | Go) begin "$language" "build_${language,,}" ;;
    'C#') begin "$language" build_with_swig csharp ;;
    *) begin "$language" build_with_swig "${language,,}" ;;
  esac
done
finish || true
has_built() { [[ " $built " == *" $1 "* ]]; }

# ---- a first program in each

run_java() { java -Djava.library.path="$demo/swig/java" -cp "$demo/swig/java/gpupool.jar:$demo/swig/java/programs" "$@"; }
run_csharp() {
  LD_LIBRARY_PATH=$demo/swig/csharp:$LD_LIBRARY_PATH MONO_CRASH_NOFILE=1 mono "$demo/swig/csharp/Basic.exe"
}
run_lua() { LUA_PATH="$demo/swig/lua/?.lua;;" LUA_CPATH="$demo/swig/lua/?.so;;" lua5.4 examples/lua/basic.lua; }

line() { printf '   %-7s %5s  %s\n' "$@"; }

# run NAME COMMAND...: its output goes to a log; what fails is told at once, and at the end.
run() {
  local log=$logs/run_$1.log
  if "${@:2}" >"$log" 2>&1 </dev/null; then return; fi
  echo "   $1 failed; the end of ${log#"$PWD"/}:"
  tail -n 20 "$log" | sed 's/^/      /'
  failed+=" $1"
  return 1
}

# examples LANGUAGE PREFIX: all of a language, in one line.
examples() {
  local program name ran=
  for program in build/release/examples/"$2"*; do
    name=${program##*/}
    if [ -f "$program" ] && [ -x "$program" ] && run "$name" "$program"; then ran+=", ${name#"$2"}"; fi
  done
  line "$1" - "ran: ${ran#, }"
}

echo "== first programs in each language, which check what they do; and how long the binding took to build"
examples C example_c_
examples C++ example_cpp_
if run ctypes python3 examples/python/ctypes_dlopen.py; then line ctypes - "a block without a binding, and one freed twice"; fi
for language in "${languages[@]}"; do
  if [ -n "${why[$language]}" ]; then
    line "$language" - "skipped: ${why[$language]}"
    continue
  fi
  has_built "$language" || continue  # told above
  case $language in
    Python) program=("$demo/python/bin/python" examples/python/basic.py) ;;
    Rust) program=("$demo/rust/release/examples/basic") ;;
    Go) program=("$demo/go/basic") ;;
    Java) program=(run_java Basic) ;;
    'C#') program=(run_csharp) ;;
    Lua) program=(run_lua) ;;
    Ruby) program=(ruby -I "$demo/swig/ruby" examples/ruby/basic.rb) ;;
  esac
  if run "$language" "${program[@]}"; then
    line "$language" "$(seconds_of "$language") s" "a block used and freed; one beyond the limit refused, and told where the memory is"
  fi
done

# ---- recorded workloads

echo "== two recorded PyTorch workloads, in each language with a replay example: the figures must be the same"
replay() { # replay TRACE: a line of JSON from each
  gpupool replay --json "$1" || return
  if has_built Python; then "$demo/python/bin/python" examples/python/replay.py "$1" || return; fi
  if has_built Rust; then "$demo/rust/release/examples/replay" "$1" || return; fi
  if has_built Go; then "$demo/go/replay" "$1" || return; fi
  if has_built Java; then run_java Replay "$1" || return; fi
}
for trace in streams_prefetch zero_gather; do
  if ! replay "tests/data/$trace.trace.gz" >"$demo/replays.json" 2>"$logs/replay_$trace.log"; then
    tail -n 20 "$logs/replay_$trace.log"
    failed+=" the replay of $trace"
  else
    python3 tools/compare_replays.py "$demo/replays.json" || failed+=" the figures of $trace"
  fi
done

# ---- what to do next

echo
if has_built Python; then
  if "$demo/python/bin/python" examples/python/picture.py tests/data/streams_prefetch.trace.gz \
    "$demo/streams_prefetch.svg" >"$logs/picture.log" 2>&1; then
    echo "A picture of the first one: build/demo/streams_prefetch.svg"
  else
    failed+=" the picture"
  fi
fi
cat <<'NEXT'
Try next:
  build/release/gpupool info                                             which devices there are; why CUDA is not
  build/release/gpupool replay --find-cap tests/data/lm_train.trace.gz   the least memory that a training step fits into
  build/release/gpupool bench                                            how long a malloc and a free take
  docs/README.md                                                         every page, by what you want to do
NEXT
if [ -n "$failed" ]; then
  echo "These failed, although their tools are recent enough; see build/demo/logs:$failed"
  exit 1
fi
