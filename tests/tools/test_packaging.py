# SPDX-License-Identifier: Apache-2.0
"""What writes and checks packages: deterministic archives, the form of a nupkg, the list of what is in packages."""

import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
sys.path[:0] = [str(PACKAGING), str(PACKAGING / "csharp")]

import archive
import nupkg
import sbom

os.environ["SOURCE_DATE_EPOCH"] = "946684800"



class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, content=b"x"):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path


class Archives(Folder):
    def test_two_are_the_same(self):
        for suffix, rest in (("zip", ["b"]), ("tar.gz", ["name"])):
            sums = set()
            for mtime in (1e9, 1.5e9):
                for name in ("in/b", "in/a", "in/deep/c"):
                    os.utime(self.write(name), (mtime, mtime))
                archive.main(str(self.folder / f"out.{suffix}"), self.folder / "in", *rest)
                sums.add(hashlib.sha256((self.folder / f"out.{suffix}").read_bytes()).hexdigest())
            self.assertEqual(len(sums), 1, suffix)
        with zipfile.ZipFile(self.folder / "out.zip") as written:
            self.assertEqual(written.namelist(), ["b", "a", "deep/c"])
        with tarfile.open(self.folder / "out.tar.gz") as written:
            self.assertEqual(written.getnames(), ["name/a", "name/b", "name/deep/c"])
            self.assertEqual({entry.uid for entry in written}, {0})


class Nupkg(Folder):
    def make(self, change=None):
        """The problems of a package with these parts, after change has done something to its files."""
        text = (PACKAGING / "csharp/gpupool.nuspec").read_text().replace("@VERSION@", "1.2.3").replace("@COMMIT@", "0")
        parts = self.folder / "parts"
        shutil.rmtree(parts, ignore_errors=True)
        for name, content in (("GpuPool.nuspec", text.encode()), ("README.md", b"x"), ("LICENSE", b"x"),
                              ("lib/netstandard2.0/GpuPool.dll", b"x"), ("contentFiles/cs/any/GpuPool/Spans.cs", b"x"),
                              ("runtimes/linux-x64/native/libx.so.1", b"x")):
            self.write(f"parts/{name}", content)
        nupkg.write_parts(parts)
        name = change(parts) if change else None
        package = self.folder / (name or "GpuPool.1.2.3.nupkg")
        archive.main(str(package), parts, "[Content_Types].xml")
        return nupkg.check(package)

    def test_good(self):
        self.assertEqual(self.make(), [])

    def test_what_is_wrong_is_said(self):
        def edit(name, old, new):
            def change(parts):
                path = parts / name
                text = path.read_text()
                self.assertIn(old, text)
                path.write_text(text.replace(old, new))
            return change

        def move(old, new):
            def change(parts):
                (parts / new).parent.mkdir(parents=True, exist_ok=True)
                (parts / old).rename(parts / new)
            return change

        nuspec = "GpuPool.nuspec"
        for change, words in (
            (edit(nuspec, "<version>1.2.3", "<version>1.2"), "1.2: no version"),
            (edit(nuspec, "<authors>The gpupool developers", "<authors>"), "authors: missing or empty"),
            (edit(nuspec, "<tags>", "<tag/><tags>"), "tag: no element of the schema"),
            (edit(nuspec, ".NETStandard2.0", ".NETStandard2.1"), "dependencies are given for"),
            (edit(nuspec, 'type="expression"', ""), "the license is no expression"),
            (edit("_rels/.rels", nupkg.MANIFEST, nupkg.CORE), "not one relation"),
            (edit("[Content_Types].xml", 'Extension="dll"', 'Extension="exe"'), "GpuPool.dll: has no content type"),
            (move("LICENSE", "LICENCE"), "LICENCE: has no content type"),
            (move("README.md", "READ.md"), "the readme README.md is not there"),
            (move("contentFiles/cs/any/GpuPool/Spans.cs", "Spans.cs"), "Spans.cs is not there"),
            (move("runtimes/linux-x64/native/libx.so.1", "runtimes/linux/native/libx.so.1"), "not in runtimes/RUNTIME"),
            (move("lib/netstandard2.0/GpuPool.dll", "lib/java/GpuPool.dll"), "java is no framework"),
            (lambda parts: "GpuPool.1.2.4.nupkg", "not called as the id"),
        ):
            problems = self.make(change)
            self.assertTrue(any(words in problem for problem in problems), f"{words}: {problems}")


class Sbom(Folder):
    def test_lists_what_is_in_the_packages(self):
        library = next(Path("/lib").glob("*-linux-gnu/libc.so.6"), None) or Path(sys.executable).resolve()
        inner = io.BytesIO()
        with tarfile.open(fileobj=inner, mode="w:gz") as packed:
            packed.add(library, "lib/x.so")
        with tarfile.open(self.folder / "a.gem", "w") as packed:
            entry = tarfile.TarInfo("data.tar.gz")
            entry.size = len(inner.getvalue())
            packed.addfile(entry, io.BytesIO(inner.getvalue()))
        with zipfile.ZipFile(self.folder / "b.jar", "w") as packed:
            packed.writestr("A.class", b"x\x00N10__cxxabiv117__class_type_infoE\x00")
            packed.writestr("libb.so", b"\x7fELF\x00N10__cxxabiv117__class_type_infoE\x00")
        self.write("c.pom", b"plain")
        self.write("SHA256SUMS", b"no package")
        output = self.folder / "out.spdx.json"
        sbom.main([str(self.folder), "1.2.3", str(output)])
        document = json.loads(output.read_text())
        ours = {package["name"]: package for package in document["packages"] if "packageFileName" in package}
        self.assertEqual(set(ours), {"a.gem", "b.jar", "c.pom"})
        self.assertEqual(ours["c.pom"]["checksums"][0]["checksumValue"], hashlib.sha256(b"plain").hexdigest())
        names = {file["SPDXID"]: file["fileName"] for file in document["files"]}
        self.assertEqual(set(names.values()), {"./a.gem/lib/x.so", "./b.jar/A.class", "./b.jar/libb.so"})
        links = {(names[each["spdxElementId"]], each["relationshipType"]) for each in document["relationships"]
                 if "LINK" in each["relationshipType"]}
        self.assertIn(("./b.jar/libb.so", "STATIC_LINK"), links)
        self.assertIn(("./a.gem/lib/x.so", "DYNAMIC_LINK"), links)
        self.assertNotIn(("./b.jar/A.class", "STATIC_LINK"), links)


if __name__ == "__main__":
    unittest.main()
