# SPDX-License-Identifier: Apache-2.0
"""For IPython and Jupyter: `%load_ext gpupool`, and then

    %%gpupool
    train_one_epoch()

runs the cell and shows the report of what it did with the memory of all pools: live bytes over time, who held them,
what it left. `%%gpupool --height 900` is the height of the page in pixels. Since 0.2.
"""

from __future__ import annotations

import html
from typing import Any

from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from ._html import in_words
from ._observed import Observed


def _has_changed(pool: dict[str, Any]) -> bool:
    """Whether the cell did anything with a pool's memory, beside what was there before."""
    is_new = any(not holder["before"] for holder in pool["at_peak"] + pool["at_end"])
    return is_new or bool(pool["end_live_bytes"] != pool["peak_live_bytes"])


class Report:
    """What a cell did: in a notebook the page of `gpupool report`, elsewhere a line for each pool."""

    def __init__(self, seen: Observed, height: int) -> None:
        self.pools: list[dict[str, Any]] = [pool for pool in seen.pools() if _has_changed(pool)]
        self._page = seen.page() if self.pools else ""
        self._height = height

    def __repr__(self) -> str:
        if not self.pools:
            return "gpupool: the cell allocated nothing"
        return "\n".join(
            f"gpupool: pool {pool['pool']} on {pool['device']}: {in_words(pool['peak_live_bytes'])} live at the peak, "
            f"{in_words(pool['end_live_bytes'])} at the end"
            for pool in self.pools
        )

    def _repr_html_(self) -> str:
        if not self.pools:
            return html.escape(repr(self))
        # Its own policy lets the page run its own script only; the sandbox keeps even that out of the notebook.
        return (
            f'<iframe sandbox="allow-scripts" style="width:100%;height:{self._height}px;border:0" '
            f'title="gpupool report" srcdoc="{html.escape(self._page)}"></iframe>'
        )


@magics_class
class GpupoolMagics(Magics):  # type: ignore[misc]
    """%%gpupool."""

    @magic_arguments()  # type: ignore[untyped-decorator]
    @argument("--height", type=int, default=700, help="Height of the report in pixels")  # type: ignore[untyped-decorator]
    @cell_magic  # type: ignore[untyped-decorator]
    def gpupool(self, line: str, cell: str) -> None:
        """Run the cell, and show what it did with the memory of all pools."""
        arguments = parse_argstring(self.gpupool, line)
        seen = Observed()
        try:
            with seen:
                self.shell.run_cell(cell)
            display(Report(seen, arguments.height))
        finally:
            seen.close()
