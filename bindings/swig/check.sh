#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and tests the binding for Java, C#, Lua and Ruby: check.sh BUILD_FOLDER. Needs GPUPOOL_PREFIX, or
# PKG_CONFIG_PATH and LD_LIBRARY_PATH that lead to the library, and the command gpupool of the same build.
# A language without its tools is an error; with GPUPOOL_SWIG_OPTIONAL=1 it is skipped.
set -euo pipefail
build=${1:?say where to build}/swig
cd "$(dirname "$0")/../.."
here=bindings/swig
export PATH=${GPUPOOL_PREFIX:+$GPUPOOL_PREFIX/bin:}$PATH
export LD_LIBRARY_PATH=${GPUPOOL_PREFIX:+$GPUPOOL_PREFIX/lib:}${LD_LIBRARY_PATH:-}
export GPUPOOL_BACKEND=sim
export MONO_CRASH_NOFILE=1  # a crash is in the log; mono would write it to this folder too
gson=${GSON:-/usr/share/java/gson.jar}
mkdir -p "$build"
share=$(mktemp -d)
trap 'rm -rf "$share"' EXIT
export GPUPOOL_SHARE_DIR=$share

say() { echo "== swig: $*"; }

# ---- what is here

has() {
  case $1 in
    /*) [ -e "$1" ] ;;
    lua:*) lua5.4 -e "require '${1#lua:}'" ;;
    ruby:*) ruby -r "${1#ruby:}" -e '' ;;
    pkg:*) pkg-config --exists "${1#pkg:}" ;;
    *) command -v "$1" ;;
  esac >/dev/null 2>&1
}

# can LANGUAGE NEED...: whether all its needs are here.
can() {
  local need missing=()
  for need in "${@:2}"; do has "$need" || missing+=("$need"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "${GPUPOOL_SWIG_OPTIONAL:-0}" = 1 ]; then
    say "$1 is skipped, for want of ${missing[*]}"
    return 1
  fi
  say "$1: ${missing[*]} is not here (README.md names the packages)" >&2
  exit 1
}

can SWIG swig "${CXX:-g++}" pkg-config || exit 0
languages=()
if can Java java javac jar "$gson"; then languages+=(java); fi
if can 'C#' mono mcs /usr/lib/mono/4.5/System.Json.dll; then languages+=(csharp); fi
if can Lua lua5.4 luacheck pkg:lua5.4 lua:dkjson; then languages+=(lua); fi
if can Ruby ruby ruby:mkmf ruby:minitest ruby:json; then languages+=(ruby); fi
[ ${#languages[@]} -gt 0 ] || exit 0
chosen() { [[ " ${languages[*]} " == *" $1 "* ]]; }

# ---- style

say "format"
# Only the release that tools/setup.sh pins: others format differently.
clang_format=build/checkers/clang-format
if [ -x $clang_format ]; then
  $clang_format --dry-run --Werror $here/src/*.hpp $here/cpp/*.cpp $here/java/{Collector,Frames,LogReceiver,Natives,OomHandler,SleepHook,Tag,Upstream}.java \
    $here/java/programs/*.java examples/java/*.java
else
  say "no $clang_format: skipped"
fi
if grep -nE $'\t| $|^.{121}' $here/*/*.{cs,lua,rb,swg} $here/csharp/programs/*.cs examples/{csharp,lua,ruby}/*; then
  say "tabs, spaces at the end, or lines of more than 120 characters" >&2
  exit 1
fi
if chosen lua; then
  luacheck --no-color $here/lua examples/lua >"$build/luacheck.log" || { cat "$build/luacheck.log"; exit 1; }
fi

# ---- build and test

say "build: ${languages[*]}"
# As clang does it: symbols that g++ makes unique would keep a module in memory by chance.
cxxflags=-O2
if "${CXX:-g++}" -fno-gnu-unique -E -x c++ /dev/null >/dev/null 2>&1; then cxxflags+=" -fno-gnu-unique"; fi
make -j2 -C $here --no-print-directory BUILD="$build" CXXFLAGS="$cxxflags" "${languages[@]}"

# What users see of the central classes says what it does.
say "comments"
central='(Pool|Config|SimConfig|Block|Slice|Stream|Transfer)'
{
  if chosen java; then
    javac -Xdoclint:missing/public -Xmaxwarns 10000 -d "$build/doclint" "$build"/java/proxies/*.java $here/java/*.java
  fi
  if chosen csharp; then
    mcs -warn:4 -target:library -doc:"$build/comments.xml" -out:"$build/comments.dll" "$build"/csharp/proxies/*.cs \
      $here/csharp/{Callbacks,GpuPoolException,IUpstream,Tag}.cs
  fi
} >"$build/comments.log" 2>&1 || { cat "$build/comments.log"; exit 1; }
if grep -E "/$central\.java:.* no comment|CS1591: .*\`GpuPool\.$central(\.[^~]|')" "$build/comments.log"; then
  say "these have no comment" >&2
  exit 1
fi

say "C++"
read -ra flags <<<"$(if [ -n "${GPUPOOL_PREFIX:-}" ]; then
  echo "-I$GPUPOOL_PREFIX/include -L$GPUPOOL_PREFIX/lib -lgpupool"; else pkg-config --cflags --libs gpupool; fi)"
read -ra compiler <<<"${CXX:-g++}"
"${compiler[@]}" -std=c++20 -O1 -Wall -Wextra -Werror -I$here/src $here/cpp/race_test.cpp "${flags[@]}" -pthread \
  -o "$build/race_test"
"$build/race_test"

# A program may close a Lua state, and with it this module, while the library stays.
if chosen lua; then
  say "Lua, embedded"
  "${CC:-cc}" -O1 -Wall -Wextra -Werror $here/lua/embedded_test.c "${flags[@]}" $(pkg-config --cflags --libs lua5.4) \
    -o "$build/embedded_test"
  LUA_PATH="$build/lua/?.lua;;" LUA_CPATH="$build/lua/?.so;;" "$build/embedded_test"
fi

# run LANGUAGE PROGRAM ARGUMENT...: a Java or C# program by its name, a script by its file.
run() {
  case $1 in
    java) java -Xcheck:jni -Djava.library.path="$build/java" -cp "$build/java/gpupool.jar:$gson:$build/java/programs" \
      "${@:2}" ;;
    csharp) LD_LIBRARY_PATH=$build/csharp:$LD_LIBRARY_PATH mono --debug "$build/csharp/$2.exe" "${@:3}" ;;
    lua) LUA_PATH="$build/lua/?.lua;;" LUA_CPATH="$build/lua/?.so;;" lua5.4 -W "${@:2}" ;;
    ruby) ruby -w -I "$build/ruby" "${@:2}" ;;
  esac
}

declare -A tests=([java]="PoolTest BytesTest WatchTest UpstreamTest RaceTest InterruptsTest" [csharp]="PoolTest BytesTest WatchTest UpstreamTest RaceTest"
  [lua]="$(echo $here/lua/{pool,bytes,watch}_test.lua)" [ruby]="$(echo $here/ruby/{pool,bytes,watch,interrupts}_test.rb)")
declare -A runners=([java]=RunScenarios [csharp]=RunScenarios [lua]=$here/lua/run_scenarios.lua
  [ruby]=$here/ruby/run_scenarios.rb)
declare -A basics=([java]=Basic [csharp]=Basic [lua]=examples/lua/basic.lua [ruby]=examples/ruby/basic.rb)

# The program in README.md, and what it must print.
declare -A readmes=([java]=Readme [csharp]=Readme [lua]=$build/readme.lua [ruby]=$build/readme.rb)
declare -A printed=([java]=2097152 [csharp]=2097152 [lua]="GPUPOOL_ERROR_OUT_OF_MEMORY" [ruby]=bytes)
build_readme() {
  $here/readme.py "$1" >"$build/readme.$1"
  case $1 in
    java)
      mkdir -p "$build/readme" && cp "$build/readme.java" "$build/readme/Readme.java"
      javac -cp "$build/java/gpupool.jar" -d "$build/java/programs" "$build/readme/Readme.java"
      ;;
    csharp) mcs -out:"$build/csharp/Readme.exe" -r:"$build/csharp/GpuPool.dll" "$build/readme.csharp" ;;
    ruby) mv "$build/readme.ruby" "$build/readme.rb" ;;
  esac
}

# A scenario that must fail, and at which step.
wrong='{"name": "wrong", "steps": [{"op": "create", "pool": "p"},
  {"op": "malloc", "pool": "p", "block": "a", "size": 1, "expect": {"stats": {"all.allocated_bytes.current": 1}}}]}'
echo "$wrong" >"$build/wrong.json"

for language in "${languages[@]}"; do
  say "$language"
  for each in ${tests[$language]}; do
    if ! run "$language" "$each" >"$build/tests.log" 2>&1 || grep -i warning "$build/tests.log"; then
      cat "$build/tests.log"
      exit 1
    fi
    tail -n 1 "$build/tests.log"
  done
  build_readme "$language"
  if ! run "$language" "${readmes[$language]}" >"$build/readme.log" 2>&1 ||
    ! grep -q "${printed[$language]}" "$build/readme.log"; then
    say "the program in README.md does not print ${printed[$language]}:" >&2
    cat "$build/readme.log"
    exit 1
  fi
  run "$language" "${basics[$language]}" >"$build/basic.log" || { cat "$build/basic.log"; exit 1; }
  run "$language" "${runners[$language]}" tests/scenario/*.json >"$build/scenarios.$language"
  cmp "$build/scenarios.${languages[0]}" "$build/scenarios.$language"
  GPUPOOL_LIMIT=256MiB GPUPOOL_FRACTION=0.5 GPUPOOL_CAP=75%,768MiB \
    run "$language" "${runners[$language]}" tests/scenario/limited/environment.json >/dev/null
  if run "$language" "${runners[$language]}" "$build/wrong.json" 2>"$build/wrong.log" ||
    ! grep -q 'step 2: .*expected 1, found 512' "$build/wrong.log"; then
    say "the scenario runner did not see a wrong figure" >&2
    exit 1
  fi
done
say "$(ls tests/scenario/*.json | wc -l) scenarios: the same in ${languages[*]}"

# ---- a recorded workload

if chosen java; then
  for trace in tests/data/{streams_prefetch,zero_gather}.trace.gz; do
    { run java Replay "$trace" && gpupool replay --json "$trace"; } | python3 -c '
import json, sys
ours, theirs = map(json.loads, sys.stdin)
different = [key for key in ours if key not in ("language", "ns_per_event") and ours[key] != theirs[key]]
sys.exit(f"{ours}\n{theirs}\ndiffer in {different}" if different else None)'
  done
  say "Java replays as gpupool replay does"
fi
