#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Go module as a proxy serves it: FOLDER/go is a GOPROXY, with the sources of the C library in the module.
#
#   build.sh FOLDER
#
# tag.sh makes a tag of the same module; Go's users get it from there.
set -euo pipefail
out=$(realpath -m "${1:?usage: build.sh FOLDER}")
cd "$(dirname "$0")/../.."
echo "== go: module"
work=$PWD/build/packaging/go
rm -rf "$work"
mkdir -p "$work"
git ls-files -co --exclude-standard bindings/go | tar -cf - -T - | tar -xf - -C "$work" --strip-components=2
cp LICENSE "$work"
python3 -B packaging/go/amalgamate.py "$work"
python3 -B - "$work" "$out/go" <<'END'
import json, re, sys, zipfile
from pathlib import Path

source, proxy = map(Path, sys.argv[1:])
header = Path("include/gpupool/gpupool.h").read_text(encoding="utf-8")
version = "v" + ".".join(re.search(rf"#define GPUPOOL_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))
module = re.search(r"^module (\S+)$", (source / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)[1]
folder = proxy / module / "@v"
folder.mkdir(parents=True, exist_ok=True)
(folder / "list").write_text(f"{version}\n", encoding="utf-8")
(folder / f"{version}.info").write_text(json.dumps({"Version": version}), encoding="utf-8")
(folder / f"{version}.mod").write_bytes((source / "go.mod").read_bytes())
with zipfile.ZipFile(folder / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    for path in sorted(source.rglob("*")):
        if path.is_file():
            # No dates, so the same sources give the same archive.
            entry = zipfile.ZipInfo(f"{module}@{version}/{path.relative_to(source)}")
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
END
