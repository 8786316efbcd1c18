#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lays the package out as NuGet would for a program, and runs the program on mono, and on .NET if there is a `dotnet` or
# GPUPOOL_DOTNET names one.
#
#     try.sh FOLDER
set -euo pipefail
. "$(dirname "$0")/../clean.sh"

nupkg=$(package 'GpuPool.*.nupkg')
"$here/nupkg.py" check "$nupkg"
mkdir package program
(cd package && clean python3 -m zipfile -e "$nupkg" .)
cp package/lib/netstandard2.0/GpuPool.dll package/runtimes/*/native/* program
clean mcs -warn:4 -warnaserror -r:program/GpuPool.dll -out:program/Try.exe "$here/program/Try.cs" \
  package/contentFiles/cs/any/GpuPool/Spans.cs
(cd / && clean MONO_CRASH_NOFILE=1 mono "$home/program/Try.exe") >output
[ "$(cat output)" = $'there and back: True\nTrue' ] || { cat output; exit 1; }

# The compiler here writes programs with mono's spans, so newer .NET is tried without spans.
dotnet=${GPUPOOL_DOTNET:-$(command -v dotnet || true)}
if [ -z "$dotnet" ]; then
  echo "dotnet: not there, skipped"
  exit 0
fi
mkdir -p core/runtimes
cp package/lib/netstandard2.0/GpuPool.dll core
cp -r package/runtimes core
clean mcs -r:core/GpuPool.dll -out:core/Plain.dll "$here/program/Plain.cs"
cp "$here/program/Plain.deps.json" core
runtime=$("$dotnet" --list-runtimes | sed -n 's/^Microsoft.NETCore.App \([0-9.]*\).*/\1/p' | tail -n 1)
printf '{"runtimeOptions": {"framework": {"name": "Microsoft.NETCore.App", "version": "%s"}}}\n' "$runtime" \
  >core/Plain.runtimeconfig.json
(cd / && clean DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1 "$dotnet" "$home/core/Plain.dll") >output
says "there and back on .NET" output
