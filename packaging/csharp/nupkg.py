#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A NuGet package is a zip in the form of the Open Packaging Conventions.

    nupkg.py parts FOLDER     adds the parts that the form requires: content types, relations, core properties
    nupkg.py check PACKAGE    checks everything about the form that NuGet and nuget.org insist on
"""

import re
import sys
import zipfile
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree
from xml.sax.saxutils import escape

NUSPEC = "{http://schemas.microsoft.com/packaging/2013/05/nuspec.xsd}"
TYPES = "{http://schemas.openxmlformats.org/package/2006/content-types}"
RELATIONS = "{http://schemas.openxmlformats.org/package/2006/relationships}"
MANIFEST = "http://schemas.microsoft.com/packaging/2010/07/manifest"
CORE = "http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties"
HEAD = '<?xml version="1.0" encoding="utf-8"?>\n'
# The schema has them in any order, each at most once.
ONCE = {"id", "version", "title", "authors", "owners", "requireLicenseAcceptance", "license", "licenseUrl",
        "projectUrl", "icon", "iconUrl", "readme", "description", "releaseNotes", "copyright", "language", "tags",
        "repository", "packageTypes", "dependencies", "frameworkAssemblies", "references", "contentFiles",
        "serviceable", "summary", "developmentDependency"}
REQUIRED = {"id", "version", "authors", "description"}
FRAMEWORK = re.compile(r"net(standard\d\.\d|coreapp\d\.\d|\d\.\d|4\d{1,2})")
RUNTIME = re.compile(r"(linux|osx|win)(-musl)?-(x64|x86|arm64|arm)")


def metadata_of(nuspec):
    root = ElementTree.fromstring(nuspec)
    if root.tag != f"{NUSPEC}package" or [child.tag for child in root] != [f"{NUSPEC}metadata"]:
        raise ValueError("the nuspec is not a package with metadata, in the namespace of 2013/05")
    return root[0]


def text_of(metadata, name):
    return (metadata.findtext(f"{NUSPEC}{name}") or "").strip()


# ---- writing


def extension_of(name):
    return PurePosixPath(name).suffix.lstrip(".")


def write_parts(folder):
    nuspec = next(folder.glob("*.nuspec"))
    metadata = metadata_of(nuspec.read_bytes())
    name, version = text_of(metadata, "id"), text_of(metadata, "version")
    core = folder / "package/services/metadata/core-properties" / f"{name}.{version}.psmdcp"
    core.parent.mkdir(parents=True)
    core.write_text(
        f'{HEAD}<coreProperties xmlns="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<dc:creator>{escape(text_of(metadata, 'authors'))}</dc:creator>"
        f"<dc:description>{escape(text_of(metadata, 'description'))}</dc:description>"
        f"<dc:identifier>{name}</dc:identifier><version>{version}</version>"
        f"<keywords>{escape(text_of(metadata, 'tags'))}</keywords></coreProperties>\n")
    (folder / "_rels").mkdir()
    (folder / "_rels/.rels").write_text(
        f'{HEAD}<Relationships xmlns="{RELATIONS[1:-1]}">'
        f'<Relationship Type="{MANIFEST}" Target="/{nuspec.name}" Id="R1" />'
        f'<Relationship Type="{CORE}" Target="/{core.relative_to(folder).as_posix()}" Id="R2" />'
        "</Relationships>\n")
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    special = {"rels": "application/vnd.openxmlformats-package.relationships+xml",
               "psmdcp": "application/vnd.openxmlformats-package.core-properties+xml"}
    defaults = "".join(f'<Default Extension="{each}" ContentType="{special.get(each, "application/octet")}" />'
                       for each in sorted({extension_of(file) or "rels" for file in files} | set(special)))
    overrides = "".join(f'<Override PartName="/{file}" ContentType="application/octet" />'
                        for file in sorted(files) if not extension_of(file) and not file.startswith("_rels/"))
    (folder / "[Content_Types].xml").write_text(f'{HEAD}<Types xmlns="{TYPES[1:-1]}">{defaults}{overrides}</Types>\n')


# ---- checking


def zip_problems(package):
    names = package.namelist()
    if names[:1] != ["[Content_Types].xml"]:
        yield "[Content_Types].xml is not the first part"
    if len(names) != len({name.lower() for name in names}):
        yield "two parts have one name, or names that differ by case only"
    for entry in package.infolist():
        if "\\" in entry.filename or entry.filename.startswith("/") or ".." in entry.filename.split("/"):
            yield f"{entry.filename}: no path of a part"
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            yield f"{entry.filename}: packed in a way that NuGet does not read"
    if package.testzip():
        yield f"{package.testzip()}: damaged"


def type_problems(package):
    types = ElementTree.fromstring(package.read("[Content_Types].xml"))
    extensions = {each.get("Extension") for each in types.findall(f"{TYPES}Default")}
    overrides = {each.get("PartName") for each in types.findall(f"{TYPES}Override")}
    for name in package.namelist()[1:]:
        extension = "rels" if name.endswith(".rels") else extension_of(name)
        if extension not in extensions and f"/{name}" not in overrides:
            yield f"{name}: has no content type"
    for name in overrides - {f"/{each}" for each in package.namelist()}:
        yield f"{name}: has a content type and is not there"


def relation_problems(package):
    targets = {}
    for each in ElementTree.fromstring(package.read("_rels/.rels")):
        targets.setdefault(each.get("Type"), []).append(each.get("Target"))
    for kind in (MANIFEST, CORE):
        if len(targets.get(kind, [])) != 1:
            yield f"there is not one relation of type {kind}"
        elif targets[kind][0].lstrip("/") not in package.namelist():
            yield f"{targets[kind][0]}: related, and not there"


def nuspec_problems(package, file_name):
    nuspecs = [name for name in package.namelist() if name.endswith(".nuspec")]
    if len(nuspecs) != 1 or "/" in nuspecs[0]:
        yield f"there is not one nuspec at the top: {nuspecs}"
        return
    metadata = metadata_of(package.read(nuspecs[0]))
    tags = [child.tag.removeprefix(NUSPEC) for child in metadata]
    yield from (f"{tag}: no element of the schema" for tag in tags if tag not in ONCE)
    yield from (f"{tag}: twice" for tag in set(tags) if tags.count(tag) > 1)
    yield from (f"{tag}: missing or empty" for tag in REQUIRED if not text_of(metadata, tag))
    name, version = text_of(metadata, "id"), text_of(metadata, "version")
    if not re.fullmatch(r"\w+([.-]\w+)*", name) or len(name) > 100:
        yield f"{name}: no id"
    if not re.fullmatch(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", version):
        yield f"{version}: no version"
    if file_name != f"{name}.{version}.nupkg" or nuspecs[0] != f"{name}.nuspec":
        yield f"{file_name} and {nuspecs[0]} are not called as the id {name} and the version {version}"
    readme = text_of(metadata, "readme")
    if readme and readme not in package.namelist():
        yield f"the readme {readme} is not there"
    lic = metadata.find(f"{NUSPEC}license")
    if lic is None or lic.get("type") not in ("expression", "file"):
        yield "the license is no expression and no file"
    for each in metadata.iterfind(f"{NUSPEC}contentFiles/{NUSPEC}files"):
        if f"contentFiles/{each.get('include')}" not in package.namelist():
            yield f"contentFiles/{each.get('include')} is not there"


def layout_problems(package):
    frameworks = set()
    for name in package.namelist():
        parts = name.split("/")
        if parts[0] in ("lib", "buildTransitive", "build") and not FRAMEWORK.fullmatch(parts[1]):
            yield f"{name}: {parts[1]} is no framework"
        if parts[0] == "lib":
            frameworks.add(parts[1])
        if parts[0] == "runtimes" and (not RUNTIME.fullmatch(parts[1]) or parts[2] != "native"):
            yield f"{name}: not in runtimes/RUNTIME/native"
    metadata = metadata_of(package.read(next(name for name in package.namelist() if name.endswith(".nuspec"))))
    groups = {group.get("targetFramework").lstrip(".").lower().replace(".netstandard", "netstandard")
              for group in metadata.iterfind(f"{NUSPEC}dependencies/{NUSPEC}group")}
    if groups != frameworks:
        yield f"lib has {sorted(frameworks)}, and dependencies are given for {sorted(groups)}"


def check(path):
    with zipfile.ZipFile(path) as package:
        return [*zip_problems(package), *type_problems(package), *relation_problems(package),
                *nuspec_problems(package, path.name), *layout_problems(package)]


def main(arguments):
    if len(arguments) != 2 or arguments[0] not in ("parts", "check"):
        sys.exit(__doc__)
    if arguments[0] == "parts":
        write_parts(Path(arguments[1]))
        return
    problems = check(Path(arguments[1]))
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main(sys.argv[1:])
