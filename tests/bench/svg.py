# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG, with only the standard library: bars in groups, and lines over counts of threads."""

import math
from html import escape

COLOURS = {
    "gpupool": "#c33",
    "cuda_async": "#36c",
    "pytorch": "#e90",
    "pytorch_expandable": "#963",
    "rmm_pool": "#393",
    "rmm_arena": "#7b7",
    "cupy": "#93a",
}
WIDTH, TOP, LEFT, RIGHT = 960, 60, 190, 70


def text(x, y, words, anchor="start", colour="#333"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


def frame(height, title, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-size="13" '
    head += 'font-family="sans-serif">'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, background, text(20, 26, title), *parts, "</svg>\n"])


def legend(names, y=46):
    """Names in their colours, in one row."""
    parts, x = [], 20
    for name in names:
        parts.append(f'<rect x="{x}" y="{y - 10}" width="10" height="10" fill="{COLOURS.get(name, "#999")}"/>')
        parts.append(text(x + 14, y, name))
        x += 30 + 8 * len(name)
    return parts


def scale(least, most):
    """Maps a value to [0, 1], by its logarithm."""
    low, high = math.log10(least), math.log10(most)
    return lambda value: (math.log10(value) - low) / (high - low or 1)


def grid(least, most):
    """The powers of ten between the two, for lines across."""
    return [10.0**power for power in range(math.ceil(math.log10(least)), math.floor(math.log10(most)) + 1)]


def bars(title, groups, *, digits):
    """groups: {label: {name: value or None}}. A value that is None is said to be missing. Logarithmic."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    known = [value for group in groups.values() for value in group.values() if value is not None]
    least = min(known) / 1.5
    place, across, bar = scale(least, max(known)), WIDTH - LEFT - RIGHT, 12
    parts, y = legend(names), TOP + 10
    for value in grid(least, max(known)):
        x = LEFT + across * place(value)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{{bottom}}" stroke="#ddd"/>')
        parts.append(text(x, TOP + 4, f"{value:g}", "middle", "#999"))
    for label, group in groups.items():
        parts.append(text(LEFT - 8, y + bar * len(group) / 2 + 4, label, "end"))
        for name, value in group.items():
            if value is None:
                parts.append(text(LEFT + 4, y + bar - 2, "-", "start", "#999"))
            else:
                length = max(1.0, across * place(value))
                parts.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{bar - 1}" '
                             f'fill="{COLOURS.get(name, "#999")}"/>')  # fmt: skip
                parts.append(text(LEFT + length + 4, y + bar - 2, f"{value:.{digits}f}", "start", "#666"))
            y += bar
        y += 10
    parts = [part.replace("{bottom}", str(y)) for part in parts]
    return frame(y + 20, title, parts)


def lines(title, curves, x_label):
    """curves: {name: {x: value}}, both axes logarithmic."""
    points = [(x, value) for curve in curves.values() for x, value in curve.items()]
    least, most = min(v for _, v in points) / 1.5, max(v for _, v in points) * 1.2
    height, bottom = 440, 390
    across = scale(min(x for x, _ in points), max(x for x, _ in points))
    up, left, wide = scale(least, most), 80, WIDTH - 160
    parts = [*legend(curves), text(left + wide / 2, height - 14, x_label, "middle")]
    for value in grid(least, most):
        y = bottom - (bottom - TOP - 10) * up(value)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + wide}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(text(left - 8, y + 4, f"{value:g}", "end", "#999"))
    for x in sorted({x for x, _ in points}):
        parts.append(text(left + wide * across(x), bottom + 18, f"{x}", "middle", "#999"))
    for name, curve in curves.items():
        colour = COLOURS.get(name, "#999")
        at = [(left + wide * across(x), bottom - (bottom - TOP - 10) * up(v)) for x, v in sorted(curve.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in at]
    return frame(height, title, parts)
