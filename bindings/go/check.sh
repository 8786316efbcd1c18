#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything that is checked of the Go binding: check.sh FOLDER builds in FOLDER (absolute). All but the module of a
# release, which packaging/go/try.sh tries, is linked to an installed library: expects pkg-config to find it, LD_LIBRARY_PATH to lead to it, and GPUPOOL_PREFIX to say where it is.
set -euo pipefail
cd "$(dirname "$0")"
: "${GPUPOOL_PREFIX:?}" "${LD_LIBRARY_PATH:?}"
export GOCACHE=$1/cache GOFLAGS="-buildvcs=false -p=2 -tags=gpupool_shared" GOTOOLCHAIN=local GPUPOOL_BACKEND=sim
# Go's cache does not see that an installed header has changed, nor a library.
header=$(sha256sum "$GPUPOOL_PREFIX/include/gpupool/gpupool.h" | cut -c 1-16)
export CGO_CFLAGS="-O2 -g -Wall -Wextra -Wno-unused-parameter -Werror -DGPUPOOL_GO_HEADER=0x$header"
bin=$1/bin
mkdir -p "$bin"

echo "== go: format"
unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
  echo "gofmt would change: $unformatted" >&2
  exit 1
fi
echo "== go: vet"
go vet ./...
echo "== go: tests and examples, with the race detector"
go test -race -count=1 .
echo "== go: programs"
go build -o "$bin" ./cmd/...
"$bin/basic" >/dev/null
"$bin/kernel" >/dev/null
"$bin/elastic" -idle 50ms | grep "^nobody does: 0 MiB" >/dev/null
"$bin/scenario" ../../tests/scenario/*.json >/dev/null
SCENARIO_RUNNER="$bin/scenario" python3 -B ../../tests/scenario/test_runner.py -q
echo "== go: the README's programs and commands, and a build without cgo"
mkdir -p "$1/readme"
block() { awk -v fence="\`\`\`$1" '$0 == fence {inside = 1; next} /^```/ {inside = 0} inside' README.md; }
block go >"$1/readme/main.go"
go run "$1/readme/main.go" | grep >/dev/null "^pool on sim:0: 2 MiB of 8 GiB reserved, 1 block live$"
mkdir -p "$1/home"
(cd ../.. && HOME=$1/home GOPATH=$1/home/go bash -euc "$(cd bindings/go && block sh)" >/dev/null)
if words=$(CGO_ENABLED=0 go build . 2>&1) || [[ $words != *"gpupool needs cgo"* || $words == *undefined* ]]; then
  echo "without cgo: $words" >&2
  exit 1
fi
echo "== go: replay"
for trace in streams_prefetch zero_gather; do
  file=../../tests/data/$trace.trace.gz
  { "$GPUPOOL_PREFIX/bin/gpupool" replay --json "$file" && "$bin/replay" "$file"; } >"$1/replays.json"
  python3 -B ../../tools/compare_replays.py "$1/replays.json"
done
