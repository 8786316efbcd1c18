# SPDX-License-Identifier: Apache-2.0
"""What the tests of hosts share: their packages, fetched once into build/hosts, and a compiler."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import host_record
import wheel_parts
from wheel_parts import Unavailable

Tried = host_record.Tried
KEPT = ROOT / "build/hosts"
COMPILER = os.environ.get("CXX", "g++")


class Failed(Exception):
    """A host does not work with gpupool."""


def kept(name: str, fetch: Callable[[Path], None]) -> Path:
    """The folder of a package, which fetch fills the first time. Raises Unavailable."""
    return wheel_parts.kept(KEPT / name, fetch)


def wheel(project: str, version: str, is_wanted: Callable[[str], bool] = lambda _: True) -> Path:
    """The wanted files of a wheel for this machine, of any release that starts with version if that ends in a dot."""
    return kept(
        f"{project}-{version}",
        lambda folder: wheel_parts.extract(wheel_parts.wheel(project, version), is_wanted, folder),
    )


def sdist(project: str, version: str, is_wanted: Callable[[str], bool]) -> Path:
    """The wanted files of a project's sources."""

    def fetch(folder: Path) -> None:
        name = f"{project.replace('-', '_')}-{version}.tar.gz"
        if name not in wheel_parts.archives(project):
            raise Unavailable(f"there are no sources of {project} {version}")
        wheel_parts.extract_sources(wheel_parts.archives(project)[name], is_wanted, folder)

    return kept(f"{project}-{version}.sources", fetch)


def installed(*requirements: str) -> Path:
    """A folder for PYTHONPATH with packages and all that they need, as pip installs them."""

    def fetch(folder: Path) -> None:
        words = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(folder)]
        _command([*words, *requirements], folder)

    return kept("-".join(requirements).replace("==", "-") + ".installed", fetch)


def debian(package: str) -> Path:
    """The files of a Debian package, which is not installed."""

    def fetch(folder: Path) -> None:
        _command(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package], folder)
        archive = next(folder.glob("*.deb"))
        _command(["dpkg", "-x", archive.name, "."], folder)

    return kept(package, fetch)


def debian_version(folder: Path) -> str:
    """As its archive's name has it, without Debian's own part."""
    return re.match(r"[^_]+_(?:\d+%3a)?([\d.]+)", next(folder.glob("*.deb")).name)[1]


def go_module(path: str, version: str) -> Path:
    """The sources of a Go module."""

    def fetch(folder: Path) -> None:
        place = {"GOMODCACHE": str(folder), "GOFLAGS": "-modcacherw"}
        _command(["go", "mod", "download", f"{path}@{version}"], folder, place)
        shutil.rmtree(folder / "cache", ignore_errors=True)

    return kept(f"{path.rpartition('/')[2]}-{version}", fetch) / f"{path}@{version}"


def maven(group: str, name: str, version: str) -> Path:
    """A jar, without what it depends on."""

    def fetch(folder: Path) -> None:
        place = [f"-Dmaven.repo.local={folder / 'all'}", f"-Dartifact={group}:{name}:{version}", "-Dtransitive=false"]
        _command(["mvn", "-q", "-B", "dependency:get", *place], folder)
        next(folder.rglob(f"{name}-{version}.jar")).rename(folder / f"{name}-{version}.jar")
        shutil.rmtree(folder / "all")

    return kept(f"{name}-{version}.jar", fetch) / f"{name}-{version}.jar"


def cuda_headers() -> list[str | Path]:
    """The compiler's options that find cuda_runtime.h."""
    folders = [
        wheel(project, "13.0.", lambda name: "/include/" in name)
        for project in ("nvidia-cuda-runtime", "nvidia-cuda-crt")
    ]
    return [option for folder in folders for option in ("-isystem", folder / "nvidia/cu13/include")]


def _command(words: list[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    try:
        subprocess.run(
            words, cwd=folder, env=os.environ | (environment or {}), capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip()
        raise Unavailable(f"{' '.join(words)}: {said.splitlines()[-1]}") from error


def ask(*words: str) -> str:
    """What a command of the system prints. Raises Unavailable."""
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"{' '.join(words)}: {error}") from error


def compile_program(source: Path, program: Path, *options: str | Path, libraries: Path) -> None:
    """With -c, only an object. Raises Failed."""
    program.parent.mkdir(parents=True, exist_ok=True)
    command = [
        COMPILER,
        "-std=c++17",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-I",
        ROOT / "include",
        source,
        "-o",
        program,
        *options,
    ]
    if "-c" not in options:
        command += [f"-L{libraries}", "-lgpupool", f"-Wl,-rpath,{libraries}"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        raise Failed(f"{source.name}: {built.stderr}")


def run(*command: str | Path, **environment: str) -> str:
    """What a program prints, on the simulated device. Raises Failed."""
    ran = subprocess.run(
        command,
        env={**os.environ, "GPUPOOL_BACKEND": "sim", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if ran.returncode != 0:
        raise Failed(f"{Path(command[0]).name} ended with {ran.returncode}: {ran.stdout}{ran.stderr}")
    return ran.stdout
