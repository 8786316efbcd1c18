# SPDX-License-Identifier: Apache-2.0
"""check_layers refuses each include that looks up or sideways, and passes those that look down."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_layers


class Layers(unittest.TestCase):
    def violations(self, path, text):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / path
            file.parent.mkdir(parents=True)
            file.write_text(text)
            found, count = check_layers.check(Path(folder))
        self.assertEqual(count, 1)
        return found

    def test_twins(self):
        one = "namespace a::b {\nclass X final : public Y {};\nstruct Only {};\nclass Named;\n}\n"
        cases = [
            ("namespace a::b {\n\nstruct X {\n};\n}\n", ["src/cli/y.hpp:3: a::b::X is a class of src/cli/x.hpp too"]),
            ("namespace a::c {\nstruct X {};\n}\n", []),
            ("namespace a::b {\nclass X;\nclass Named {};\n}\n", []),
        ]
        for other, expected in cases:
            with self.subTest(other=other), tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "src/cli").mkdir(parents=True)
                for name, text in (("x", one), ("y", other)):
                    (Path(folder) / f"src/cli/{name}.hpp").write_text(text)
                self.assertEqual(check_layers.check(Path(folder)), (expected, 2))

    def test_refused(self):
        cases = [
            ("src/base/x.cpp", '#include "core/size.hpp"', "base must not include"),
            ("src/base/x.cpp", "#include <unistd.h>", "only the C\\+\\+ library"),
            ("src/core/x.cpp", '#include "device/device.hpp"', "core must not include"),
            ("src/core/x.cpp", '#include "pool/pool.hpp"', "core must not include"),
            ("src/core/x.cpp", "#include <thread>", "no threads"),
            ("src/core/x.cpp", "#include <chrono>", "no threads, clock"),
            ("src/core/x.cpp", "#include <sys/mman.h>", "only the C\\+\\+ library"),
            ("src/device/x.cpp", '#include "core/size.hpp"', "device must not include"),
            ("src/device/x.cpp", '#include "pool/pool.hpp"', "device must not include"),
            ("src/device/x.cpp", "#include <fmt/format.h>", "only on the system"),
            ("src/device/x.cpp", '#include "sim.hpp"', "relative to src"),
            ("src/device/x.cpp", '#include "device/sim/sim.hpp"', "itself and src/abi"),
            ("src/device/cuda/x.cpp", '#include "device/sim/sim.hpp"', "itself and src/abi"),
            ("src/pool/x.cpp", '#include "device/sim/sim.hpp"', "only device/device.hpp"),
            ("src/pool/x.cpp", '#include "device/cuda/cuda.hpp"', "only device/device.hpp"),
            ("src/pool/x.cpp", '#include "abi/config.hpp"', "pool must not include"),
            ("src/pool/x.cpp", '#include "../abi/config.hpp"', "relative to src"),
            ("src/abi/x.cpp", '#include "cli/base/size.hpp"', "abi must not include"),
            ("src/cli/x.cpp", '#include "base/status.hpp"', "installed headers"),
            ("src/frameworks/torch/x.cpp", '#include "watch/recorder.hpp"', "installed headers"),
            ("src/frameworks/inject/x.cpp", '#include "pool/pool.hpp"', "installed headers"),
            ("src/frameworks/inject/x.cpp", "#include <pool/pool.hpp>", "must not include"),
            ("src/cli/x.cpp", "#include <pool/pool.hpp>", "must not include"),
            ("src/cli/x.cpp", '#include "gpupool/internal.h"', "installed headers"),
            ("src/cli/base/x.cpp", '#include "base/status.hpp"', "installed headers"),
            ("src/cli/base/x.cpp", '#include "cli/recording/trace.hpp"', "cli/base must not include"),
            ("src/cli/base/x.cpp", '#include "cli/x.hpp"', "cli/base must not include"),
            ("src/cli/formats/x.cpp", '#include "cli/report/page.hpp"', "cli/formats must not include"),
            ("src/cli/top/x.cpp", '#include "cli/share/broker.hpp"', "cli/top must not include"),
            ("src/cli/share/x.cpp", '#include "cli/commands/commands.hpp"', "cli/share must not include"),
            ("src/cli/extra/x.cpp", '#include "cli/base/size.hpp"', "no place in the order"),
            ("src/pool/rules/x.cpp", '#include "pool/cache/caches.hpp"', "a room above it"),
            ("src/pool/process/x.cpp", '#include "cli/x.hpp"', "pool must not include"),
            ("src/pool/x.hpp", '#include "pool/process/registry.hpp"', "a room above it"),
            ("src/pool/observe/x.cpp", '#include "pool/pool.hpp"', "a room above it"),
            ("src/pool/other/x.cpp", "", "no place in the order"),
            ("src/pool/x.cpp", 'extern "C" int f();', "belongs in src/abi"),
            ("src/pool/x.cpp", "try { f(); } catch (...) {}", "belongs in src/abi"),
            ("src/pool/x.cpp", "try { f(); } catch( ... ) {}", "belongs in src/abi"),
            ("src/extra/x.cpp", "", "not a layer"),
            ("examples/x.c", '#include "base/status.hpp"', "only the installed headers"),
            ("examples/x.c", '#include "../src/base/status.hpp"', "only the installed headers"),
            ("tests/abi/x.c", "#include <gpupool/internal.h>", "not an installed header"),
            ("bindings/go/x.c", '#include "pool/pool.hpp"', "only the installed headers"),
        ]
        for path, text, reason in cases:
            with self.subTest(path=path, text=text):
                found = self.violations(path, f"// First line.\n{text}\n")
                self.assertEqual(len(found), 1)
                line = 1 if "not a layer" in reason or "no place" in reason and "pool" in path else 2
                self.assertRegex(found[0], f"^{path}:{line}: .*{reason}")

    def test_allowed(self):
        cases = [
            ("src/frameworks/inject/x.cpp", '#include "watch/recorder.hpp"\n#include "os/mutex.hpp"'),
            ("src/base/x.cpp", '#include "base/log.hpp"\n#include <thread>\n#include "gpupool/gpupool.h"'),
            ("src/core/x.cpp", '#include "base/bits.hpp"\n#include "core/size.hpp"\n#include <atomic>'),
            ("src/device/sim/x.cpp", '#include "device/sim/sim.hpp"\n#include <sys/mman.h>\n#include <mutex>'),
            ("src/pool/x.cpp", '#include "core/heap.hpp"\n#include "device/device.hpp"\n#include <pthread.h>'),
            ("src/abi/x.cpp", '#include "device/cuda/cuda.hpp"\nextern "C" int f() { try {} catch (...) {} }'),
            ("src/cli/main.cpp", '#include "cli/base/size.hpp"\n#include <gpupool/gpupool.h>\n#include <fmt/format.h>'),
            ("src/cli/report/x.cpp", '#include "cli/measure/replay.hpp"\n#include "cli/report/page.hpp"'),
            ("src/cli/commands/x.cpp", '#include "cli/commands/commands.hpp"\n#include "cli/top/view.hpp"'),
            ("src/pool/x.cpp", '// extern "C" and catch (...) in words\n/* #include "abi/x.hpp"\n catch (...) */'),
            ("tests/abi/x.c", '#include "support/check.h"\n#include <gpupool/gpupool.h>\n#include <dlfcn.h>'),
            ("examples/x.cpp", "#include <gpupool/gpupool.hpp>"),
        ]
        for path, text in cases:
            with self.subTest(path=path, text=text):
                self.assertEqual(self.violations(path, text), [])

    def test_a_room_of_the_pool_does_not_know_a_class_of_a_room_above(self):
        files = {
            "src/pool/sleep/sleeper.hpp": "class Sleeper {\n};\n",
            "src/pool/memory/x.hpp": "class Sleeper;\n",
            "src/pool/observe/y.hpp": "class Sleeper;\nclass Unheard;\n",
        }
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                file = Path(folder) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            found, _ = check_layers.check(Path(folder))
        self.assertEqual(len(found), 1)
        self.assertRegex(found[0], "^src/pool/memory/x.hpp:1: .*must not know Sleeper")

    def test_core_sees_no_thread_through_a_header_of_ours(self):
        files = {
            "src/base/lock.hpp": "#include <atomic>\n#include <thread>\n",
            "src/base/guard.hpp": '#include "base/lock.hpp"\n#include "base/guard.hpp"\n',
            "src/core/x.cpp": '#include <vector>\n#include "base/guard.hpp"\n',
            "src/pool/x.cpp": '#include "base/guard.hpp"\n',
        }
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_text(text)
            found, _ = check_layers.check(Path(folder))
        self.assertEqual(len(found), 1)
        self.assertRegex(found[0], "^src/core/x.cpp:2: .* base/guard.hpp -> base/lock.hpp -> <thread>$")

    def test_the_orders_have_no_circle(self):
        for order in (check_layers.MAY_SEE, check_layers.COMMAND_MAY_SEE):
            above = {}  # folder -> those that it may include, without itself
            for folder, seen in order.items():
                above[folder] = {name for name in seen if name in order} - {folder}
            while lowest := {folder for folder, seen in above.items() if not seen & above.keys()}:
                above = {folder: seen for folder, seen in above.items() if folder not in lowest}
            self.assertEqual(above, {})

    def test_tests_mirror_src(self):
        sources = ["src/os/x.cpp", "src/pool/x.cpp", "src/pool/sleep/x.cpp", "src/device/sim/x.cpp", "src/cli/x.cpp"]
        sources += ["src/frameworks/audit/x.cpp", "src/frameworks/torch/include/gpupool/x.h"]
        tests = ["tests/os/x_test.cpp", "tests/device/x_test.cpp", "tests/pool/debug_room_test.cpp"]
        tests += ["tests/audit/test_x.py", "tests/cli/README.md"]
        with tempfile.TemporaryDirectory() as folder:
            for path in sources + tests:
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_text("")
            found = [line.split()[0] for line in check_layers.untested(Path(folder))]
        self.assertEqual(found, ["src/cli", "src/pool/sleep", "src/frameworks/torch"])

    def test_the_library_as_one_may_include_its_sources(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in ("bindings/go/internal/native", "bindings/rust/target/debug/build/out", "bindings/rust/src"):
                (Path(folder) / path).mkdir(parents=True)
                (Path(folder) / path / "all.cpp").write_text('#include "../src/pool/pool.cpp"\n')
            violations, count = check_layers.check(Path(folder))
            self.assertEqual((len(violations), count), (1, 1), violations)

    def test_an_empty_repository_is_no_success(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(check_layers.main([folder]), 1)


if __name__ == "__main__":
    unittest.main()
