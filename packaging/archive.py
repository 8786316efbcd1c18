#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a folder as an archive, the same bytes each time: sorted, without owner, dated SOURCE_DATE_EPOCH.

    archive.py ARCHIVE.zip|jar|nupkg FOLDER [FIRST...]   files FIRST come first
    archive.py ARCHIVE.tar.gz|tgz FOLDER NAME            under the folder NAME
"""

import gzip
import os
import sys
import tarfile
import time
import zipfile
from pathlib import Path


def date():
    return int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_symlink() or path.is_file())


def write_zip(archive, folder, first):
    names = [path.relative_to(folder).as_posix() for path in files_of(folder)]
    names.sort(key=lambda name: (first.index(name) if name in first else len(first), name))
    stamp = time.gmtime(date())[:6]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for name in names:
            entry = zipfile.ZipInfo(name, stamp)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100755 if os.access(folder / name, os.X_OK) else 0o100644) << 16
            out.writestr(entry, (folder / name).read_bytes())


def write_tar(archive, folder, name):
    def of_nobody(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = date()
        entry.mode = 0o755 if entry.mode & 0o100 else 0o644
        return entry

    with (
        open(archive, "wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, date()) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as out,
    ):
        for path in files_of(folder):
            out.add(path, f"{name}/{path.relative_to(folder).as_posix()}", recursive=False, filter=of_nobody)


def main(archive, folder, *rest):
    if archive.endswith((".tar.gz", ".tgz")):
        write_tar(archive, Path(folder), rest[0])
    else:
        write_zip(archive, Path(folder), list(rest))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
