#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything that gpupool works with, and how far each release of it came: PyTorch's releases (torch_matrix.py), the
oldest and the newest release of each library with an adapter (host_matrix.py), and the libraries with a hook
(tests/hosts/try_hosts.py). One table, with what its columns mean.

    matrix.py           tries them all here, without a GPU: tens of minutes, and gigabytes are fetched; what ran on a
                        GPU is from the record. Fails where the record says otherwise
    matrix.py --kept    prints the record, tests/hosts/hosts.json, and tries nothing
    matrix.py --pages   writes the tables of docs/frameworks.md and docs/pytorch.md, from the record
    matrix.py --check   fails if they are others

    --record            writes what came of it into the record and the pages
    --python PYTHON     one that has gpupool, for the adapters
    --libraries DIR     where libgpupool.so and libgpupool_torch.so are, by default build/release
"""

import argparse
import sys
from pathlib import Path

import host_matrix
import host_record
import torch_matrix

ROOT = host_record.ROOT
sys.path.insert(0, str(ROOT / "tests/hosts"))

import try_hosts  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("kept", "pages", "check", "record"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--libraries", type=Path, default=ROOT / "build/release")
    options = parser.parse_args()
    hosts = host_record.read()
    if options.pages:
        host_record.write_pages(hosts)
        return 0
    if options.check:
        for page in host_record.pages_with(hosts):
            print(f"docs/{page.name} has another table than tests/hosts/hosts.json: run tools/matrix.py --pages")
        return 1 if host_record.pages_with(hosts) else 0
    result = 0
    if options.kept:
        none = [host_record.Tried("there is no hook", "")]
        print(host_record.grid((host["title"], host_record.kept(host) or none) for host in hosts), end="")
    else:
        trial = host_record.Trial(replaced=host_matrix.WAYS, is_whole=True)
        torch_matrix.attempt_all(trial, None, options.libraries)
        host_matrix.attempt_all(trial, host_matrix.HOSTS, options.python)
        try_hosts.attempt_all(trial, try_hosts.HOSTS, options.libraries)
        result = trial.end(is_recorded=options.record)
    print(f"\n{host_record.legend()}", end="")
    return result


if __name__ == "__main__":
    sys.exit(main())
