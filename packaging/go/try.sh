#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries the module in FOLDER as a newcomer would: a new module, a new GOPATH, no network, no installed library, and then
# the same with `go mod vendor`.
#
#   try.sh FOLDER
#
# Go's compile cache stays from one run to the next: it is valid for the same sources only.
set -euo pipefail
proxy=$(realpath "${1:?usage: try.sh FOLDER}")/go
cd "$(dirname "$0")/../.."
work=$PWD/build/packaging/try_go
rm -rf "$work/program" "$work/path"
mkdir -p "$work/program"

echo "== go: a program with the module"
sed -n '/^```go$/,/^```$/{/^```/d; p}' bindings/go/README.md >"$work/program/main.go"
cd "$work/program"
# The toolchain, and nothing else of this environment.
clean=(env -i PATH="$PATH" HOME="$work" GOPATH="$work/path" GOCACHE="$work/cache" GOPROXY="file://$proxy" GOSUMDB=off
  GOTOOLCHAIN=local GOFLAGS=-modcacherw GPUPOOL_BACKEND=sim PKG_CONFIG=/bin/false)
"${clean[@]}" go mod init program 2>/dev/null
"${clean[@]}" go get github.com/gpupool/gpupool/bindings/go 2>/dev/null
for way in module vendor; do
  if [ $way = vendor ]; then
    clean+=(CGO_CXXFLAGS=-g0)  # the same code again, in two thirds of the time
    "${clean[@]}" go mod vendor
  fi
  "${clean[@]}" go vet .
  "${clean[@]}" go build -o program .
  said=$("${clean[@]}" ./program)
  [ "$said" = "pool on sim:0: 2 MiB of 8 GiB reserved, 1 block live" ] || { echo "try.sh: $way: the program says: $said" >&2; exit 1; }
done
