# SPDX-License-Identifier: Apache-2.0
# The front door. The build itself is CMake's: see CMakePresets.json.
.DEFAULT_GOAL := help
.PHONY: help setup setup-build setup-demo build demo test test-release test-bindings test-asan test-tsan test-oldest ports
.PHONY: matrix bindings dist fuzz check format-check format tidy lint generate figures clean

FORMATTED = $(shell find src include tests examples bindings/python/src -name '*.[ch]' -o -name '*.hpp' -o -name '*.cpp')
# The checkers that tools/setup.sh installs here, in the versions that we write for.
CHECKERS := build/checkers
# Of three tests at a time, one waits for the clock, so that two processors have work.
CTEST := ctest --parallel 3
# What one machine sets would hide a test that forgets to flush.
unexport PYTHONUNBUFFERED
# With ccache, no build compiles again what another build has compiled.
ifneq (,$(shell command -v ccache 2>/dev/null))
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
export CMAKE_C_COMPILER_LAUNCHER ?= ccache
export CCACHE_NOHASHDIR ?= 1
export CCACHE_BASEDIR ?= $(CURDIR)
endif

help:
	@echo "make demo       builds what it runs: the examples and recorded PyTorch workloads, in every language"
	@echo "make test       everything that is checked: style, tests, sanitizers, installation"
	@echo "make build      the library, the command, the examples and the tests, in build/release"
	@echo "make bindings   builds and tests the bindings; BINDINGS=\"bindings/go\" for one of them"
	@echo "make matrix     tries each PyTorch, library and host that gpupool works with: tens of minutes, gigabytes are fetched"
	@echo "make ports      builds the library and the command for Windows and macOS, as far as compilers are here"
	@echo "make dist       every package, in dist/, with checksums and a list of what is in them"
	@echo "make check      style only: format, clang-tidy, ruff, generated files, layers, locks, words, messages, commits"
	@echo "make format     formats the sources"
	@echo "make fuzz       the fuzzers of the pool and of the readers of files, each for SECONDS=60"
	@echo "make generate   regenerates the files derived from include/gpupool/gpupool.h; needs no build"
	@echo "make figures    writes the figures in README.md and docs/benchmarks.md: after a change of policy"
	@echo "make setup      installs what is missing (make demo and make test do so too)"
	@echo "make clean      removes build/"

setup:
	@tools/setup.sh

setup-build:
	@tools/setup.sh build

setup-demo:
	@tools/setup.sh demo

build: setup-build
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release

demo: setup-demo
	@tools/demo.sh

# The parts of `make test`, one by one, so that several machines can share them.
PARTS := check test-release test-bindings test-asan test-tsan test-oldest
test: setup
	@for part in $(PARTS); do $(MAKE) --no-print-directory $$part || exit 1; done
	@echo "All checks passed."

test-release: setup
	@echo "== release" && cmake --preset release --log-level=WARNING
	@cmake --build --preset release && $(CTEST) --preset release

test-bindings: setup build
	@tools/check_bindings.sh

test-asan: setup
	@echo "== address and undefined behaviour sanitizers"
	@cmake --preset asan --log-level=WARNING && cmake --build --preset asan && $(CTEST) --preset asan

test-tsan: setup
	@echo "== thread sanitizer"
	@cmake --preset tsan --log-level=WARNING && cmake --build --preset tsan && $(CTEST) --preset tsan

test-oldest: setup
	@tools/check_oldest.sh

bindings: setup build
	@tools/check_bindings.sh $(BINDINGS)

# The Python of its binding's tests has gpupool. What cannot be had is said, and is no failure.
matrix: build
	@python=build/bindings/python/venv/bin/python; [ -x $$python ] || python=python3; \
	  python3 tools/matrix.py --python $$python || [ $$? = 77 ]

ports:
	@tools/check_ports.sh

dist: setup build
	@tools/dist.sh

SECONDS ?= 60
fuzz: setup
	@cmake --preset fuzz --log-level=WARNING && cmake --build --preset fuzz
	@mkdir -p build/fuzz/corpus build/fuzz/files
	@build/fuzz/tests/fuzz/fuzz_pool -max_total_time=$(SECONDS) -max_len=4096 build/fuzz/corpus
	@GPUPOOL_FUZZ_SEEDS=build/fuzz/files \
	  build/fuzz/tests/fuzz/fuzz_readers -max_total_time=$(SECONDS) -max_len=9000 build/fuzz/files

check: setup format-check lint tidy

format-check:
	@if [ -x $(CHECKERS)/clang-format ]; then echo "== format" && $(CHECKERS)/clang-format --dry-run --Werror $(FORMATTED); \
	else echo "== clang-format: not installed, skipped"; fi

format: setup
	@$(CHECKERS)/clang-format -i $(FORMATTED)

lint:
	@tools/lint.sh

tidy:
	@cmake --preset release --log-level=WARNING
	@echo "== clang-tidy" && python3 tools/tidy.py build/release

generate:
	@python3 tools/apigen.py && python3 tools/python_reference.py && python3 packaging/go/amalgamate.py

figures: setup-build
	@cmake --preset release --log-level=WARNING && cmake --build --preset release --target gpupool_cli
	@tools/claims.py

clean:
	@rm -rf build
