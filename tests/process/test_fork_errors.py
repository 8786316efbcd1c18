#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls every function that takes a pool in a child of fork, and compares what it gives with the header: FORKED if the
function's errors list it, else success. A function that is new in the header is called without a change here.
LIBRARY is the shared library."""

import ctypes
import json
import os
import pathlib
import re
import unittest

API = json.loads((pathlib.Path(__file__).resolve().parents[2] / "docs" / "api.json").read_text("utf-8"))
FUNCTIONS = {each["name"]: each for each in API["functions"]}
STRUCTS = {each["name"]: each for each in API["structs"]}
POOL = "gpupool_t*"
SUCCESS, FORKED = (
    next(each["value"] for enum in API["enums"] for each in enum["values"] if each["name"] == name)
    for name in ("GPUPOOL_SUCCESS", "GPUPOOL_ERROR_FORKED")
)

# Values by which a call succeeds, or gets as far as the pool, for parameters whose type does not tell.
VALUES = {
    "size": 4096,
    "alignment": 512,
    "begins": 1,
    "fraction": 0.5,
    "target_bytes": 1 << 20,
    "bytes": 4096,
    "capture": 1,
    "peer": 1,
    "access": 1,
    "name": b"name",
    "handle": b"handle",
    "keep": 1,
    "what": 0,
    "change": 1,
}


def lists_forked(name):
    """Whether a function's own errors list FORKED, or those that it refers to; "The same" is the function before it."""
    doc = FUNCTIONS[name]["doc"]
    own = re.search(r"Errors:[^;]*", doc)
    if own is not None and "FORKED" in doc[own.start() :]:
        return True
    if own is not None:
        referred = re.findall(r"Errors: as (gpupool_\w+)", doc)
    elif doc.startswith("The same"):
        names = list(FUNCTIONS)
        referred = [names[names.index(name) - 1]]
    else:
        referred = re.findall(r"\b[Aa]s (?:by )?(gpupool_\w+)", doc)
    return any(lists_forked(each) for each in referred if each in FUNCTIONS and each != name)


class ForkErrors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["GPUPOOL_BACKEND"] = "sim"
        cls.library = ctypes.CDLL(os.environ["LIBRARY"])
        cls.pool, cls.block = ctypes.c_void_p(), ctypes.c_uint64()
        config = ctypes.create_string_buffer(STRUCTS["gpupool_config_t"]["size"])
        cls.library.gpupool_config_init(config, ctypes.c_size_t(len(config)))
        cls.require(cls.library.gpupool_create(config, ctypes.byref(cls.pool)))
        cls.require(
            cls.library.gpupool_malloc(cls.pool, ctypes.c_uint64(4 << 20), ctypes.c_uint64(0), ctypes.byref(cls.block))
        )

    @staticmethod
    def require(status):
        if status != SUCCESS:
            raise AssertionError(f"status {status}")

    def argument(self, function, parameter):
        name, kind = parameter["name"], parameter["type"]
        if kind == POOL:
            return self.pool
        if kind == "gpupool_ptr_t":
            return ctypes.c_uint64(self.block.value)
        if name in VALUES and (name != "handle" or kind.startswith("const")):
            value = VALUES[name]
            return (
                ctypes.c_double(value)
                if isinstance(value, float)
                else (value if isinstance(value, bytes) else ctypes.c_uint64(value))
            )
        struct = kind.removesuffix("*").strip()
        if struct in STRUCTS:
            buffer = ctypes.create_string_buffer(STRUCTS[struct]["size"])
            if STRUCTS[struct]["fields"][0]["name"] == "struct_size":
                ctypes.c_uint32.from_buffer(buffer).value = len(buffer)
            return buffer
        if name.endswith("_size") and kind == "size_t":
            wanted = f"gpupool_{name.removesuffix('_size')}_t"
            return ctypes.c_size_t(STRUCTS[wanted]["size"])
        if name == "capacity":
            return ctypes.c_size_t(4096)
        if (kind.startswith("const ") and not kind.endswith("**")) or kind.endswith("_fn_t") or name == "user":
            return ctypes.c_void_p()
        if kind.endswith("*"):
            return ctypes.create_string_buffer(4096)
        return ctypes.c_uint64(0)

    def status_in_child(self, function):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            arguments = [self.argument(function, each) for each in function["params"]]
            status = getattr(self.library, function["name"])(*arguments)
            os.write(writer, str(status).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            text = stream.read()
        _, ended = os.waitpid(child, 0)
        self.assertEqual(ended, 0, f"{function['name']} has ended the child: {ended:#x}")
        return int(text)

    def test_what_a_child_gets_is_what_the_header_lists(self):
        takes_pool = [each for each in FUNCTIONS.values() if any(p["type"] == POOL for p in each["params"])]
        self.assertGreater(len(takes_pool), 40)
        for function in takes_pool:
            name = function["name"]
            with self.subTest(name):
                status = self.status_in_child(function)
                if lists_forked(name):
                    self.assertEqual(status, FORKED, f"{name} lists FORKED")
                else:
                    self.assertEqual(status, SUCCESS, f"{name} does not list FORKED")


if __name__ == "__main__":
    unittest.main()
