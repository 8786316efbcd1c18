#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures gpupool beside the GPU allocators that are installed, on one machine in one run.
#
#   tests/bench/compare_gpu.sh OUT [PART...]
#
# Writes OUT/results.json, OUT/table.md and OUT/*.svg; README.md says what is in them. The parts are bench, latency,
# replay, capped, timed, find_cap, busy and patterns; all of them by default. The environment may set
#   PEERS         which of them, such as "gpupool cuda_async" (default: all that are installed)
#   PATTERNS      a file of patterns for the part of that name (default: those of tests/attack/hunt/kept.txt)
#   TRACES        names of traces (default: the recorded and the generated ones)
#   SECONDS_EACH  how long one peer may replay one trace (default 2; gpupool always makes its 50 passes)
#   GPUPOOL_PREFIX  an installation of gpupool (default: what build/release holds)
#   CUDA_HOME, PYTHON
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
bench=$root/tests/bench
[ $# -ge 1 ] || { sed -n '3,15s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
parts=${*:-bench latency replay capped timed find_cap busy patterns}
python=${PYTHON:-python3}
cuda=${CUDA_HOME:-/usr/local/cuda}
seconds=${SECONDS_EACH:-2}
passes=50
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
lines=$out/lines.jsonl
: >"$lines"

say() { echo "compare: $*" >&2; }
wants() { [[ " $parts " == *" $1 "* ]]; }
wants_peer() { [ -z "${PEERS:-}" ] || [[ " $PEERS " == *" $1 "* ]]; }
# Where a Python module lies, without importing it.
folder_of() {
  "$python" -c 'import importlib.util as u, sys
spec = u.find_spec(sys.argv[1])
print(list(spec.submodule_search_locations)[0] if spec else "")' "$1"
}

# ---- the peers: those that can be built are there, the others are left out with a word

prefix=${GPUPOOL_PREFIX:-}
if [ -n "$prefix" ]; then
  gpupool_lib=$prefix/lib gpupool_include=$prefix/include gpupool_command=$prefix/bin/gpupool
else
  gpupool_lib=$root/build/release gpupool_include=$root/include gpupool_command=$root/build/release/gpupool
fi
# With the library of the toolkit, or of the wheel that PyTorch and others bring.
torch=$(folder_of torch)
cudart=$(find "$cuda"/lib64/ "${torch:-/nonexistent}"/../nvidia -name 'libcudart.so.1[0-9]' 2>/dev/null | head -n 1 || true)

build() { # build NAME SOURCE FLAGS...
  local name=$1 source=$2
  shift 2
  g++ -std=c++20 -O2 -w -I"$root/src" -I"$bench/harness" -I"$bench" -I"$root/tests" "$source" \
    "$root/src/cli/measure/workers.cpp" "$root"/tests/attack/hunt/{pattern,player,script}.cpp "$@" \
    -lpthread -ldl -o "$work/$name" 2>"$out/build_$name.log" && rm "$out/build_$name.log"
}
build_cuda() { # the same for what uses the CUDA runtime
  build "$@" -isystem "$cuda/include" "$cudart" "-Wl,-rpath,$(dirname "$cudart")" -Wl,--allow-shlib-undefined
}
link() { printf -- '-L%s -Wl,-rpath,%s ' "$1" "$1"; }

# shellcheck disable=SC2046  # link gives several words
build_all() {
  build gpupool "$bench/peers/gpupool.cpp" -I"$gpupool_include" $(link "$gpupool_lib") -lgpupool &
  build busy_gpu "$bench/busy/busy_gpu.cpp" "$bench/busy/gpu.cpp" -I"$gpupool_include" $(link "$gpupool_lib") \
    -lgpupool &
  if [ -z "$cudart" ]; then
    say "no CUDA runtime: only gpupool is measured"
    wait
    return
  fi
  build_cuda cuda_async "$bench/peers/cuda_async.cpp" &
  if [ -n "$torch" ]; then
    local version
    version=$("$python" -c 'import importlib.metadata as m; print(m.version("torch"))')
    build_cuda pytorch "$bench/peers/pytorch.cpp" -DPEER_VERSION="\"$version\"" -isystem "$torch/include" \
      $(link "$torch/lib") -lc10_cuda -lc10 &
  fi
  local rmm logger
  rmm=$(folder_of librmm) logger=$(folder_of rapids_logger)
  if [ -n "$rmm" ] && [ -n "$logger" ]; then
    local flags="-isystem $rmm/include -isystem $rmm/include/rapids -isystem $logger/include
      $(link "$rmm/lib64") $(link "$logger/lib64") -lrmm -lrapids_logger"
    # shellcheck disable=SC2086
    build_cuda rmm_pool "$bench/peers/rmm.cpp" $flags &
    # shellcheck disable=SC2086
    build_cuda rmm_arena "$bench/peers/rmm.cpp" $flags -DRMM_ARENA &
  fi
  wait
}

peer() { # peer NAME ARGUMENTS...: runs it, and keeps what it prints
  local name=$1
  shift
  case $name in
    gpupool | cuda_async | rmm_pool | rmm_arena) "$work/$name" "$@" ;;
    pytorch) env -u PYTORCH_ALLOC_CONF -u PYTORCH_CUDA_ALLOC_CONF "$work/pytorch" "$@" ;;
    pytorch_expandable) PYTORCH_ALLOC_CONF=expandable_segments:True "$work/pytorch" "$@" ;;
    cupy) "$python" "$bench/peers/cupy_pool.py" "$@" ;;
  esac >>"$lines" 2>>"$out/errors.log" || say "$name $1: failed; see $out/errors.log"
}

say "building"
build_all
peers=
for name in gpupool cuda_async pytorch pytorch_expandable rmm_pool rmm_arena cupy; do
  wants_peer $name || continue
  case $name in
    cupy) [ -n "$(folder_of cupy)" ] ;;
    pytorch_expandable) [ -x "$work/pytorch" ] ;;
    *) [ -x "$work/$name" ] ;;
  esac || { say "$name: not installed here, or it could not be built; left out"; continue; }
  peers+=" $name"
  peer $name version
done

# ---- the traces, as plain text

recorded=()
for file in "$root"/tests/data/*.trace.gz; do recorded+=("$(basename "$file" .trace.gz)"); done
"$python" -B "$bench/make_traces.py" "$work/generated"
for file in "$root"/tests/data/*.trace.gz "$work"/generated/*.trace.gz; do
  gzip -dc "$file" >"$work/$(basename "$file" .gz)"
done
traces=()
for name in ${TRACES:-${recorded[*]} $(cd "$work/generated" && ls | sed 's/\.trace\.gz$//')}; do
  traces+=("$work/$name.trace")
done

# In kept.txt, other words stand before the first key of a line, and behind the last.
sed -E 's/#.*//; s/^(holds|fails|drawn) +[a-z_]+ +([0-9.]+ +)?//' \
  "${PATTERNS:-$root/tests/attack/hunt/kept.txt}" | { grep = || true; } >"$work/patterns.txt"

# ---- the parts

gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)
printf '{"machine":{"gpu":"%s","cores":%d,"date":"%s"}}\n' "${gpu:-none}" "$(nproc)" "$(date -u +%F)" >>"$lines"

for name in $peers; do
  say "$name"
  if wants bench; then
    case $name in
      gpupool) peer $name bench --live 1000,10000,100000,1000000 ;;
      *) peer $name bench ;;
    esac
  fi
  if wants latency && [ $name != cupy ]; then peer $name latency --seconds 1; fi
  if wants replay; then
    case $name in
      gpupool) peer $name replay --passes $passes --seconds 60 "${traces[@]}" ;;
      *) peer $name replay --passes $passes --seconds "$seconds" "${traces[@]}" ;;
    esac
  fi
  if wants capped; then peer $name replay --passes 4 --seconds "$seconds" --cap auto "${traces[@]}"; fi
  if wants timed && [ $name != cupy ]; then
    peer $name replay --passes 2 --seconds "$seconds" --timed "${traces[@]}"
  fi
  if wants patterns && [ $name != cupy ]; then peer $name patterns "$work/patterns.txt"; fi
done
if wants find_cap && wants_peer gpupool; then
  say "smallest caps of gpupool"
  LD_LIBRARY_PATH=$gpupool_lib "$gpupool_command" replay --find-cap --json "${traces[@]}" >>"$lines" 2>>"$out/errors.log" || say "find_cap failed"
fi
if wants busy && [ -x "$work/busy_gpu" ]; then
  say "a busy GPU"
  busy() { "$work/busy_gpu" "$@" >>"$lines" 2>>"$out/errors.log" || say "busy_gpu failed; see $out/errors.log"; }
  busy "$work"/{streams_prefetch,stream_shift,zero_gather,huge,shuffled}.trace
  busy --pool-per-stream "$work"/{streams_prefetch,stream_shift}.trace
  busy --cap 1.05 "$work"/{streams_prefetch,stream_shift,shuffled}.trace
fi

[ -s "$out/errors.log" ] || rm -f "$out/errors.log"
"$python" -B "$bench/report.py" "$out" "$lines"
rm "$lines"
say "done: $out"
