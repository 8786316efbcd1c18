# SPDX-License-Identifier: Apache-2.0
"""Assembles the PTX in the sources, for the oldest GPU that it is for and for newer ones: without a GPU, nothing else
would. Needs ptxas, which tools/setup.sh fetches.

    check_kernels.py
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARCHITECTURES = [50, 70, 90, 100]


def modules():
    """Each source with PTX, and that PTX."""
    for folder in ("src", "tests"):
        for source in sorted((ROOT / folder).rglob("*.?pp")):
            for text in re.findall(r'R"\((\s*\.version.*?)\)"', source.read_text(encoding="utf-8"), re.DOTALL):
                yield source.relative_to(ROOT), text


def complaints(ptxas, text):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "kernel.ptx")
        file.write_text(text, encoding="utf-8")
        oldest = int(re.search(r"\.target sm_(\d+)", text).group(1))
        for number in sorted({oldest, *(each for each in ARCHITECTURES if each > oldest)}):
            command = [ptxas, "--warning-as-error", f"--gpu-name=sm_{number}", file, "-o", f"{file}.cubin"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                yield f"sm_{number}:\n{done.stdout}{done.stderr}"


def main():
    own = ROOT / "build/checkers/ptxas"
    ptxas = own if own.exists() else shutil.which("ptxas")
    if ptxas is None:
        print("no ptxas: the kernels are not assembled")
        return
    found = list(modules())
    wrong = [f"{source}, {complaint}" for source, text in found for complaint in complaints(ptxas, text)]
    if wrong or not found:
        sys.exit("".join(wrong) or "no PTX was found")
    print(f"the kernels of {len(found)} files assemble")


if __name__ == "__main__":
    main()
