#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the jars for Maven: classes with the native code, sources, and documentation, beside the pom.
#
#     build.sh OUTPUT_FOLDER
set -euo pipefail
. "$(dirname "$0")/../tools.sh"

make_swig java/gpupool.jar java/libgpupool_java.so
name=gpupool-$version
maven=META-INF/maven/org.gpupool/gpupool
rm -rf "$work"
mkdir -p "$work"/{classes,sources}/META-INF "$work/classes/$maven" "$work/sources/org/gpupool"

fill packaging/java/pom.xml "$output/$name.pom"
cp -r "$swig/java/classes/org" "$work/classes"
cp "$output/$name.pom" "$work/classes/$maven/pom.xml"
printf 'groupId=org.gpupool\nartifactId=gpupool\nversion=%s\n' "$version" >"$work/classes/$maven/pom.properties"
cp LICENSE "$work/classes/META-INF/LICENSE"
cp LICENSE "$work/sources/META-INF/LICENSE"
printf 'Manifest-Version: 1.0\r\nAutomatic-Module-Name: org.gpupool\r\nImplementation-Version: %s\r\n\r\n' "$version" \
  >"$work/classes/META-INF/MANIFEST.MF"

natives=$work/classes/org/gpupool/native/$platform
carry "$natives" "$swig/java/libgpupool_java.so"
for file in "$natives"/*; do echo "$(basename "$file")="; done >"$work/files"
mv "$work/files" "$natives/files.properties"

cp "$swig"/java/proxies/*.java bindings/swig/java/*.java "$work/sources/org/gpupool"
javadoc -quiet -notimestamp -Xdoclint:none -encoding UTF-8 -d "$work/documentation" \
  "$work"/sources/org/gpupool/*.java >"$work/javadoc.log" 2>&1 || { cat "$work/javadoc.log" >&2; exit 1; }

packaging/archive.py "$output/$name.jar" "$work/classes" META-INF/MANIFEST.MF
packaging/archive.py "$output/$name-sources.jar" "$work/sources"
packaging/archive.py "$output/$name-javadoc.jar" "$work/documentation"
