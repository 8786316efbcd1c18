#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds one archive of the sources: the same bytes for the same sources.
#
#     build.sh OUTPUT_FOLDER
set -euo pipefail
. "$(dirname "$0")/../tools.sh"
write_source "$output"
