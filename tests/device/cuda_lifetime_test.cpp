// SPDX-License-Identifier: Apache-2.0
// The CUDA driver's life in a process: missing, failing, loaded, forked away from, gone at exit. Each test
// runs in its own process, because a driver is loaded only once.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "cuda_fixture.hpp"

namespace gpupool::internal {
namespace {

/// Ends the process as failed; the line is in the test's output.
#define REQUIRE(condition)                                                                  \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      std::fprintf(stderr, "line %d: not true: %s; last error: %s\n", __LINE__, #condition, \
                   last_error().message);                                                   \
      std::_Exit(1);                                                                        \
    }                                                                                       \
  } while (false)

bool cuda_initialised() {
  return cuda_state.load() >= CudaState::ready;
}

bool has(const char* part) {
  return last_message().find(part) != std::string::npos;
}

std::unique_ptr<Device> open_device() {
  std::unique_ptr<Device> device;
  REQUIRE(open_cuda(0, {}, device) == kSuccess);
  return device;
}

/// Whether every function of the device gives `expected`.
void require_all(Device& device, Status expected) {
  uint64_t number = 0;
  Stream stream = 0;
  bool flag = false;
  REQUIRE(device.free_memory(number) == expected);
  REQUIRE(device.reserve_addresses(kGranule, number) == expected);
  REQUIRE(device.release_addresses(kGranule, kGranule) == expected);
  REQUIRE(device.create_chunk(kGranule, number) == expected);
  REQUIRE(device.release_chunk(1) == expected);
  REQUIRE(device.map(kGranule, kGranule, 1) == expected);
  REQUIRE(device.set_access(kGranule, kGranule) == expected);
  REQUIRE(device.unmap(kGranule, kGranule) == expected);
  for (const Kind kind : {Kind::device, Kind::pinned, Kind::managed}) {
    REQUIRE(device.allocate(kind, 512, 0, number) == expected);
    REQUIRE(device.deallocate(kind, 512, 512, 0) == expected);
  }
  REQUIRE(device.record(0, 0, number) == expected);
  REQUIRE(device.query(1, flag) == expected);
  REQUIRE(device.is_capturing(0, flag) == expected);
  REQUIRE(device.context_of(0, number) == expected);
  REQUIRE(device.synchronize_all(0) == expected);
  REQUIRE(device.wait(0, 1) == expected);
  REQUIRE(device.synchronize(1) == expected);
  REQUIRE(device.capture_id(0, number) == expected);
  REQUIRE(device.create_stream(stream) == expected);
  REQUIRE(device.destroy_stream(1) == expected);
  REQUIRE(device.synchronize_stream(0) == expected);
  REQUIRE(device.copy(0, 0, 1, 0) == expected);
  REQUIRE(device.fill(0, 0, 1, 0) == expected);
  device.recycle(1);
  int32_t count = 0;
  REQUIRE(cuda_device_count(count) == expected);
  std::unique_ptr<Device> another;
  REQUIRE(open_cuda(0, {}, another) == expected);
}

/// Runs `body` in a child of fork, as the library's own handler would have it; returns its exit code.
template <typename Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    cuda_after_fork();
    body();
    std::_Exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class CudaLifetimeTest : public testing::Test {
 protected:
  void SetUp() override {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    use_fake_cuda();
  }
};

using CudaLifetimeDeathTest = CudaLifetimeTest;

TEST_F(CudaLifetimeDeathTest, AMissingLibraryIsExplained) {
  const auto body = [] {
    setenv("GPUPOOL_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    int32_t count = 7;
    REQUIRE(cuda_device_count(count) == GPUPOOL_ERROR_UNAVAILABLE);
    REQUIRE(count == 7);
    REQUIRE(has("/nowhere/libcuda.so.1"));
    REQUIRE(has("Install NVIDIA's"));
    REQUIRE(!cuda_initialised());
    use_fake_cuda();  // installed meanwhile
    REQUIRE(cuda_device_count(count) == kSuccess);
    REQUIRE(cuda_initialised());
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(CudaLifetimeDeathTest, ALibraryThatIsNoDriverIsExplained) {
  const auto body = [] {
    setenv("GPUPOOL_LIBCUDA", "libm.so.6", 1);
    int32_t count = 0;
    REQUIRE(cuda_device_count(count) == GPUPOOL_ERROR_UNAVAILABLE);
    REQUIRE(has("has no function cuInit"));
    REQUIRE(has("11.3"));
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(CudaLifetimeDeathTest, FailuresToInitialiseAreExplained) {
  const auto body = [] {
    const std::pair<uint32_t, const char*> failures[] = {
        {100, "cuInit: 100 CUDA_ERROR_NO_DEVICE: there is no GPU"},
        {3, "forked from one"},
        {802, "fabric manager"},
        {999, "nvidia-smi"},
    };
    for (const auto& [code, words] : failures) {
      fake_cuda().fail("cuInit", 1, code);
      int32_t count = 0;
      REQUIRE(cuda_device_count(count) == GPUPOOL_ERROR_UNAVAILABLE);
      REQUIRE(last_error().driver_code == static_cast<int32_t>(code));
      REQUIRE(has(words));
      REQUIRE(!cuda_initialised());
      fake_cuda().reset();
    }
    open_device();  // it is tried again, and works
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(CudaLifetimeDeathTest, ADriverThatIsGoneBeforeItIsUsed) {
  const auto body = [] {
    fake_cuda().fail("cuInit", 1, cuda::CUDA_ERROR_DEINITIALIZED);
    int32_t count = 0;
    REQUIRE(cuda_device_count(count) == GPUPOOL_ERROR_SHUTTING_DOWN);
    REQUIRE(cuda_device_count(count) == GPUPOOL_ERROR_SHUTTING_DOWN);
    REQUIRE(fake_cuda().calls("cuInit") == 1);
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

void load_with_threads() {
  std::atomic<int> ready{0};
  const auto load = [&] {
    ++ready;
    while (ready < 4) std::this_thread::yield();
    open_device();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(load);
  for (std::thread& thread : threads) thread.join();
  REQUIRE(fake_cuda().calls("cuInit") == 1);
}

TEST_F(CudaLifetimeDeathTest, ThreadsThatLoadItTogetherInitialiseItOnce) {
  const auto body = [] {
    fake_cuda();
    for (int round = 0; round < 50; ++round) REQUIRE(in_child(load_with_threads) == 0);
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(CudaLifetimeDeathTest, TheOtherFormOfCaptureInfoIsUsedWhereItIsTheOnlyOne) {
  const auto body = [] {
    setenv("GPUPOOL_LIBCUDA", FAKE_CUDA_V3_LIBRARY, 1);
    const auto device = open_device();
    Stream stream = 0;
    REQUIRE(device->create_stream(stream) == kSuccess);
    uint64_t id = 1;
    REQUIRE(device->capture_id(stream, id) == kSuccess && id == 0);
    fake_cuda().begin_capture(stream, cuda::CU_STREAM_CAPTURE_MODE_RELAXED);
    REQUIRE(device->capture_id(stream, id) == kSuccess && id != 0);
    REQUIRE(fake_cuda().calls("cuStreamGetCaptureInfo_v3") == 1);
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

/// Kept for hooks that run at exit.
Device* exit_device = nullptr;

TEST_F(CudaLifetimeDeathTest, AfterTheDriverHasGoneNothingCallsIt) {
  const auto body = [] {
    fake_cuda();
    // Registered before the driver's own hook, so it runs after it.
    std::atexit([] {
      REQUIRE(fake_cuda().torn_down() == 1);
      require_all(*exit_device, GPUPOOL_ERROR_SHUTTING_DOWN);
      REQUIRE(has("exiting"));
      delete exit_device;
      REQUIRE(fake_cuda().late_calls() == 0);
      std::_Exit(42);
    });
    exit_device = open_device().release();
    Event event = 0;
    REQUIRE(exit_device->record(0, 0, event) == kSuccess);
    exit_device->recycle(event);
    std::exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(42), "");
}

TEST_F(CudaLifetimeDeathTest, HooksRegisteredAfterOpeningStillFindTheDriver) {
  const auto body = [] {
    exit_device = open_device().release();
    std::atexit([] {
      uint64_t free = 0;
      REQUIRE(exit_device->free_memory(free) == kSuccess);
      delete exit_device;
      std::_Exit(42);
    });
    std::exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(42), "");
}

TEST_F(CudaLifetimeDeathTest, TheDriverItselfCanSayThatItHasGone) {
  const auto body = [] {
    const auto device = open_device();
    const uint64_t pops = fake_cuda().calls("cuCtxPopCurrent_v2");
    const uint64_t exchanges = fake_cuda().calls("cuThreadExchangeStreamCaptureMode");
    fake_cuda().fail("cuMemCreate", 1, cuda::CUDA_ERROR_DEINITIALIZED);
    ChunkHandle chunk = 0;
    REQUIRE(device->create_chunk(kGranule, chunk) == GPUPOOL_ERROR_SHUTTING_DOWN);
    // Not even to put the caller's context and capture mode back.
    REQUIRE(fake_cuda().calls("cuCtxPopCurrent_v2") == pops);
    REQUIRE(fake_cuda().calls("cuThreadExchangeStreamCaptureMode") == exchanges + 1);
    const uint64_t calls = fake_cuda().calls(nullptr);
    require_all(*device, GPUPOOL_ERROR_SHUTTING_DOWN);
    REQUIRE(fake_cuda().calls(nullptr) == calls);
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(CudaLifetimeDeathTest, AChildOfForkNeverCallsTheDriver) {
  const auto body = [] {
    auto device = open_device();
    REQUIRE(in_child([&] {
              require_all(*device, GPUPOOL_ERROR_FORKED);
              REQUIRE(has("forked"));
              device.reset();
              REQUIRE(fake_cuda().late_calls() == 0);
            }) == 0);
    uint64_t free = 0;
    REQUIRE(device->free_memory(free) == kSuccess);  // the parent goes on
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(CudaLifetimeDeathTest, AChildForkedWhileCudaIsBeingLoadedNeverCallsIt) {
  const auto body = [] {
    fake_cuda().on_init([] {
      REQUIRE(in_child([] {
                int32_t count = 0;
                REQUIRE(cuda_device_count(count) == GPUPOOL_ERROR_FORKED);
              }) == 0);
    });
    open_device();
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(CudaLifetimeDeathTest, AChildExitsAsAChild) {
  const auto body = [] {
    // Runs after the inherited hook of the driver's, which must not turn FORKED into SHUTTING_DOWN.
    std::atexit([] { std::_Exit(cuda_usable() == GPUPOOL_ERROR_FORKED ? 42 : 1); });
    const auto device = open_device();
    REQUIRE(in_child([] { std::exit(0); }) == 42);
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(CudaLifetimeDeathTest, AChildOfAParentWithoutCudaMayUseIt) {
  const auto body = [] {
    REQUIRE(!cuda_initialised());
    REQUIRE(in_child([] {
              open_device();
              REQUIRE(cuda_initialised());
            }) == 0);
    REQUIRE(!cuda_initialised());
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gpupool::internal
