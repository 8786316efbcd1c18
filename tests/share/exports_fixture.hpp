// SPDX-License-Identifier: Apache-2.0
// Processes that hand blocks to each other. The test's own process uses no pool, so that its children may.
#pragma once

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "gpupool/gpupool.h"
#include "pool/pool_under_test.hpp"
#include "share_fixture.hpp"

/// In a child: ends it with the number of the line.
#define CHECK(...)                                                                                   \
  do {                                                                                               \
    if (!(__VA_ARGS__)) {                                                                            \
      std::fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #__VA_ARGS__, message().c_str()); \
      return 1;                                                                                      \
    }                                                                                                \
  } while (false)

namespace gpupool::internal::share {

struct ExportBoard {
  std::atomic<int> step;
  char handle[GPUPOOL_EXPORT_BYTES];

  bool moves(int to) {
    step.store(to);
    return true;
  }
  bool reaches(int wanted) const {
    return soon([&] { return step.load() >= wanted; }, 20'000);
  }
};

class ExportsTest : public ShareTest {
 protected:
  ExportsTest() { use("sim"); }
  ~ExportsTest() override {
    for (const char* each : {"GPUPOOL_BACKEND", "GPUPOOL_LIBCUDA"}) unsetenv(each);
  }

  /// "cuda" is the stand-in for the driver.
  static void use(const char* backend) {
    setenv("GPUPOOL_LIBCUDA", FAKE_CUDA_LIBRARY, 1);
    setenv("GPUPOOL_BACKEND", backend, 1);
  }

  /// Runs a test in a process of its own.
  template <typename Work>
  static void in_child(Work work) {
    EXPECT_EQ(end_of(start(work)), 0);
  }

  static gpupool_t* make_pool(gpupool_mode_t mode = GPUPOOL_MODE_VMM, int32_t device = 0) {
    gpupool_config_t config;
    gpupool_config_init(&config, sizeof config);
    config.mode = mode;
    config.device = device;
    gpupool_t* pool = nullptr;
    gpupool_create(&config, &pool);
    return pool;
  }
  static gpupool_ptr_t take(gpupool_t* pool, uint64_t bytes) {
    gpupool_ptr_t block = 0;
    return gpupool_malloc(pool, bytes, 0, &block) == GPUPOOL_SUCCESS ? block : 0;
  }
  /// Both devices have memory that the host may touch.
  static unsigned char* at(gpupool_ptr_t ptr) { return reinterpret_cast<unsigned char*>(ptr); }

  static gpupool_stats_t stats_of(gpupool_t* pool) {
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    gpupool_stats(pool, &stats);
    return stats;
  }
  static std::string report_of(gpupool_t* pool) {
    std::array<char, 4096> text{};
    gpupool_report(pool, text.data(), text.size(), nullptr);
    return text.data();
  }
  static std::string message() {
    gpupool_error_t error{};
    error.struct_size = sizeof error;
    gpupool_last_error(&error);
    return error.message;
  }
  static size_t open_descriptors() {
    size_t count = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
    return count;
  }
  /// Broken rules that simulated device 0 has seen.
  static uint64_t count_faults() {
    uint64_t faults = ~uint64_t{0};
    return gpupool_sim_faults(0, &faults, nullptr, 0) == GPUPOOL_SUCCESS ? faults : ~uint64_t{0};
  }
  /// 0 under a sanitizer, whose own come and go.
  static size_t count_mappings() {
    if (pool_test::kIsSanitized) return 0;
    std::ifstream maps("/proc/self/maps");
    size_t count = 0;
    for (std::string line; std::getline(maps, line);) ++count;
    return count;
  }

  Common<ExportBoard> board_;
};

}  // namespace gpupool::internal::share
