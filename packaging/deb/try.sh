#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages with dpkg in a throwaway copy of this system (an overlay in a mount namespace of its own),
# builds programs against them, runs the command, and removes them again.
#
#     try.sh FOLDER
set -euo pipefail
. "$(dirname "$0")/../clean.sh"

compgen -G "$packages/*.deb" >/dev/null || { echo "deb: no packages, skipped"; exit 0; }
mkdir system debs
cp "$packages"/*.deb debs
cp "$here/../../tests/install/consumer.c" "$here/../../tests/install/find_package/CMakeLists.txt" .
cp -r "$here/../../tests/install/headers.sh" "$here/../../tests/hosts/stand_ins" .
sed -i 's|\.\./consumer.c|consumer.c|' CMakeLists.txt
cat >inside.sh <<'EOF'
set -eu
cd /tmp/try
dpkg -i debs/*.deb >dpkg.log 2>&1 || { cat dpkg.log; exit 1; }
gpupool info >info
grep -q "simulated" info
cmake -S . -B build >cmake.log
cmake --build build >>cmake.log || { cat cmake.log; exit 1; }
build/consumer
cc consumer.c $(pkg-config --cflags --libs gpupool) -o consumer
./consumer
./headers.sh /usr/include stand_ins "$fetched" >headers.log || { cat headers.log; exit 1; }
# What was left out, and why.
grep skipped headers.log || true
# Systems of containers leave manual pages out, whoever brings them.
if man -w ls >/dev/null 2>&1; then
  man -P cat gpupool-replay | grep -q find-cap
fi
bash -c '. /usr/share/bash-completion/completions/gpupool && complete -p gpupool' >/dev/null
dpkg -r $(for each in debs/*.deb; do dpkg-deb -f "$each" Package; done) >/dev/null
[ ! -e /usr/bin/gpupool ]
EOF
as_root=()
[ "$(id -u)" = 0 ] || as_root=(--map-root-user)
overlay='
  mount -t tmpfs try system
  mkdir system/upper system/work system/root
  mount -t overlay try -o lowerdir=/,upperdir=system/upper,workdir=system/work system/root'
if ! clean unshare "${as_root[@]}" --mount bash -euc "$overlay" 2>refusal; then
  # A container without the right to mount, as CI containers often are.
  echo "deb: built, and not tried, since nothing can be mounted here: $(tail -n 1 refusal)"
  exit 0
fi
fetched=$(realpath -m "$here/../../build/hosts")
clean fetched="$fetched" unshare "${as_root[@]}" --mount bash -euc "$overlay"'
  mount --rbind /dev system/root/dev
  mount -t proc proc system/root/proc 2>/dev/null || mount --rbind /proc system/root/proc
  mkdir system/root/tmp/try
  cp -r debs inside.sh consumer.c CMakeLists.txt headers.sh stand_ins system/root/tmp/try
  chroot system/root bash /tmp/try/inside.sh'
