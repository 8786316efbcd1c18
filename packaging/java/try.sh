#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles and runs a program with only the jar.
#
#     try.sh FOLDER
set -euo pipefail
. "$(dirname "$0")/../clean.sh"

jar=$(package 'gpupool-*[0-9].jar')
cp -r "$here/program" "$home/program"
clean javac -cp "$jar" -d "$home/classes" program/Try.java
clean java -cp "$jar:$home/classes" -Djava.io.tmpdir="$home/tmp" Try >output
says "there and back" output
says "from the jar" output
# Nothing stays behind.
[ -z "$(ls "$home/tmp")" ] || { ls -l "$home/tmp"; exit 1; }
# Nobody else can exchange the loaded files, whatever the umask.
clean javac -cp "$jar" -d "$home/classes" program/Permissions.java
(umask 0 && clean java -cp "$jar:$home/classes" -Djava.io.tmpdir="$home/tmp" org.gpupool.Permissions) >output
[ "$(sort -u output)" = rwx------ ] && [ "$(wc -l <output)" = 3 ] || { cat output; exit 1; }
# As a module.
clean java -p "$jar" --add-modules org.gpupool -cp "$home/classes" -Djava.io.tmpdir="$home/tmp" Try >output
says "there and back" output
# If nothing can be written, the error says what to do.
if clean java -cp "$jar:$home/classes" -Djava.io.tmpdir="$home/nowhere" Try >output 2>&1; then exit 1; fi
says "its native code cannot be written to $home/nowhere" output
# The same where it can be written, but not run; only who may mount can try it.
mkdir noexec
if unshare -rm mount -t tmpfs -o noexec tmpfs noexec 2>/dev/null; then
  if clean unshare -rm sh -c 'mount -t tmpfs -o noexec tmpfs noexec && exec "$@"' sh \
    java -cp "$jar:$home/classes" -Djava.io.tmpdir="$home/noexec" Try >output 2>&1; then exit 1; fi
  says "its native code cannot be loaded from $home/noexec" output
  says "-Djava.io.tmpdir=FOLDER names another folder for it, or -Dorg.gpupool.natives=FOLDER" output
else
  echo "java: a folder that is mounted noexec is not tried: this user may not mount one"
fi
# The sources belong to the classes.
mkdir sources && (cd sources && clean jar xf "$(package 'gpupool-*-sources.jar')")
clean javac -d "$home/again" sources/org/gpupool/*.java
diff <(cd again && find . -name '*.class' | sort) <(clean jar tf "$jar" | grep '\.class$' | sed 's|^|./|' | sort)
