# SPDX-License-Identifier: Apache-2.0
"""A model of ONNX Runtime on the pool: session.py MODEL. Needs onnxruntime-gpu and a GPU."""

import sys

import onnxruntime

import gpupool

gpupool.install("onnxruntime", cap="40%")
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CUDAExecutionProvider"])
print(f"{gpupool.default_pool(0).memory_allocated():,} bytes of the pool")
