// SPDX-License-Identifier: Apache-2.0
// Which debug mode finds which of 21 planted bugs, on the simulated device and, where there is one, on a
// GPU; the tables in docs/debugging.md must match. GPUPOOL_WRITE_DOCS=1 in the environment rewrites them.
#include "debug/planted.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace debug_test {
namespace {

std::string last_words() {
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  gpupool_last_error(&error);
  return error.message;
}

constexpr uint64_t kSmall = 1000;
constexpr uint64_t kLarge = 3 * kMiB;  // so that it fills units of 512

}  // namespace

// ---- the world

World::World(const char* modes, bool is_on_gpu) {
  if (is_on_gpu) {
    gpu_ = std::make_unique<GpuWork>();
  } else {
    gpupool_sim_config_t device{};
    device.struct_size = sizeof device;
    EXPECT_EQ(gpupool_sim_configure(0, &device), GPUPOOL_SUCCESS);
  }
  EXPECT_EQ(gpupool_set_sampling(1), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_set_debug(modes), GPUPOOL_SUCCESS) << last_words();
  gpupool_config_t config;
  EXPECT_EQ(gpupool_config_init(&config, sizeof config), GPUPOOL_SUCCESS);
  config.backend = is_on_gpu ? GPUPOOL_BACKEND_CUDA : GPUPOOL_BACKEND_SIM;
  EXPECT_EQ(gpupool_create(&config, &pool_), GPUPOOL_SUCCESS) << last_words();
  EXPECT_EQ(gpupool_set_debug(""), GPUPOOL_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    streams_.push_back(0);
    EXPECT_EQ(gpupool_stream_create(pool_, &streams_.back()), GPUPOOL_SUCCESS);
  }
  constexpr uint64_t kHost = 2 * kLarge;  // more than any read
  if (!is_on_gpu) memory_.resize(kHost / sizeof(float));
  host_ = is_on_gpu ? reinterpret_cast<float*>(gpu_->pinned(kHost)) : memory_.data();
}

World::~World() {
  if (has_fault_) return;  // the context is gone
  EXPECT_EQ(gpupool_validate(pool_), GPUPOOL_SUCCESS) << last_words();
  for (const gpupool_ptr_t block : live_) EXPECT_EQ(gpupool_free(pool_, block, a()), GPUPOOL_SUCCESS);
  wait();
  for (const gpupool_stream_t stream : streams_)
    EXPECT_EQ(gpupool_stream_destroy(pool_, stream), GPUPOOL_SUCCESS) << last_words();
  EXPECT_EQ(gpupool_destroy(pool_), GPUPOOL_SUCCESS);
}

/// On a GPU, whatever comes after a fault fails.
void World::expect(bool is_done) {
  has_fault_ = has_fault_ || !is_done;
}

void World::expect(gpupool_status_t status) {
  if (gpu_ != nullptr) return expect(status == GPUPOOL_SUCCESS);
  EXPECT_EQ(status, GPUPOOL_SUCCESS) << last_words();
}

gpupool_ptr_t World::take(uint64_t bytes, bool raw) {
  gpupool_ptr_t block = 0;
  expect(gpupool_malloc(pool_, bytes, a(), &block));
  live_.push_back(block);
  if (!raw) {
    gpu_ != nullptr ? expect(gpu_->fill(block, 1, bytes, a()))
                    : expect(gpupool_fill(pool_, block, 1, bytes, a()));
  }
  wait();
  return block;
}

void World::give(gpupool_ptr_t block) {
  expect(gpupool_free(pool_, block, a()));
  std::erase(live_, block);
  wait();
}

void World::try_give(gpupool_ptr_t block) {
  was_refused_ = gpupool_free(pool_, block, a()) != GPUPOOL_SUCCESS;
}

void World::write(gpupool_ptr_t at, uint64_t bytes, gpupool_stream_t stream) {
  if (gpu_ != nullptr) {
    expect(gpu_->fill(at, 0, bytes, stream));
  } else {
    (void)gpupool_fill(pool_, at, 0, bytes, stream);
  }
  wait();
}

void World::look(uint64_t bytes) {
  if (has_fault_) return;
  for (uint64_t i = 0; i < bytes / sizeof(float); ++i) saw_nan_ = saw_nan_ || std::isnan(host_[i]);
}

void World::read(gpupool_ptr_t at, uint64_t bytes, gpupool_stream_t stream) {
  if (gpu_ != nullptr) {
    expect(gpu_->copy(host(), at, bytes, stream));
  } else {
    (void)gpupool_copy(pool_, host(), at, bytes, stream);
  }
  wait();
  look(bytes);
}

void World::capture_read(gpupool_ptr_t at, uint64_t bytes) {
  if (gpu_ != nullptr) return expect(gpu_->capture_copy(host(), at, bytes, b()));
  EXPECT_EQ(gpupool_sim_capture(0, b(), 1), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_copy(pool_, host(), at, bytes, b()), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_capture_id(pool_, b(), &capture_), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_sim_capture(0, b(), 0), GPUPOOL_SUCCESS);
}

void World::launch() {
  if (gpu_ != nullptr) {
    expect(gpu_->launch(b()));
  } else {
    (void)gpupool_sim_launch(0, capture_, b());
  }
  wait();
  look(kSmall);
}

void World::wait() {
  if (gpu_ != nullptr) return expect(gpu_->wait());
  EXPECT_EQ(gpupool_sim_advance(0, 1'000'000'000), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_synchronize(pool_), GPUPOOL_SUCCESS) << last_words();
}

uint64_t World::findings() {
  uint64_t count = 0;
  EXPECT_EQ(gpupool_check(pool_, &count, nullptr, 0), GPUPOOL_SUCCESS) << last_words();
  return count;
}

bool World::has_fault() const {
  if (gpu_ != nullptr) return has_fault_;
  uint64_t count = 0;
  EXPECT_EQ(gpupool_sim_faults(0, &count, nullptr, 0), GPUPOOL_SUCCESS);
  return count != 0;
}

// ---- the bugs

const std::vector<Bug> kBugs = {
    {"write 1 byte past the end of 1,000 bytes",
     [](World& w) {
       const gpupool_ptr_t block = w.take(kSmall);
       w.write(block, kSmall + 1, w.a());
       w.give(block);
     }},
    {"write 1 byte past the end of 3 MiB",
     [](World& w) {
       const gpupool_ptr_t block = w.take(kLarge);
       w.write(block, kLarge + 1, w.a());
       w.give(block);
     }},
    {"write 1 byte past the end of a block that stays live",
     [](World& w) { w.write(w.take(kLarge), kLarge + 1, w.a()); }},
    {"write past the end on another stream, which was recorded",
     [](World& w) {
       const gpupool_ptr_t block = w.take(kLarge);
       EXPECT_EQ(gpupool_record_stream(w.pool(), block, w.b()), GPUPOOL_SUCCESS);
       w.write(block, kLarge + 100, w.b());
       w.give(block);
     }},
    {"write 256 KiB past the end, with a stride",
     [](World& w) { w.write(w.take(kLarge) + kLarge + 256 * kKiB, 16, w.a()); }},
    {"write 16 MiB further on, into another live block",
     [](World& w) {
       const gpupool_ptr_t block = w.take(kLarge);
       for (int i = 0; i < 7; ++i) w.take(kLarge);
       w.write(block + 16 * kMiB + 256 * kKiB, 16, w.a());
     }},
    {"write 16 bytes before the begin of 3 MiB, into the block before",
     [](World& w) {
       w.take(kLarge);
       w.write(w.take(kLarge) - 16, 16, w.a());
     }},
    {"read 1 byte past the end of 1,000 bytes", [](World& w) { w.read(w.take(kSmall), kSmall + 1, w.a()); }},
    {"read 64 KiB past the end of 3 MiB",
     [](World& w) { w.read(w.take(kLarge), kLarge + 64 * kKiB, w.a()); }},
    {"write after the free of 1,000 bytes",
     [](World& w) {
       const gpupool_ptr_t block = w.take(kSmall);
       w.give(block);
       w.write(block, 64, w.a());
     }},
    {"write after the free of 3 MiB",
     [](World& w) {
       const gpupool_ptr_t block = w.take(kLarge);
       w.give(block);
       w.write(block, kLarge, w.a());
     }},
    {"write into the middle of 3 MiB after the free",
     [](World& w) {
       const gpupool_ptr_t block = w.take(kLarge);
       w.give(block);
       w.write(block + kMiB, 64, w.a());
     }},
    {"write after the free on another stream, which was recorded",
     [](World& w) {
       const gpupool_ptr_t block = w.take(kLarge);
       EXPECT_EQ(gpupool_record_stream(w.pool(), block, w.b()), GPUPOOL_SUCCESS);
       w.give(block);
       w.write(block, 64, w.b());
     }},
    {"read after the free of 1,000 bytes",
     [](World& w) {
       const gpupool_ptr_t block = w.take(kSmall);
       w.give(block);
       w.read(block, kSmall, w.a());
     }},
    {"read after the free of 3 MiB",
     [](World& w) {
       const gpupool_ptr_t block = w.take(kLarge);
       w.give(block);
       w.read(block, kLarge, w.a());
     }},
    {"read on another stream that was not recorded, after the free",
     [](World& w) {
       const gpupool_ptr_t block = w.take(kLarge);
       w.read(block, kLarge, w.b());
       w.give(block);
       w.read(block, kLarge, w.b());
     }},
    {"read of what nobody has written, 1,000 bytes",
     [](World& w) { w.read(w.take(kSmall, true), kSmall, w.a()); }},
    {"read of what nobody has written, where a block was before",
     [](World& w) {
       w.give(w.take(kLarge));
       w.read(w.take(kLarge, true), kLarge, w.a());
     }},
    {"a graph that reads a block which is free when it runs",
     [](World& w) {
       const gpupool_ptr_t block = w.take(kSmall);
       w.capture_read(block, kSmall);
       w.give(block);
       w.launch();
     }},
    {"a block that is freed twice",
     [](World& w) {
       const gpupool_ptr_t block = w.take(kSmall);
       w.give(block);
       w.try_give(block);
     }},
    {"a free in the middle of a block", [](World& w) { w.try_give(w.take(kLarge) + kMiB); }},
};

const std::vector<Mode> kModes = {
    {"none", ""},
    {"`poison`", "poison"},
    {"`poison,quarantine`", "poison,quarantine=8MiB"},
    {"`canary`", "canary"},
    {"`fence`", "fence"},
    {"`guard`", "guard"},
    {"`annotate`", "annotate"},
};

const char* verdict(const Bug& bug, const Mode& mode, bool is_on_gpu) {
  World world(mode.modes, is_on_gpu);
  bug.plant(world);
  if (world.was_refused()) return "refused";
  if (world.has_fault()) return "fault";
  if (world.saw_nan()) return "NaN";
  return world.findings() != 0 ? "check" : "";
}

namespace {

/// As `verdict_of(bug, mode)` has it.
template <typename Verdict>
std::string table(const std::vector<Mode>& modes, Verdict verdict_of) {
  std::ostringstream text;
  text << "| bug |";
  for (const Mode& mode : modes) text << ' ' << mode.name << " |";
  text << "\n|---|";
  for (size_t i = 0; i < modes.size(); ++i) text << "---|";
  text << '\n';
  for (const Bug& bug : kBugs) {
    text << "| " << bug.name << " |";
    for (const Mode& mode : modes) {
      const std::string found = verdict_of(bug, mode);
      text << ' ' << found << (found.empty() ? "" : " ") << '|';
    }
    text << '\n';
  }
  return text.str();
}

/// Compares a table of docs/debugging.md, or rewrites it.
void expect_document(const char* begin, const std::string& found) {
  const std::string path = std::string(GPUPOOL_TEST_DATA) + "/../../docs/debugging.md";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string document = text.str();
  const size_t line = document.find(begin);
  ASSERT_NE(line, std::string::npos) << path << " has no place for\n" << found;
  const size_t from = document.find('\n', line) + 1;
  const size_t to = document.find("<!-- end -->", from);
  ASSERT_NE(to, std::string::npos);
  if (std::getenv("GPUPOOL_WRITE_DOCS") != nullptr) {
    std::ofstream(path) << document.substr(0, from) << found << document.substr(to);
    return;
  }
  EXPECT_EQ(document.substr(from, to - from), found);
}

TEST(Planted, ThereAreTwentyOne) {
  EXPECT_EQ(kBugs.size(), 21U);
}

TEST(Planted, WhatIsRightIsFoundByNoMode) {
  for (const Mode& mode : kModes) {
    World world(mode.modes);
    for (const uint64_t size : {uint64_t{1}, kSmall, kMiB, kLarge, 5 * kMiB + 3}) {
      const gpupool_ptr_t block = world.take(size);
      EXPECT_EQ(gpupool_record_stream(world.pool(), block, world.b()), GPUPOOL_SUCCESS);
      world.write(block, size, world.b());
      world.read(block, size, world.a());
      world.give(block);
      world.read(world.take(size), size, world.a());
    }
    EXPECT_FALSE(world.saw_nan()) << mode.name;
    EXPECT_FALSE(world.has_fault()) << mode.name;
    EXPECT_EQ(world.findings(), 0U) << mode.name;
  }
}

TEST(Planted, TheTableIsThatOfTheDocuments) {
  expect_document("<!-- written by tests/debug/planted_test.cpp -->",
                  table(kModes, [](const Bug& bug, const Mode& mode) { return verdict(bug, mode); }));
}

// ---- on a GPU: each bug in a process of its own

/// The modes but annotate, which a GPU has under compute-sanitizer only (tests/gpu/test_sanitizer.py).
std::vector<Mode> modes_of_gpus() {
  return {kModes.begin(), kModes.end() - 1};
}

/// GPUPOOL_PLANTED="BUG MODE", by their numbers, prints that verdict and ends the process.
TEST(Planted, OneOnAGpu) {
  const char* const chosen = std::getenv("GPUPOOL_PLANTED");
  size_t bug = 0;
  size_t mode = 0;
  if (chosen == nullptr || std::sscanf(chosen, "%zu %zu", &bug, &mode) != 2) GTEST_SKIP() << "not asked for";
  std::printf("verdict: %s.\n", verdict(kBugs.at(bug), kModes.at(mode), true));
  std::fflush(stdout);
  std::_Exit(0);
}

std::string verdict_of_process(size_t bug, size_t mode) {
  char program[4096] = {};
  if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) return "?";
  const std::string command = "GPUPOOL_PLANTED='" + std::to_string(bug) + " " + std::to_string(mode) + "' '" +
                              program + "' --gtest_filter=Planted.OneOnAGpu 2>/dev/null";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(popen(command.c_str(), "r"), pclose);
  char line[1024];
  while (output != nullptr && std::fgets(line, sizeof line, output.get()) != nullptr) {
    const std::string text = line;
    if (text.starts_with("verdict: ")) return text.substr(9, text.find('.') - 9);
  }
  return "?";
}

TEST(Planted, OnAGpuTheTableIsThatOfTheDocuments) {
  if ((gpupool_features() & GPUPOOL_FEATURE_CUDA) == 0 || std::getenv("GPUPOOL_LIBCUDA") != nullptr)
    GTEST_SKIP() << "no usable GPU";
  const std::vector<Mode> modes = modes_of_gpus();
  std::vector<std::string> verdicts(kBugs.size() * modes.size());
  std::atomic<size_t> next{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < 8; ++i) {
    workers.emplace_back([&] {
      for (size_t cell = next++; cell < verdicts.size(); cell = next++)
        verdicts[cell] = verdict_of_process(cell / modes.size(), cell % modes.size());
    });
  }
  for (std::thread& worker : workers) worker.join();
  auto at = verdicts.begin();
  expect_document("<!-- written by tests/debug/planted_test.cpp on a GPU -->",
                  table(modes, [&](const Bug&, const Mode&) { return *at++; }));
}

}  // namespace
}  // namespace debug_test
