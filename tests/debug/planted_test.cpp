// SPDX-License-Identifier: Apache-2.0
// Which debug mode finds which of twenty planted bugs; the table in docs/debugging.md must match.
// GPUPOOL_WRITE_DOCS=1 in the environment rewrites that table.
#include "debug/planted.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

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

World::World(const char* modes) {
  gpupool_sim_config_t device{};
  device.struct_size = sizeof device;
  EXPECT_EQ(gpupool_sim_configure(0, &device), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_set_sampling(1), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_set_debug(modes), GPUPOOL_SUCCESS) << last_words();
  gpupool_config_t config;
  EXPECT_EQ(gpupool_config_init(&config, sizeof config), GPUPOOL_SUCCESS);
  config.backend = GPUPOOL_BACKEND_SIM;
  EXPECT_EQ(gpupool_create(&config, &pool_), GPUPOOL_SUCCESS) << last_words();
  EXPECT_EQ(gpupool_set_debug(""), GPUPOOL_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    streams_.push_back(0);
    EXPECT_EQ(gpupool_stream_create(pool_, &streams_.back()), GPUPOOL_SUCCESS);
  }
  host_.resize(kLarge / sizeof(float) + kMiB);
}

World::~World() {
  EXPECT_EQ(gpupool_validate(pool_), GPUPOOL_SUCCESS) << last_words();
  for (const gpupool_ptr_t block : live_) EXPECT_EQ(gpupool_free(pool_, block, a()), GPUPOOL_SUCCESS);
  wait();
  for (const gpupool_stream_t stream : streams_)
    EXPECT_EQ(gpupool_stream_destroy(pool_, stream), GPUPOOL_SUCCESS) << last_words();
  EXPECT_EQ(gpupool_destroy(pool_), GPUPOOL_SUCCESS);
}

gpupool_ptr_t World::take(uint64_t bytes, bool raw) {
  gpupool_ptr_t block = 0;
  EXPECT_EQ(gpupool_malloc(pool_, bytes, a(), &block), GPUPOOL_SUCCESS) << last_words();
  live_.push_back(block);
  if (!raw) {
    EXPECT_EQ(gpupool_fill(pool_, block, 1, bytes, a()), GPUPOOL_SUCCESS) << last_words();
  }
  wait();
  return block;
}

void World::give(gpupool_ptr_t block) {
  EXPECT_EQ(gpupool_free(pool_, block, a()), GPUPOOL_SUCCESS) << last_words();
  std::erase(live_, block);
  wait();
}

void World::try_give(gpupool_ptr_t block) {
  was_refused_ = gpupool_free(pool_, block, a()) != GPUPOOL_SUCCESS;
}

void World::write(gpupool_ptr_t at, uint64_t bytes, gpupool_stream_t stream) {
  (void)gpupool_fill(pool_, at, 0, bytes, stream);
  wait();
}

void World::look(uint64_t bytes) {
  for (uint64_t i = 0; i < bytes / sizeof(float); ++i) saw_nan_ = saw_nan_ || std::isnan(host_[i]);
}

void World::read(gpupool_ptr_t at, uint64_t bytes, gpupool_stream_t stream) {
  const auto to = reinterpret_cast<gpupool_ptr_t>(host_.data());
  (void)gpupool_copy(pool_, to, at, bytes, stream);
  wait();
  look(bytes);
}

uint64_t World::capture_read(gpupool_ptr_t at, uint64_t bytes) {
  const auto to = reinterpret_cast<gpupool_ptr_t>(host_.data());
  uint64_t capture = 0;
  EXPECT_EQ(gpupool_sim_capture(0, b(), 1), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_copy(pool_, to, at, bytes, b()), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_capture_id(pool_, b(), &capture), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_sim_capture(0, b(), 0), GPUPOOL_SUCCESS);
  return capture;
}

void World::launch(uint64_t capture) {
  (void)gpupool_sim_launch(0, capture, b());
  wait();
  look(kSmall);
}

void World::wait() {
  EXPECT_EQ(gpupool_sim_advance(0, 1'000'000'000), GPUPOOL_SUCCESS);
  EXPECT_EQ(gpupool_synchronize(pool_), GPUPOOL_SUCCESS) << last_words();
}

uint64_t World::findings() {
  // What is held back is looked at when it is handed out again.
  for (int i = 0; i < 4; ++i) give(take(4 * kMiB));
  uint64_t count = 0;
  EXPECT_EQ(gpupool_check(pool_, &count, nullptr, 0), GPUPOOL_SUCCESS) << last_words();
  return count;
}

uint64_t World::faults() const {
  uint64_t count = 0;
  EXPECT_EQ(gpupool_sim_faults(0, &count, nullptr, 0), GPUPOOL_SUCCESS);
  return count;
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
       const uint64_t capture = w.capture_read(block, kSmall);
       w.give(block);
       w.launch(capture);
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

const char* verdict(const Bug& bug, const Mode& mode) {
  World world(mode.modes);
  bug.plant(world);
  if (world.was_refused()) return "refused";
  if (world.faults() != 0) return "fault";
  if (world.saw_nan()) return "NaN";
  return world.findings() != 0 ? "check" : "";
}

namespace {

std::string table() {
  std::ostringstream text;
  text << "| bug |";
  for (const Mode& mode : kModes) text << ' ' << mode.name << " |";
  text << "\n|---|";
  for (size_t i = 0; i < kModes.size(); ++i) text << "---|";
  text << '\n';
  for (const Bug& bug : kBugs) {
    text << "| " << bug.name << " |";
    for (const Mode& mode : kModes) {
      const std::string found = verdict(bug, mode);
      text << ' ' << found << (found.empty() ? "" : " ") << '|';
    }
    text << '\n';
  }
  return text.str();
}

TEST(Planted, ThereAreTwenty) {
  EXPECT_EQ(kBugs.size(), 20U);
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
    EXPECT_EQ(world.faults(), 0U) << mode.name;
    EXPECT_EQ(world.findings(), 0U) << mode.name;
  }
}

TEST(Planted, TheTableIsThatOfTheDocuments) {
  const std::string path = std::string(GPUPOOL_TEST_DATA) + "/../../docs/debugging.md";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string document = text.str();
  const std::string begin = "<!-- written by tests/debug/planted_test.cpp -->\n";
  const std::string end = "<!-- end -->";
  const size_t from = document.find(begin);
  ASSERT_NE(from, std::string::npos) << path;
  const size_t to = document.find(end, from);
  ASSERT_NE(to, std::string::npos);
  const std::string found = table();
  if (std::getenv("GPUPOOL_WRITE_DOCS") != nullptr) {
    std::ofstream(path) << document.substr(0, from) << begin << found << document.substr(to);
    return;
  }
  EXPECT_EQ(document.substr(from + begin.size(), to - from - begin.size()), found);
}

}  // namespace
}  // namespace debug_test
