#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every system call of gpupool top, which only reads: it writes to no process, signals none, and attaches to none.
GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY the library."""

import re
import shutil
import subprocess
import unittest

from top_target import COMMAND, TopTest

TRACE = [shutil.which("strace") or "strace", "-f", "-y", "-qq", "-s", "256", "-e", "signal=none"]
# These reach nothing but the caller, or only read.
HARMLESS = set("""access faccessat faccessat2 arch_prctl brk clock_nanosleep close execve exit_group fstat newfstatat
    statx getdents64 getegid geteuid getgid getpid getrandom getuid lseek mprotect munmap pread64 read readlink rseq
    readlinkat rt_sigaction rt_sigprocmask sched_getaffinity set_robust_list set_tid_address socket uname""".split())
# And these, with such arguments.
LIMITED = {
    "openat": r", O_RDONLY(\|O_(CLOEXEC|DIRECTORY|NONBLOCK|NOFOLLOW))*\) ",
    "mmap": r"MAP_PRIVATE",
    "fcntl": r", (F_GETFD|F_GETFL|F_SETFD, FD_CLOEXEC)\) ",
    "futex": r"_PRIVATE",
    "ioctl": r", (TCGETS|TIOCGWINSZ)",
    "prlimit64": r"\(0, RLIMIT_\w+, NULL, ",
    "connect": r'sun_path="/var/run/nscd/socket"',  # glibc asks there for the names of users
    "write": r"\([12]<pipe:",  # its output
}  # fmt: skip


def can_trace():
    try:
        done = subprocess.run([*TRACE, "-o", "/dev/null", "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


@unittest.skipUnless(can_trace(), "no strace is here (tools/setup.sh installs it), or it may not trace")
class Traced(TopTest):
    def calls(self, *command, expected=0):
        done = subprocess.run([*TRACE, *command], capture_output=True, text=True, env=self.environment, check=False)
        self.assertEqual(done.returncode, expected, done.stderr)
        lines = [re.sub(r"^\[pid +\d+\] ", "", line) for line in done.stderr.splitlines()]
        return done.stdout, [line for line in lines if re.match(r"\w+\(", line)]

    def not_only_reading(self, calls):
        names = [call.split("(", 1)[0] for call in calls]
        return [call for name, call in zip(names, calls, strict=True)
                if name not in HARMLESS and not (name in LIMITED and re.search(LIMITED[name], call))]  # fmt: skip

    def test_a_look_only_reads(self):
        holder = self.start_pool()
        for options in ((), ("--json",), ("--prometheus",), ("--pid", str(holder.pid))):
            shown, calls = self.calls(COMMAND, "top", "--once", *options)
            self.assertIn(str(holder.pid), shown)
            opened = [call for call in calls if call.startswith("openat(") and f"</proc/{holder.pid}/fd>" in call]
            self.assertIn("/memfd:gpupool-stats", "".join(opened))  # the page was looked at, and is among these calls
            self.assertEqual(self.not_only_reading(calls), [])

    def test_what_does_more_is_noticed(self):
        holder = self.start_pool(GPUPOOL_CONTROL="1")
        pid = str(holder.pid)
        for command, call in (
            ((COMMAND, "trim", pid), "connect("),
            (("env", "kill", "-CONT", pid), "kill("),
            (("sh", "-c", f"echo 0x33 >/proc/{pid}/coredump_filter"), "openat("),
        ):
            more = self.not_only_reading(self.calls(*command)[1])
            self.assertTrue([line for line in more if line.startswith(call)], more)


if __name__ == "__main__":
    unittest.main()
