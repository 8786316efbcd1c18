// SPDX-License-Identifier: Apache-2.0
// Memory leaves an address only when nothing may use it there any more: reasons to stay, against all that
// may move memory or give it back, in virtual time. Graphs, those of child pools too, have tests of their
// own (contract_graphs_test.cpp), and so has sleep.
#include <cstring>

#include "pool/contract.hpp"

namespace pool_test {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kHeld = 8 * kMiB;
constexpr unsigned char kContents = 7;
constexpr gpupool_stream_t kThird = 0x3000;

/// What a test sets up, and looks at afterwards.
struct Scene {
  PoolUnderTest& pool;
  gpupool_stream_t stream;
  gpupool_stream_t other;
  gpupool_ptr_t block = 0;
};

/// Why a block's memory must stay where it is.
struct Reason {
  const char* name;
  void (*begin)(Scene& scene);
  void (*end)(Scene& scene);
  bool is_freed = false;   // work in the queues uses it
  bool needs_vmm = false;  // segments cannot
};

/// What might take it away.
struct Action {
  const char* name;
  void (*act)(Scene& scene);
};

void nothing(Scene&) {}
void free_it(Scene& scene) {
  scene.pool.free(scene.block, scene.stream);
}
void use_for_an_hour(const Scene& scene, gpupool_stream_t stream) {
  EXPECT_TRUE(ok(gpupool_sim_work(0, stream, scene.block, kHeld, 3600 * kSecond)));
}

const Reason kReasons[] = {
    {"it is live", nothing, free_it},
    {"it is exported",
     [](Scene& scene) {
       char handle[GPUPOOL_EXPORT_BYTES];
       EXPECT_TRUE(ok(gpupool_export(scene.pool, scene.block, handle, sizeof handle)));
     },
     free_it, false, true},
    {"it is protected",
     [](Scene& scene) { EXPECT_TRUE(ok(gpupool_protect(scene.pool, scene.block, GPUPOOL_ACCESS_READ))); },
     free_it, false, true},
    {"its stream still uses it, freed",
     [](Scene& scene) {
       use_for_an_hour(scene, scene.stream);
       scene.pool.free(scene.block, scene.stream);
     },
     nothing, true},
    {"another stream still uses it, freed",
     [](Scene& scene) {
       use_for_an_hour(scene, scene.other);
       EXPECT_TRUE(ok(gpupool_record_stream(scene.pool, scene.block, scene.other)));
       scene.pool.free(scene.block, scene.stream);
     },
     nothing, true},
    {"a stream that is freed on uses it",
     [](Scene& scene) {
       use_for_an_hour(scene, scene.other);
       scene.pool.free(scene.block, scene.other);
     },
     nothing, true},
    {"any stream may use it",
     [](Scene& scene) {
       use_for_an_hour(scene, scene.other);
       scene.pool.free(scene.block, GPUPOOL_STREAM_UNKNOWN);
     },
     nothing, true},
    {"its stream was released, with work queued",
     [](Scene& scene) {
       use_for_an_hour(scene, scene.stream);
       scene.pool.free(scene.block, scene.stream);
       EXPECT_TRUE(ok(gpupool_release_stream(scene.pool, scene.stream)));
     },
     nothing, true},
};

const Action kActions[] = {
    {"windows of surplus",
     [](Scene& scene) {
       for (int minute = 0; minute < 20; ++minute) {
         EXPECT_TRUE(ok(gpupool_sim_advance(0, 61 * kSecond)));
         EXPECT_TRUE(ok(gpupool_reset_peaks(scene.pool)));
         const gpupool_ptr_t block = scene.pool.malloc((1 + minute) * kMiB, 0);
         scene.pool.free(block, 0);
       }
     }},
    {"another stream grows",
     [](Scene& scene) {
       std::vector<gpupool_ptr_t> blocks;
       for (uint64_t size = kMiB; size <= 32 * kMiB; size *= 2) {
         blocks.push_back(scene.pool.malloc(size, 0));
         EXPECT_TRUE(ok(gpupool_fill(scene.pool, blocks.back(), 9, size, 0)));
       }
       for (const gpupool_ptr_t block : blocks) scene.pool.free(block, 0);
     }},
    {"its size is asked for on another stream",
     [](Scene& scene) {
       const gpupool_ptr_t block = scene.pool.malloc(kHeld, 0);
       EXPECT_TRUE(ok(gpupool_fill(scene.pool, block, 9, kHeld, 0)));
       scene.pool.free(block, 0);
     }},
    {"trim", [](Scene& scene) { scene.pool.trim(0); }},
    {"empty", [](Scene& scene) { scene.pool.empty(); }},
    {"synchronize", [](Scene& scene) { scene.pool.synchronize(); }},
    {"a malloc that fails",
     [](Scene& scene) {
       gpupool_ptr_t block = 0;
       EXPECT_NE(gpupool_malloc(scene.pool, 2 * kGiB, 0, &block), GPUPOOL_SUCCESS);
     }},
    {"all that is left of the device is asked for",
     [](Scene& scene) {
       std::vector<gpupool_ptr_t> blocks;
       gpupool_ptr_t block = 0;
       while (gpupool_malloc(scene.pool, 8 * kMiB, 0, &block) == GPUPOOL_SUCCESS) {
         EXPECT_TRUE(ok(gpupool_fill(scene.pool, block, 9, 8 * kMiB, 0)));
         blocks.push_back(block);
       }
       for (const gpupool_ptr_t each : blocks) scene.pool.free(each, 0);
     }},
    {"another pool is short",
     [](Scene&) {
       gpupool_config_t config = empty_config();
       config.backend = GPUPOOL_BACKEND_SIM;
       PoolUnderTest another(config);
       gpupool_ptr_t block = 0;
       EXPECT_NE(gpupool_malloc(another, 2 * kGiB, 0, &block), GPUPOOL_SUCCESS);
     }},
    {"a lower limit",
     [](Scene& scene) { EXPECT_TRUE(ok(gpupool_set_limit(scene.pool, scene.pool.reserved()))); }},
    {"the other stream's end",
     [](Scene& scene) {
       EXPECT_TRUE(ok(gpupool_release_stream(scene.pool, kThird)));
       scene.pool.empty();
     }},
};

/// Virtual memory, and a driver's segments.
class Retained : public testing::TestWithParam<gpupool_mode_t> {
 protected:
  // Small: one of the actions writes to all of it, for each reason.
  void SetUp() override { configure_device(0, 1, 128 * kMiB); }

  static gpupool_config_t config() {
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_SIM;
    config.mode = GetParam();
    config.max_chunk_bytes = 2 * kMiB;
    return config;
  }
  static std::string faults() {
    uint64_t count = 0;
    char text[512] = {};
    EXPECT_TRUE(ok(gpupool_sim_faults(0, &count, text, sizeof text)));
    return count != 0 ? text : "";
  }
};

INSTANTIATE_TEST_SUITE_P(On, Retained, testing::Values(GPUPOOL_MODE_VMM, GPUPOOL_MODE_DRIVER),
                         [](const auto& each) {
                           return std::string(each.param == GPUPOOL_MODE_VMM ? "vmm" : "driver");
                         });

TEST_P(Retained, MemoryStaysForEachReasonWhateverThePoolDoes) {
  for (const Reason& reason : kReasons) {
    if (reason.needs_vmm && GetParam() != GPUPOOL_MODE_VMM) continue;
    for (const Action& action : kActions) {
      SCOPED_TRACE(std::string(reason.name) + "; " + action.name);
      SetUp();
      PoolUnderTest pool(config());
      Scene scene{pool, 0x1000, 0x2000};
      pool.free(pool.malloc(4 * kMiB, kThird), kThird);
      pool.free(pool.malloc(kMiB, scene.other), scene.other);
      ASSERT_TRUE(ok(gpupool_malloc_aligned(pool, kHeld, 2 * kMiB, scene.stream, &scene.block)));
      ASSERT_TRUE(ok(gpupool_fill(pool, scene.block, kContents, kHeld, scene.stream)));
      pool.synchronize();
      reason.begin(scene);
      for (int round = 0; round < 2; ++round) {
        action.act(scene);
        pool.validate();
        EXPECT_EQ(faults(), "");
        if (!reason.is_freed) {
          const std::string expected(kHeld, static_cast<char>(kContents));
          EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(scene.block), expected.data(), kHeld), 0);
        }
        if (HasFailure()) return;
      }
      EXPECT_TRUE(ok(gpupool_set_limit(pool, 0)));
      reason.end(scene);
      pool.empty();
      EXPECT_EQ(pool.reserved(), 0u);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace pool_test
