#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the gem, with the native code for this platform and this release of Ruby.
#
#     build.sh OUTPUT_FOLDER
set -euo pipefail
. "$(dirname "$0")/../tools.sh"

make_swig ruby/gpupool_native.so ruby/gpupool.rb
rm -rf "$work"
mkdir -p "$work/lib"
carry "$work/lib" "$swig/ruby/gpupool_native.so"
install -m 0644 "$swig/ruby/gpupool.rb" "$work/lib"
install -m 0644 LICENSE packaging/ruby/README.md "$work"
release=$(ruby -e 'print RUBY_VERSION[/\d+\.\d+/]')
fill packaging/ruby/gpupool.gemspec "$work/gpupool.gemspec" RUBY="$release" \
  PLATFORM="$(ruby -e 'print Gem::Platform.local')"
cd "$work"
gem build --strict --quiet gpupool.gemspec >"$work/gem.log" 2>&1 || { cat "$work/gem.log" >&2; exit 1; }
mv ./*.gem "$output"
