#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tags a release for Go: bindings/go/vX.Y.Z is a commit beside the branch. It is HEAD with the sources of the C library
# in bindings/go, because Go takes a module from its own folder only. Branch, index and files stay as they are.
#
#   tag.sh            the version is the header's; git push origin bindings/go/vX.Y.Z publishes it
set -euo pipefail
cd "$(dirname "$0")/../.."
number() { sed -n "s/^#define GPUPOOL_VERSION_$1 //p" include/gpupool/gpupool.h; }
tag=bindings/go/v$(number MAJOR).$(number MINOR).$(number PATCH)
[ -z "$(git status --porcelain)" ] || { echo "tag.sh: there are changes that are not committed" >&2; exit 1; }
! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || { echo "tag.sh: $tag is there already" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/internal/native"
python3 -B packaging/go/amalgamate.py "$work"
export GIT_INDEX_FILE=$work/index
git read-tree HEAD
for file in "$work"/internal/native/*; do
  blob=$(git hash-object -w --no-filters "$file")
  git update-index --add --cacheinfo "100644,$blob,bindings/go/internal/native/$(basename "$file")"
done
commit=$(git commit-tree -p HEAD -m "go: ${tag##*/} with the C library's sources" "$(git write-tree)")
git tag "$tag" "$commit"
echo "$tag"
