// SPDX-License-Identifier: Apache-2.0
// On a GPU: threads that capture, instantiate, launch and destroy graphs beside threads that use the same
// pool in every way. No capture may end, nothing may crash, and what was written must be there.
//
//   g++ -std=c++20 -O1 -Iinclude -I$CUDA/include tests/gpu/beside_captures.cpp -o beside_captures \
//     -Lbuild/release -lgpupool -lcuda -Wl,-rpath,build/release
//   ./beside_captures SECONDS
#include <cuda.h>
#include <gpupool/gpupool.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kCapturers = 8;
constexpr int kWorkers = 8;

std::atomic<uint64_t> captures{0};
std::atomic<uint64_t> ended{0};
std::atomic<uint64_t> wrong{0};
std::atomic<uint64_t> calls{0};
std::atomic<uint64_t> sleeps{0};
std::atomic<bool> stop{false};

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::fprintf(stderr, "%s: %s\n", what, name);
  std::exit(1);
}

void check(gpupool_status_t status, const char* what) {
  if (status == GPUPOOL_SUCCESS) return;
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  gpupool_last_error(&error);
  std::fprintf(stderr, "%s: %s\n", what, error.message);
  std::exit(1);
}

#define CHECK(call) check(call, #call)

gpupool_stream_t number(CUstream stream) {
  return reinterpret_cast<gpupool_stream_t>(stream);
}

/// What the threads do outside of their own captures is none of the others' business.
void enter(CUcontext context) {
  CHECK(cuCtxSetCurrent(context));
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CHECK(cuThreadExchangeStreamCaptureMode(&mode));
}

bool holds(gpupool_ptr_t address, size_t size, unsigned char value, CUstream stream) {
  std::vector<unsigned char> bytes(size);
  CHECK(cuMemcpyDtoHAsync(bytes.data(), address, size, stream));
  CHECK(cuStreamSynchronize(stream));
  return std::all_of(bytes.begin(), bytes.end(), [&](unsigned char byte) { return byte == value; });
}

/// Its graph writes to a block of a child pool; the stream is known to the shared pool.
void capture(CUcontext context, gpupool_t* pool, int seed) {
  enter(context);
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  gpupool_t* child = nullptr;
  CHECK(gpupool_create_child(pool, &child));
  constexpr size_t kSize = 1 << 16;
  std::mt19937 random(static_cast<unsigned>(seed));
  for (unsigned i = 0; !stop; ++i) {
    gpupool_ptr_t shared = 0;
    CHECK(gpupool_malloc(pool, (1 + random() % 64) << 15, number(stream), &shared));
    CHECK(gpupool_free(pool, shared, number(stream)));
    const auto value = static_cast<unsigned char>(i);
    CUgraph graph = nullptr;
    gpupool_ptr_t block = 0;
    CUresult result = cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(i % 3));
    if (result == CUDA_SUCCESS) {
      CHECK(gpupool_malloc(child, kSize, number(stream), &block));
      result = cuMemsetD8Async(block, value, kSize, stream);
    }
    const CUresult over = cuStreamEndCapture(stream, &graph);
    ++captures;
    if (result != CUDA_SUCCESS || over != CUDA_SUCCESS || graph == nullptr) {
      ++ended;
    } else {
      CUgraphExec exec = nullptr;
      CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
      CHECK(cuGraphLaunch(exec, stream));
      if (!holds(block, kSize, value, stream)) ++wrong;
      CHECK(cuGraphExecDestroy(exec));
    }
    if (graph != nullptr) CHECK(cuGraphDestroy(graph));
    CHECK(gpupool_free(child, block, number(stream)));
  }
  CHECK(gpupool_destroy(child));
  CHECK(gpupool_release_stream(pool, number(stream)));
  CHECK(cuStreamDestroy(stream));
}

void work(CUcontext context, gpupool_t* pool, int seed) {
  enter(context);
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::mt19937 random(static_cast<unsigned>(100 + seed));
  for (unsigned i = 0; !stop; ++i) {
    const size_t size = (1 + random() % 256) << 14;
    gpupool_ptr_t block = 0;
    CHECK(gpupool_malloc(pool, size, number(stream), &block));
    const auto value = static_cast<unsigned char>(random());
    CHECK(cuMemsetD8Async(block, value, size, stream));
    if (i % 16 == 0 && !holds(block, size, value, stream)) ++wrong;
    CHECK(gpupool_free(pool, block, random() % 8 == 0 ? GPUPOOL_STREAM_UNKNOWN : number(stream)));
    ++calls;
    switch (random() % 400) {
      case 0: CHECK(gpupool_synchronize(pool)); break;
      case 1: CHECK(gpupool_trim(pool, 64 << 20, nullptr)); break;
      case 2: CHECK(gpupool_empty(pool, nullptr)); break;
      case 3: {
        gpupool_stats_t stats{};
        stats.struct_size = sizeof stats;
        CHECK(gpupool_stats(pool, &stats));
        break;
      }
      default: break;
    }
  }
  CHECK(gpupool_release_stream(pool, number(stream)));
  CHECK(cuStreamDestroy(stream));
}

}  // namespace

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::atoi(argv[1]) : 60;
  CHECK(cuInit(0));
  CUcontext context = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  gpupool_config_t config;
  CHECK(gpupool_config_init(&config, sizeof config));
  config.backend = GPUPOOL_BACKEND_CUDA;
  gpupool_t* pool = nullptr;
  CHECK(gpupool_create(&config, &pool));
  std::vector<std::thread> threads;
  for (int i = 0; i < kCapturers; ++i) threads.emplace_back(capture, context, pool, i);
  for (int i = 0; i < kWorkers; ++i) threads.emplace_back(work, context, pool, i);
  // A sleep is refused while a stream captures, and must disturb none.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gpupool_t* sleeper = nullptr;
    CHECK(gpupool_create(&config, &sleeper));
    gpupool_ptr_t block = 0;
    CHECK(gpupool_malloc(sleeper, 8 << 20, 0, &block));
    if (gpupool_sleep(sleeper, nullptr, nullptr) == GPUPOOL_SUCCESS) {
      CHECK(gpupool_wake(sleeper, nullptr, nullptr));
      ++sleeps;
    }
    CHECK(gpupool_free(sleeper, block, 0));
    CHECK(gpupool_destroy(sleeper));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(gpupool_validate(pool));
  CHECK(gpupool_destroy(pool));
  std::printf("%d s: %lu captures, %lu ended; %lu mallocs and frees, %lu sleeps beside; %lu contents wrong\n",
              seconds, captures.load(), ended.load(), calls.load(), sleeps.load(), wrong.load());
  return ended == 0 && wrong == 0 ? 0 : 1;
}
