#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the package for NuGet, a zip of parts with a nuspec, without NuGet.
#
#     build.sh OUTPUT_FOLDER
set -euo pipefail
. "$(dirname "$0")/../tools.sh"

make_swig csharp/GpuPool.dll csharp/libgpupool_csharp.so
rm -rf "$work"
parts=$work/parts
mkdir -p "$parts"/{lib/netstandard2.0,contentFiles/cs/any/GpuPool,buildTransitive/net462}
case $platform in
  linux-x86_64) runtime=linux-x64 ;;
  linux-aarch64) runtime=linux-arm64 ;;
  *) echo "NuGet has no name for $platform that we know" >&2; exit 1 ;;
esac

fill packaging/csharp/gpupool.nuspec "$parts/GpuPool.nuspec" COMMIT="$(git rev-parse HEAD)"
cp "$swig"/csharp/GpuPool.{dll,xml} "$parts/lib/netstandard2.0"
cp bindings/swig/csharp/Spans.cs "$parts/contentFiles/cs/any/GpuPool"
cp packaging/csharp/GpuPool.targets "$parts/buildTransitive/net462"
cp packaging/csharp/README.md LICENSE "$parts"
carry "$parts/runtimes/$runtime/native" "$swig/csharp/libgpupool_csharp.so"

packaging/csharp/nupkg.py parts "$parts"
packaging/archive.py "$output/GpuPool.$version.nupkg" "$parts" '[Content_Types].xml' _rels/.rels GpuPool.nuspec
packaging/csharp/nupkg.py check "$output/GpuPool.$version.nupkg"
