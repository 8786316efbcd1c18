# SPDX-License-Identifier: Apache-2.0
"""A small model of ONNX, without ONNX's own package: y = relu(relu(x * W1) * W2) ..., for x of 1 x 64.

onnx_model.py FILE    writes it
"""

import struct
import sys
from pathlib import Path

WIDTH = 64


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _text(field: int, content: str | bytes) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _node(kind: str, inputs: list[str], output: str) -> bytes:
    return b"".join(_text(1, name) for name in inputs) + _text(2, output) + _text(4, kind)


def _tensor(name: str, seed: int) -> bytes:
    values = [((i * 31 + seed * 17) % 29 - 14) / 64 for i in range(WIDTH * WIDTH)]
    return _number(1, WIDTH) * 2 + _number(2, 1) + _text(8, name) + _text(9, struct.pack(f"<{len(values)}f", *values))


def _value(name: str) -> bytes:
    shape = _text(1, _number(1, 1)) + _text(1, _number(1, WIDTH))
    return _text(1, name) + _text(2, _text(1, _number(1, 1) + _text(2, shape)))


def model(layers: int = 4) -> bytes:
    """The bytes of the file."""
    graph, before = b"", "x"
    for layer in range(layers):
        after = "y" if layer == layers - 1 else f"layer{layer}"
        graph += _text(1, _node("MatMul", [before, f"w{layer}"], f"product{layer}"))
        graph += _text(1, _node("Relu", [f"product{layer}"], after))
        before = after
    graph += _text(2, "chain") + b"".join(_text(5, _tensor(f"w{layer}", layer)) for layer in range(layers))
    graph += _text(11, _value("x")) + _text(12, _value("y"))
    return _number(1, 8) + _text(7, graph) + _text(8, _number(2, 17))


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(model())
