#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What of a run is in its recording, also if the process was killed, and who may read that. GPUPOOL_COMMAND is the
command, GPUPOOL_LIBRARY the library; GPUPOOL_TEST_KILLS says how often a process is killed."""

import os
import pickle
import random
import signal
import stat
import struct
import subprocess
import sys
import time
import unittest
from collections import Counter

import test_watch

KILLS = int(os.environ.get("GPUPOOL_TEST_KILLS", "6"))
run = test_watch.run

# Each thread counts its calls that returned in a file of its parent's, and asks for sizes that no other asks for.
MANY_CALLS = test_watch.PROLOGUE + """
import mmap
counts = memoryview(mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096)).cast("Q")
threads = int(sys.argv[2])
def work(own):
    live = []
    while True:
        live.append(malloc(512 * (1 + own + threads * (len(live) % 50))))
        counts[2 * own] += 1
        if len(live) > 200:
            free(live.pop(0))
            counts[2 * own + 1] += 1
for own in range(1, threads):
    threading.Thread(target=work, args=(own,), daemon=True).start()
print("ready", flush=True)
work(0)
"""


class Killed(test_watch.Case):
    def kill_one(self, seed, threads):
        """Its recording, and how often each thread's mallocs and frees returned."""
        path, counts = self.folder / f"killed{seed}.gpt", self.folder / f"counts{seed}"
        counts.write_bytes(bytes(4096))
        process = subprocess.Popen([sys.executable, "-c", MANY_CALLS, counts, str(threads)], stdout=subprocess.PIPE,
                                   env=os.environ | {"GPUPOOL_RECORD": str(path)})
        process.stdout.readline()
        time.sleep(random.Random(seed).uniform(0.0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        return path, struct.unpack_from(f"<{2 * threads}Q", counts.read_bytes())

    def check_kills(self, threads):
        total, more = 0, Counter()
        for seed in range(KILLS):
            path, counted = self.kill_one(seed, threads)
            whole = self.folder / f"whole{seed}.gpt"
            status, _, said = run("salvage", path, "-o", whole)
            self.assertEqual(status, 0, said)
            self.assertIn("the process did not end by exit()", said)
            self.assertNotIn("damaged", said)
            self.assertEqual(run("export", path)[1], run("export", whole)[1])
            recorded, by_block = Counter(), {}
            for line in run("export", whole)[1].splitlines():
                kind, *words = line.split()
                if kind == "a":
                    by_block[words[0]] = (int(words[1]) // 512 - 1) % threads
                if kind in ("a", "f"):
                    recorded[kind, by_block[words[0]]] += 1
            # Every call that returned is there, and at most one more of each thread.
            for own in range(threads):
                extra = [recorded[kind, own] - counted[2 * own + i] for i, kind in enumerate("af")]
                self.assertIn(tuple(extra), ((0, 0), (0, 1), (1, 0)), f"thread {own} of run {seed}")
                more[sum(extra)] += 1
            total += sum(counted)
            exported = self.folder / f"killed{seed}.trace"
            status, _, said = run("export", whole, "-o", exported)
            if status != 0:  # it was killed before its first malloc
                self.assertIn("nothing was allocated", said)
            elif "a 1 " in exported.read_text(encoding="utf-8"):
                self.assertEqual(run("replay", "--device", "sim", "--passes", "1", exported)[0], 0)
        print(f"{KILLS} processes of {threads} threads were killed after {total} calls that returned: all are there, "
              f"and one more of {more[1]} of {KILLS * threads} threads", file=sys.stderr)
        self.assertGreater(total, 1000)

    def test_a_killed_process_leaves_a_whole_recording(self):
        self.check_kills(1)

    def test_a_killed_process_of_four_threads_leaves_a_whole_recording(self):
        self.check_kills(4)


class Kept(test_watch.Case):
    def test_uses_by_other_streams_are_there(self):
        path = self.record("""
lib.gpupool_record_stream.argtypes = [ctypes.c_void_p, u64, u64]
lib.gpupool_stream_create.argtypes = [ctypes.c_void_p, ctypes.POINTER(u64)]
streams = [u64(), u64()]
for stream in streams:
    check(lib.gpupool_stream_create(pool, ctypes.byref(stream)))
first, second = malloc(1000), malloc(2000, streams[0].value)
check(lib.gpupool_record_stream(pool, first, streams[0].value))
check(lib.gpupool_record_stream(pool, second, streams[1].value))
check(lib.gpupool_record_stream(pool, first, streams[1].value))
free(first)
free(second, streams[0].value)
print(*[stream.value for stream in streams], file=open(os.environ["TOLD"], "w"))
""", environment={"TOLD": str(self.folder / "streams")})
        one, two = (self.folder / "streams").read_text(encoding="utf-8").split()
        status, text, said = run("export", path)
        self.assertEqual((status, said), (0, ""))
        lines = [line for line in text.splitlines() if not line.startswith(("# ", "#!"))]
        self.assertEqual(lines, ["a 1 1000 0", f"a 2 2000 {one}", f"#u 1 {one}", f"#u 2 {two}", f"#u 1 {two}",
                                 "f 1", "f 2"])
        (self.folder / "x.trace").write_text(text, encoding="utf-8")
        status, _, said = run("replay", "--device", "sim", "--passes", "1", self.folder / "x.trace")
        self.assertEqual((status, said), (0, ""))

    def test_only_the_owner_reads_what_a_program_did(self):
        """A recording names functions, files and sizes: no form of it is more readable than the file that is mapped."""
        self.addCleanup(os.umask, os.umask(0))
        raw = self.folder / "raw.gpt"
        program = "import stat, glob\n" \
            "def mode(path): return oct(stat.S_IMODE(os.stat(path).st_mode))\n" \
            "raw = os.environ['GPUPOOL_RECORD'].replace('%p', str(os.getpid()))\n" \
            "free(malloc(1000))\n" \
            "print(mode(raw), mode(os.path.dirname(raw)), file=open(os.environ['TOLD'], 'w'))\n"
        told = self.folder / "told"
        packed = self.record(program, name="packed.gpt", environment={"TOLD": str(told)})
        self.assertEqual(told.read_text(encoding="utf-8").split(), ["0o600", "0o700"])
        subprocess.run([sys.executable, "-c", test_watch.PROLOGUE + program], check=True,
                       env=os.environ | {"GPUPOOL_RECORD": str(raw), "TOLD": str(told)})
        made = [raw, packed]

        def make(name, *words):
            path = self.folder / name
            path.touch(0o666)  # what is replaced counts for nothing
            status, _, said = run(*words, "-o", path)
            if "there already" in said or "File exists" in said:  # a recording is always new
                path.unlink()
                status, _, said = run(*words, "-o", path)
            self.assertEqual(status, 0, said)
            made.append(path)

        make("whole.gpt", "salvage", raw)
        make("report.html", "report", "--no-fit", raw)
        for form in ("text", "pprof", "torch", "chrome"):
            make(f"exported.{form}", "export", raw, "--format", form)
        self.assertTrue(pickle.loads((self.folder / "exported.torch").read_bytes()))
        make("imported.gpt", "import", self.folder / "exported.torch", "--format", "recording")
        self.assertEqual({path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in made},
                         {path.name: "0o600" for path in made})
        self.assertEqual(stat.S_IMODE(told.stat().st_mode), 0o666)  # so the umask hid nothing


class Unread(test_watch.Case):
    def test_the_recording_is_packed_though_nobody_reads_what_is_said(self):
        path = self.folder / "unread.gpt"
        read, write = os.pipe()
        os.close(read)
        program = [test_watch.COMMAND, "record", "-o", path, "--", sys.executable, "-c",
                   test_watch.PROLOGUE + "malloc(1000)"]
        with open(write, "wb") as nobody:
            # Python's own disposition, to ignore the signal, would be inherited.
            status = subprocess.run(program, stderr=nobody, check=False, restore_signals=True).returncode
        self.assertEqual(status, 0)
        self.assertEqual([one.name for one in self.folder.iterdir()], ["unread.gpt"])
        self.assertIn("a 1 1000 0\n", run("export", path)[1])


if __name__ == "__main__":
    unittest.main()
