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
SOURCES = ["src/device/cuda/inspection_kernel.hpp", "tests/debug/gpu_work.hpp"]
ARCHITECTURES = ["sm_50", "sm_70", "sm_90", "sm_100"]


def texts(source):
    found = re.findall(r'R"\((\s*\.version.*?)\)"', (ROOT / source).read_text(encoding="utf-8"), re.DOTALL)
    return found or sys.exit(f"{source}: no PTX in it")


def main():
    own = ROOT / "build/checkers/ptxas"
    ptxas = own if own.exists() else shutil.which("ptxas")
    if ptxas is None:
        print("no ptxas: the kernels are not assembled")
        return
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for source in SOURCES:
            for text in texts(source):
                file = pathlib.Path(folder, "kernel.ptx")
                file.write_text(text, encoding="utf-8")
                for architecture in ARCHITECTURES:
                    command = [ptxas, "--warning-as-error", f"--gpu-name={architecture}", file, "-o", f"{file}.cubin"]
                    done = subprocess.run(command, capture_output=True, text=True, check=False)
                    if done.returncode != 0:
                        print(f"{source}, {architecture}:\n{done.stdout}{done.stderr}", end="")
                        failed = True
    if failed:
        sys.exit(1)
    print(f"the kernels of {len(SOURCES)} files assemble for {', '.join(ARCHITECTURES)}")


if __name__ == "__main__":
    main()
