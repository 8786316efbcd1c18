# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow takes of the stand-in for a GPU (stand_ins/tensorflow): a line of JSON.

tensorflow_steps.py [growth|part]    after this step of docs/run.md; TF_PLUGGABLE_DEVICE_LIBRARY_PATH is the stand-in
"""

import ctypes
import gc
import hashlib
import json
import os
import sys

import tensorflow as tf

stand_in = ctypes.CDLL(os.environ["TF_PLUGGABLE_DEVICE_LIBRARY_PATH"])
stand_in.stand_in_taken.restype = ctypes.c_uint64


def taken() -> int:
    """In MiB."""
    return stand_in.stand_in_taken() >> 20


(gpu,) = tf.config.list_physical_devices("GPU")
step = sys.argv[1] if len(sys.argv) > 1 else ""
if step == "growth":
    tf.config.experimental.set_memory_growth(gpu, True)
parts = [tf.config.LogicalDeviceConfiguration(memory_limit=limit) for limit in (2048, 1024)]
if step == "part":
    tf.config.set_logical_device_configuration(gpu, parts)
    assert tf.config.get_logical_device_configuration(gpu) == parts

a = tf.reshape(tf.cast(tf.range(1 << 16) % 97, tf.float32), (256, 256))
digest = hashlib.sha256((a @ a + tf.sort(a, axis=1)).numpy().tobytes()).hexdigest()

# There are no kernels for the stand-in, so nothing is computed on it: a copy takes memory.
with tf.device("GPU:0"):
    block = tf.identity(tf.ones(16 << 20))
found = {"version": tf.__version__, "digest": digest, "taken": taken()}
found["used"] = tf.config.experimental.get_memory_info("GPU:0")["current"] >> 20
found["logical"] = len(tf.config.list_logical_devices("GPU"))
del block
gc.collect()
found["used_after"] = tf.config.experimental.get_memory_info("GPU:0")["current"] >> 20
found["taken_after"] = taken()
print(json.dumps(found))
