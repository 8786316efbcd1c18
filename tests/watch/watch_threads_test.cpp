// SPDX-License-Identifier: Apache-2.0
// Watching while other threads change what is watched.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "gpupool/gpupool.h"

namespace {

struct Language {
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> mistaken{0};  // calls for another language
};
Language first_language;
Language second_language;

template <Language& Own>
size_t tell(void* user, char* text, size_t capacity) {
  (void)text;
  (void)capacity;
  Own.calls.fetch_add(1);
  if (user != &Own) Own.mistaken.fetch_add(1);
  return 0;
}

TEST(WatchThreads, AStackFunctionIsOnlyCalledWithWhatWasSetWithIt) {
  gpupool_sim_config_t sim{};
  sim.struct_size = sizeof sim;
  sim.data = 2;
  ASSERT_EQ(gpupool_sim_configure(0, &sim), GPUPOOL_SUCCESS);
  ASSERT_EQ(gpupool_set_sampling(1), GPUPOOL_SUCCESS);  // each malloc has a stack
  gpupool_config_t config;
  ASSERT_EQ(gpupool_config_init(&config, sizeof config), GPUPOOL_SUCCESS);
  config.backend = GPUPOOL_BACKEND_SIM;
  gpupool_t* pool = nullptr;
  ASSERT_EQ(gpupool_create(&config, &pool), GPUPOOL_SUCCESS);
  std::atomic<bool> is_over{false};
  std::thread changes([&] {
    while (!is_over.load()) {
      gpupool_set_stack_fn(tell<first_language>, &first_language);
      gpupool_set_stack_fn(tell<second_language>, &second_language);
    }
  });
  std::thread changes_too([&] {
    while (!is_over.load()) gpupool_set_stack_fn(tell<first_language>, &first_language);
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < end) {
    gpupool_ptr_t block = 0;
    ASSERT_EQ(gpupool_malloc(pool, 4096, 0, &block), GPUPOOL_SUCCESS);
    ASSERT_EQ(gpupool_free(pool, block, 0), GPUPOOL_SUCCESS);
  }
  is_over.store(true);
  changes.join();
  changes_too.join();
  EXPECT_EQ(gpupool_set_stack_fn(nullptr, nullptr), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_set_sampling(uint64_t{1} << 20), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_destroy(pool), GPUPOOL_SUCCESS);
  EXPECT_GT(first_language.calls.load(), 100U);
  EXPECT_GT(second_language.calls.load(), 100U);
  EXPECT_EQ(first_language.mistaken.load() + second_language.mistaken.load(), 0U);
}

}  // namespace
