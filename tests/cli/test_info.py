#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs gpupool info. GPUPOOL_COMMAND is the path of the command."""

import json
import os
import unittest

from command import CommandTest, run


class Info(CommandTest):
    def test_json(self):
        code, out, _ = run("info", "--json")
        self.assertEqual(code, 0)
        self.assertEqual(len(out.splitlines()), 1)
        info = json.loads(out)
        self.assertIn("sim", info["features"])
        sims = [d for d in info["devices"] if d["device"].startswith("sim:")]
        self.assertEqual([d["device"] for d in sims], [f"sim:{n}" for n in range(8)])
        for device in info["devices"]:
            self.assertGreater(device["total_bytes"], 0)
            self.assertLessEqual(device["free_bytes"], device["total_bytes"])
            self.assertEqual(device["granularity_bytes"] % 4096, 0)
            self.assertIsInstance(device["capabilities"], list)
            self.assertIsInstance(device["driver_version"], int)
            self.assertIsInstance(device["compute_capability"], int)
            self.assertTrue(device["name"])
        if "cuda" in info["features"]:
            self.assertEqual(info["unavailable"], {})
        else:
            self.assertRegex(info["unavailable"]["cuda"], r"^GPUPOOL_ERROR_UNAVAILABLE: .+")

    def test_a_busy_device_hides_no_other(self):
        busy = {"GPUPOOL_LIBCUDA": os.environ["FAKE_CUDA"], "FAKE_CUDA_FAIL": "cuDevicePrimaryCtxRetain:1=46"}
        code, out, err = run("info", "--json", environment=busy)
        self.assertEqual((code, err), (0, ""))
        info = json.loads(out)
        labels = [device["device"] for device in info["devices"]]
        self.assertEqual(labels, ["cuda:1", *(f"sim:{n}" for n in range(8)), "host:0"])
        self.assertEqual(list(info["unavailable"]), ["cuda:0"])
        self.assertRegex(info["unavailable"]["cuda:0"], "UNAVAILABLE: CUDA device 0 is busy: .* uses it exclusively")
        code, out, err = run("info", environment=busy)
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"(?m)^cuda:1 +Stand-in GPU 1")
        self.assertRegex(out, r"(?m)^cuda:0 is not available here: .*exclusively")
        code, out, err = run("info", "--device", "cuda:0", environment=busy)
        self.assertEqual((code, out), (2, ""))
        self.assertIn("busy", err)

    def test_a_device_without_memory_of_its_own(self):
        integrated = {"GPUPOOL_SIM": "integrated=1"}
        _, out, _ = run("info", "--device", "sim", "--json", environment=integrated)
        self.assertEqual(json.loads(out)["devices"][0]["capabilities"], ["vmm", "managed", "integrated"])
        _, out, _ = run("info", "--device", "sim", environment=integrated)
        self.assertIn("uses the host's memory", out)
        _, out, _ = run("info", "--device", "sim")
        self.assertNotIn("uses the host's memory", out)

    def test_words(self):
        code, out, _ = run("info")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^gpupool \d")
        rows = [line for line in out.splitlines() if line.startswith("sim:")]
        self.assertEqual(len(rows), 1, "the simulated devices are alike")
        self.assertRegex(rows[0], r"^sim:0 to sim:7 +\S")

    def test_one_device(self):
        for name, label in (("sim", "sim:0"), ("SIM:3", "sim:3"), ("2", "sim:2"), ("auto", "sim:0")):
            with self.subTest(name=name):
                code, out, err = run("info", "--device", name, "--json")
                self.assertEqual((code, err), (0, ""))
                info = json.loads(out)
                self.assertEqual([d["device"] for d in info["devices"]], [label])
                self.assertEqual(info["unavailable"], {})
                code, out, _ = run("info", "--device", name)
                self.assertRegex(out, rf"(?m)^{label} ")
                self.assertEqual((code, out.count("sim:")), (0, 1))
        code, out, err = run("info", "--device", "sim:8")
        self.assertIn("there is no device 8: the backend has 8", err)


if __name__ == "__main__":
    unittest.main()
