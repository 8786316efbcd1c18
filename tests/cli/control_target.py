# SPDX-License-Identifier: Apache-2.0
"""Processes that take commands, for the tests of these: GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY the library."""

import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

COMMAND = os.environ["GPUPOOL_COMMAND"]
MIB = 1 << 20
NOBODY = 65534

# Another user can run nothing where the root folder is closed, as in a chroot below a folder of mktemp's.
needs_another_user = unittest.skipUnless(
    os.geteuid() == 0 and os.stat("/").st_mode & 0o001, "only root can become another user, who needs an open /"
)


def run_as_nobody(*words):
    """Runs the command as another user, who gets a copy of it: the build's folder may be root's own."""
    with tempfile.TemporaryDirectory(prefix="gpupool_nobody_") as folder:
        os.chmod(folder, 0o755)
        for source, name in ((COMMAND, "gpupool"), (os.environ["GPUPOOL_LIBRARY"], "libgpupool.so.0.2")):
            copy = pathlib.Path(folder, name)
            copy.write_bytes(pathlib.Path(source).read_bytes())
            copy.chmod(0o755)
        return subprocess.run(
            [pathlib.Path(folder, "gpupool"), *map(str, words)],
            capture_output=True,
            timeout=120,
            text=True,
            check=False,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            env={"LD_LIBRARY_PATH": folder},
        )


NOTICE = struct.Struct("<8sIIQ16s32s")
REQUEST = struct.Struct("<8sII16sQ64sQQiI64s4000s")
REPLY = struct.Struct("<8sIIiIIIQQQQQQ64s1024s")
TRIM, SNAPSHOT, RECORD_START, RECORD_STOP, SLEEP, WAKE, HOLDERS = range(1, 8)
DONE, FAILED, REFUSED = range(3)

# A process that does as it is told, a line at a time, and is idle otherwise.
TARGET = """
import ctypes, os, sys, threading, time
lib = ctypes.CDLL(os.environ["GPUPOOL_LIBRARY"])
u64 = ctypes.c_uint64
P = ctypes.c_void_p
lib.gpupool_malloc.argtypes = [P, u64, u64, ctypes.POINTER(u64)]
lib.gpupool_free.argtypes = [P, u64, u64]
lib.gpupool_set_name.argtypes = [P, ctypes.c_char_p]
lib.gpupool_create.argtypes = [P, P]
lib.gpupool_sleep_state.argtypes = [P, P]
lib.gpupool_sim_capture.argtypes = [ctypes.c_int32, u64, ctypes.c_int32]
lib.gpupool_record_start.argtypes = [ctypes.c_char_p, ctypes.c_uint32]
def default_pool():
    pool = P()
    assert lib.gpupool_default_pool(0, ctypes.byref(pool)) == 0
    return pool
def new_pool(name=b""):
    pool = P()
    assert lib.gpupool_create(None, ctypes.byref(pool)) == 0
    assert lib.gpupool_set_name(pool, name) == 0
    return pool
def take(pool, size, stream=0):
    block = u64()
    status = lib.gpupool_malloc(pool, size, stream, ctypes.byref(block))
    assert status == 0, status
    return block.value
def cache(pool, size):
    assert lib.gpupool_free(pool, take(pool, size), 0) == 0
def write(block, size, value):
    ctypes.memset(block, value, size)
def holds(block, size, value):
    return ctypes.string_at(block, size) == bytes([value]) * size
def state(pool):
    number = ctypes.c_int32(-1)
    assert lib.gpupool_sleep_state(pool, ctypes.byref(number)) == 0
    return number.value
def threads():
    return sorted(open(f"/proc/self/task/{t}/comm").read().strip() for t in os.listdir("/proc/self/task"))
def sockets():
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            pass
    return sum(link.startswith("socket:") or "gpupool-control" in link for link in links)
names = dict(globals())
print("ready", flush=True)
for line in sys.stdin:
    try:
        result = repr(eval(line, names)) if not line.startswith("!") else exec(line[1:], names)
    except Exception as error:
        result = f"failed: {error!r}"
    print(result, flush=True)
"""


class Target:
    def __init__(self, test, **environment):
        self.process = subprocess.Popen(
            [sys.executable, "-c", TARGET],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=test.environment | environment,
        )
        test.addCleanup(self.process.stdout.close)
        test.addCleanup(self.process.stderr.close)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.stdin.close)
        test.addCleanup(self.process.kill)
        assert self.process.stdout.readline() == "ready\n"

    @property
    def pid(self):
        return self.process.pid

    def do(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def notice(self):
        """(key, name) of what the process announces."""
        folder = pathlib.Path(f"/proc/{self.pid}/fd")
        for each in folder.iterdir():
            if os.readlink(each) == "/memfd:gpupool-control (deleted)":
                magic, version, length, process, key, name = NOTICE.unpack(each.read_bytes())
                assert (magic, version, process) == (b"GPUPOOLC", 1, self.pid)
                return key, name[:length]
        return None

    def connect(self):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(self.notice()[1])  # waits where many others do
        connection.settimeout(30)
        return connection

    def request(self, command, **fields):
        values = {
            "magic": b"GPUPOOLC", "version": 1, "key": self.notice()[0], "pool": 0, "tag": b"", "bytes": 0,
            "timeout": 0, "mode": 0, "flags": 0, "reserved": b"", "path": b"",
        } | fields  # fmt: skip
        return REQUEST.pack(
            values["magic"], values["version"], command, values["key"], values["pool"], values["tag"],
            values["bytes"], values["timeout"], values["mode"], values["flags"], values["reserved"], values["path"],
        )  # fmt: skip


def receive(connection):
    """(outcome, message) of the next answer; None where there is none."""
    while True:
        try:
            data = connection.recv(REPLY.size + 1)
        except ConnectionResetError:
            continue  # an answer may wait behind it
        if not data:
            return None
        fields = REPLY.unpack(data)
        assert fields[:2] == (b"GPUPOOLC", 1)
        return fields[2], fields[-1].split(b"\0")[0].decode()


class ControlCase(unittest.TestCase):
    def setUp(self):
        self.environment = os.environ | {
            "GPUPOOL_BACKEND": "sim",
            "GPUPOOL_SIM": "capacity=2GiB",
            "GPUPOOL_CONTROL": "1",
        }
        for variable in ("GPUPOOL_SHARE", "GPUPOOL_STATS", "GPUPOOL_RECORD", "GPUPOOL_LOG"):
            self.environment.pop(variable, None)

    def target(self, *lines, **environment):
        target = Target(self, **environment)
        for line in lines or ("!pool = default_pool()",):
            self.assertEqual(target.do(line), "None")
        return target

    def run_command(self, *words):
        done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, timeout=120, check=False, text=True)
        return done.returncode, done.stdout, done.stderr

    def result(self, command, target, *words):
        code, out, err = self.run_command(command, target.pid, "--json", *words)
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)

    def check_failure(self, code, words, *command):
        self.check_refused(self.run_command(*command), code, words)

    def check_refused(self, done, code, words):
        self.assertEqual((done[0], done[1]), (code, ""), done[2])
        self.assertEqual(done[2].count("\n"), 1, done[2])
        self.assertIn(words, done[2])

    def check_no_connection(self, target):
        deadline = time.monotonic() + 10
        while target.do("sockets()") != "2" and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(target.do("sockets()"), "2")
