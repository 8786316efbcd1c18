# SPDX-License-Identifier: Apache-2.0
"""Files out of wheels, without the rest of them: a wheel is a ZIP file, and registries answer requests for ranges.

The registry is the one that pip is set to use here. A wheel of a gigabyte costs a few requests of half a megabyte.
"""

import base64
import functools
import io
import json
import os
import platform
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path


class Unavailable(Exception):
    """There is no registry, or it has not what is asked for."""


class Ranges(io.RawIOBase):
    """A remote file that is read where it is looked at, in blocks that are kept."""

    BLOCK = 1 << 19

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        """read(first, last) returns these bytes, the last one too."""
        super().__init__()
        self.read_range, self.size = read, size
        self.at = 0
        self.blocks: dict[int, bytes] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer) -> int:
        if self.at >= self.size:
            return 0
        index, start = divmod(self.at, self.BLOCK)
        if index not in self.blocks:
            last = min((index + 1) * self.BLOCK, self.size) - 1
            self.blocks[index] = self.read_range(index * self.BLOCK, last)
        part = self.blocks[index][start : start + len(buffer)]
        buffer[: len(part)] = part
        self.at += len(part)
        return len(part)


def extract(url: str, is_wanted: Callable[[str], bool], folder: Path) -> None:
    """Writes the wanted files of a wheel into the folder. Raises Unavailable."""
    try:
        size, _ = _fetch(url, (0, 0))
        ranges = Ranges(lambda first, last: _fetch(url, (first, last))[1], size)
        with zipfile.ZipFile(io.BufferedReader(ranges, Ranges.BLOCK)) as wheel:
            for name in filter(is_wanted, wheel.namelist()):
                wheel.extract(name, folder)
    except (OSError, zipfile.BadZipFile) as error:
        raise Unavailable(f"{url.rsplit('/', 1)[-1]}: {error}") from error


def extract_sources(url: str, is_wanted: Callable[[str], bool], folder: Path) -> None:
    """Writes the wanted files of a source archive, which is fetched whole, into the folder. Raises Unavailable."""
    try:
        _, content = _fetch(url, None)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for each in archive.getmembers():
                path = folder / each.name
                if each.isfile() and is_wanted(each.name) and ".." not in path.parts and not each.name.startswith("/"):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(archive.extractfile(each).read())
    except (OSError, tarfile.TarError) as error:
        raise Unavailable(f"{url.rsplit('/', 1)[-1]}: {error}") from error


def kept(folder: Path, fetch: Callable[[Path], None]) -> Path:
    """The folder, which fetch fills the first time. Raises Unavailable."""
    if not folder.exists():
        part = folder.with_name(f"{folder.name}.{os.getpid()}")
        part.mkdir(parents=True)
        try:
            fetch(part)
            part.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was faster
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return folder


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def wheel(project: str, version: str) -> str:
    """The address of a project's wheel for this machine: of this version, or the newest one that starts with it if it
    ends in a dot. Raises Unavailable."""
    start = re.escape(f"{project.replace('-', '_')}-{version}") + (r"\d+" if version.endswith(".") else "")
    pattern = re.compile(rf"{start}-[\w.]+-\w+-manylinux[\w.]*{platform.machine()}\.whl")
    found = sorted(filter(pattern.fullmatch, wheels(project)), key=lambda name: number(name.split("-")[1]))
    if not found:
        raise Unavailable(f"there is no wheel of {project} {version} for this machine")
    return wheels(project)[found[-1]]


def wheels(project: str) -> dict[str, str]:
    """The addresses of a project's wheels, by file name. Raises Unavailable."""
    return {name: url for name, url in archives(project).items() if name.endswith(".whl")}


@functools.cache
def archives(project: str) -> dict[str, str]:
    """The addresses of all that a project has released, by file name. Raises Unavailable."""
    url = f"{_setting('index-url').rstrip('/')}/{project}/"
    try:
        _, page = _fetch(url, None, "application/vnd.pypi.simple.v1+json, text/html;q=0.5")
    except OSError as error:
        raise Unavailable(f"the list of {project}'s releases: {error}") from error
    if page.lstrip()[:1] == b"{":
        links = {each["filename"]: each["url"] for each in json.loads(page)["files"]}
    else:
        found = re.findall(r'href="([^"#]+)[^"]*"[^>]*>\s*([^<\s]+)', page.decode())
        links = {name: link for link, name in found}
    return {name: urllib.parse.urljoin(url, link) for name, link in links.items()}


@functools.cache
def _setting(name: str) -> str:
    """pip's own, from its files or the environment; for the index, its default in the end."""
    pip = [sys.executable, "-m", "pip"]
    try:
        listed = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=True).stdout
        found = re.findall(rf"^[\w:]+\.{name}='([^']*)'", listed, flags=re.MULTILINE)
        if found or name != "index-url":
            return found[0] if found else ""
        help_text = subprocess.run([*pip, "install", "--help"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"pip does not say which registry it uses: {error}") from error
    default = re.search(r"\(default\s+(https?://[^)\s]+)\)", help_text)
    if default is None:
        raise Unavailable("pip does not say which registry it uses")
    return default[1]


def _fetch(url: str, span: tuple[int, int] | None, accept: str = "*/*") -> tuple[int, bytes]:
    """The size of the file, and the bytes of it in the span. Raises OSError."""
    parts = urllib.parse.urlsplit(url)
    request = urllib.request.Request(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())
    request.add_header("Accept", accept)
    if parts.username is not None:
        key = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        request.add_header("Authorization", f"Basic {base64.b64encode(key.encode()).decode()}")
    if span is not None:
        request.add_header("Range", f"bytes={span[0]}-{span[1]}")
    cafile = os.environ.get("PIP_CERT") or _setting("cert") or None
    context = ssl.create_default_context(cafile=cafile) if parts.scheme == "https" else None
    with urllib.request.urlopen(request, timeout=30, context=context) as answer:
        if span is not None and answer.status != 206:
            raise OSError("the registry does not answer requests for ranges")
        content = answer.read()
        return int(answer.headers["Content-Range"].rpartition("/")[2]) if span is not None else len(content), content
