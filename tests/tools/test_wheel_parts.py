# SPDX-License-Identifier: Apache-2.0
"""wheel_parts reads files out of a remote wheel without the rest of it; torch_matrix chooses releases."""

import contextlib
import http.server
import io
import json
import random
import sys
import tarfile
import tempfile
import threading
import unittest
import unittest.mock
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import torch_matrix
import wheel_parts

BIG = 8 << 20
NOISE = random.Random(1)


def wheel():
    """Two small files among two big ones that do not compress."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("torch/lib/big.so", NOISE.randbytes(BIG))
        archive.writestr("torch/include/one.h", "one" * 1000)
        archive.writestr("torch/lib/bigger.so", NOISE.randbytes(BIG))
        archive.writestr("torch/include/two.h", "two")
    return content.getvalue()


def sources():
    """A source archive, one of whose files would leave the folder."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name in ("torch-2.15.0/src/one.h", "torch-2.15.0/src/one.c", "../outside.h"):
            member = tarfile.TarInfo(name)
            member.size = 3
            archive.addfile(member, io.BytesIO(b"one"))
    return content.getvalue()


class Registry(http.server.BaseHTTPRequestHandler):
    files = {
        "/files/torch-2.15.0-cp312-cp312-manylinux_2_28_x86_64.whl": wheel(),
        "/files/torch-2.15.0.tar.gz": sources(),
    }
    sent, keys = 0, set()
    ranges = is_json = True

    def do_GET(self):
        type(self).keys.add(self.headers.get("Authorization"))
        status, headers, content = 200, {}, self.page()
        if self.path in self.files:
            content = self.files[self.path]
            span = self.headers.get("Range")
            if span and self.ranges:
                first, last = map(int, span.removeprefix("bytes=").split("-"))
                status, headers = 206, {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
                content = content[first : last + 1]
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(content)
        type(self).sent += len(content)

    def page(self):
        names = {path.rpartition("/")[2]: path for path in self.files}
        if self.is_json:
            return json.dumps({"files": [{"filename": name, "url": path} for name, path in names.items()]}).encode()
        return "".join(f'<a href="{path}#sha256=0" data-x="1">\n{name}</a>' for name, path in names.items()).encode()

    def log_message(self, *_):
        pass


class Parts(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        Registry.sent, Registry.keys, Registry.ranges, Registry.is_json = 0, set(), True, True
        wheel_parts.archives.cache_clear()
        address = f"http://name:p%40ss@127.0.0.1:{self.server.server_port}/simple/"
        settings = {"index-url": address, "cert": ""}
        self.enterContext(unittest.mock.patch.object(wheel_parts, "_setting", settings.__getitem__))

    def extract(self):
        [url] = wheel_parts.wheels("torch").values()
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        wheel_parts.extract(url, lambda name: name.endswith(".h"), folder)
        return {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}

    def test_only_what_is_wanted_is_fetched(self):
        self.assertEqual(self.extract(), {"one.h": "one" * 1000, "two.h": "two"})
        self.assertLess(Registry.sent, 3 * wheel_parts.Ranges.BLOCK)
        self.assertEqual(Registry.keys, {"Basic bmFtZTpwQHNz"})

    def test_sources_stay_in_the_folder(self):
        url = wheel_parts.archives("torch")["torch-2.15.0.tar.gz"]
        with tempfile.TemporaryDirectory() as outside:
            folder = Path(outside) / "inside"
            wheel_parts.extract_sources(url, lambda name: name.endswith(".h"), folder)
            found = [path.relative_to(outside) for path in Path(outside).rglob("*") if path.is_file()]
        self.assertEqual(found, [Path("inside/torch-2.15.0/src/one.h")])
        with self.assertRaises(wheel_parts.Unavailable):
            wheel_parts.extract_sources(url + "x", lambda _: True, folder)

    def test_a_registry_may_answer_in_html(self):
        Registry.is_json = False
        self.assertEqual(len(self.extract()), 2)

    def test_a_registry_without_ranges_is_none(self):
        Registry.ranges = False
        with self.assertRaisesRegex(wheel_parts.Unavailable, "does not answer requests for ranges"):
            self.extract()

    def test_a_registry_that_is_not_there_is_none(self):
        self.server.shutdown()
        self.server.server_close()
        with self.assertRaisesRegex(wheel_parts.Unavailable, "the list of torch's releases"):
            wheel_parts.wheels("torch")


class Matrix(unittest.TestCase):
    def setUp(self):
        self.enterContext(unittest.mock.patch("platform.machine", lambda: "x86_64"))
        self.kept = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(unittest.mock.patch.object(torch_matrix, "KEPT", self.kept))

    def test_of_each_minor_release_the_newest_counts(self):
        names = [
            "torch-2.5.1-cp312-cp312-manylinux1_x86_64.whl",
            "torch-2.6.0-cp312-cp312-manylinux1_x86_64.whl",
            "torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl",
            "torch-2.10.0-cp312-cp312-manylinux_2_28_x86_64.whl",
            "torch-2.9.0-cp312-cp312-manylinux_2_28_x86_64.whl",
            "torch-2.11.0-cp312-cp312-manylinux_2_28_aarch64.whl",
            "torch-2.12.0rc1-cp312-cp312-manylinux_2_28_x86_64.whl",
        ]
        with unittest.mock.patch.object(wheel_parts, "wheels", lambda _: dict.fromkeys(names, "")):
            self.assertEqual(torch_matrix.releases(), ["2.10.0", "2.9.1", "2.6.0"])

    def test_without_a_registry_what_is_kept_counts(self):
        def none(_):
            raise wheel_parts.Unavailable("no network")

        with (
            unittest.mock.patch.object(wheel_parts, "wheels", none),
            contextlib.redirect_stderr(io.StringIO()) as said,
        ):
            with self.assertRaisesRegex(wheel_parts.Unavailable, "no network"):
                torch_matrix.releases()
            (self.kept / "2.14.1").mkdir()
            (self.kept / "2.15.0.4711").mkdir()  # of a process that was ended
            self.assertEqual(torch_matrix.releases(), ["2.14.1"])
        self.assertIn("no network; what was fetched before is tried", said.getvalue())


if __name__ == "__main__":
    unittest.main()
