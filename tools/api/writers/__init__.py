# SPDX-License-Identifier: Apache-2.0
"""One function from the model to text for each derived file."""

from .contract_json import contract_json
from .export_map import export_map
from .layout_c import layout_c
from .reference_md import reference_md

OUTPUTS = {
    "src/abi/gpupool.map": export_map,
    "tests/abi/layout.c": layout_c,
    "docs/api.json": contract_json,
    "docs/api.md": reference_md,
}
