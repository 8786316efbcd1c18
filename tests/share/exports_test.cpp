// SPDX-License-Identifier: Apache-2.0
// Blocks between processes: what each sees, keeps and gives up, however the others end.
#include <string.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "exports_fixture.hpp"

namespace gpupool::internal::share {
namespace {

class ExportsOn : public ExportsTest, public testing::WithParamInterface<const char*> {
 protected:
  ExportsOn() { use(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, ExportsOn, testing::Values("sim", "cuda"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(ExportsOn, BothSeeOneMemoryUntilTheLastHasDone) {
  const pid_t exporter = start([&] {
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t neighbour = take(pool, 3 * kMiB);
    const gpupool_ptr_t block = take(pool, 21 * kMiB);
    CHECK(neighbour != 0 && block != 0);
    memset(at(block), 0x11, 21 * kMiB);
    CHECK(gpupool_export(pool, block, board_->handle, sizeof board_->handle) == GPUPOOL_SUCCESS);
    CHECK(board_->moves(1) && board_->reaches(2));
    CHECK(at(block)[21 * kMiB - 1] == 0x22);
    CHECK(gpupool_free(pool, block, 0) == GPUPOOL_SUCCESS);
    CHECK(gpupool_free(pool, block, 0) == GPUPOOL_ERROR_UNKNOWN_POINTER);
    // What the importer uses serves nothing else.
    CHECK(stats_of(pool).all.active_bytes.current == 24 * kMiB);
    const gpupool_ptr_t other = take(pool, 21 * kMiB);
    CHECK(other != 0 && other != block);
    memset(at(other), 0x33, 21 * kMiB);
    CHECK(gpupool_validate(pool) == GPUPOOL_SUCCESS);
    CHECK(report_of(pool).find("Other processes still use 21.00 MiB") != std::string::npos);
    CHECK(board_->moves(3) && board_->reaches(4));
    CHECK(gpupool_free(pool, other, 0) == GPUPOOL_SUCCESS);
    CHECK(gpupool_free(pool, neighbour, 0) == GPUPOOL_SUCCESS);
    CHECK(gpupool_empty(pool, nullptr) == GPUPOOL_SUCCESS);
    CHECK(stats_of(pool).all.reserved_bytes.current == 0);
    CHECK(gpupool_validate(pool) == GPUPOOL_SUCCESS);
    return 0;
  });
  const pid_t importer = start([&] {
    CHECK(board_->reaches(1));
    gpupool_t* const pool = make_pool();
    gpupool_ptr_t block = 0;
    uint64_t size = 0;
    CHECK(gpupool_import(pool, board_->handle, &block, &size) == GPUPOOL_SUCCESS);
    CHECK(size == 21 * kMiB && at(block)[0] == 0x11 && at(block)[size - 1] == 0x11);
    CHECK(gpupool_fill(pool, block, 0x22, size, 0) == GPUPOOL_SUCCESS);
    CHECK(gpupool_stream_synchronize(pool, 0) == GPUPOOL_SUCCESS);
    CHECK(stats_of(pool).all.reserved_bytes.current == 0);
    CHECK(board_->moves(2) && board_->reaches(3));
    CHECK(at(block)[0] == 0x22 && at(block)[size - 1] == 0x22);
    CHECK(gpupool_import_close(pool, block) == GPUPOOL_SUCCESS);
    CHECK(gpupool_import_close(pool, block) == GPUPOOL_ERROR_UNKNOWN_POINTER);
    CHECK(board_->moves(4));
    return 0;
  });
  EXPECT_EQ(end_of(importer), 0);
  EXPECT_EQ(end_of(exporter), 0);
}

TEST_P(ExportsOn, AKilledImporterKeepsNothing) {
  const pid_t importer = start([&] {
    CHECK(board_->reaches(1));
    gpupool_ptr_t block = 0;
    uint64_t size = 0;
    CHECK(gpupool_import(make_pool(), board_->handle, &block, &size) == GPUPOOL_SUCCESS);
    board_->moves(2);
    pause();
    return 0;
  });
  const pid_t exporter = start([&] {
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t block = take(pool, 2 * kMiB);
    CHECK(gpupool_export(pool, block, board_->handle, sizeof board_->handle) == GPUPOOL_SUCCESS);
    CHECK(board_->moves(1) && board_->reaches(2));
    CHECK(gpupool_free(pool, block, 0) == GPUPOOL_SUCCESS);
    kill(importer, SIGKILL);
    const uint64_t begin = now_ns();
    CHECK(soon([&] { return stats_of(pool).all.active_bytes.current == 0; }, 20'000));
    CHECK(now_ns() - begin > 2000 * kMs);  // its work may outlive it
    CHECK(gpupool_empty(pool, nullptr) == GPUPOOL_SUCCESS);
    CHECK(stats_of(pool).all.reserved_bytes.current == 0);
    return 0;
  });
  EXPECT_EQ(end_of(exporter), 0);
  EXPECT_EQ(end_of(importer), -SIGKILL);
}

TEST_P(ExportsOn, MemoryOutlivesItsExporter) {
  const pid_t exporter = start([&] {
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t block = take(pool, 6 * kMiB);
    memset(at(block), 0x44, 6 * kMiB);
    CHECK(gpupool_export(pool, block, board_->handle, sizeof board_->handle) == GPUPOOL_SUCCESS);
    board_->moves(1);
    pause();
    return 0;
  });
  ASSERT_TRUE(board_->reaches(1));
  const pid_t importer = start([&] {
    gpupool_t* const pool = make_pool();
    gpupool_ptr_t block = 0, again = 0, late = 0;
    uint64_t size = 0;
    CHECK(gpupool_import(pool, board_->handle, &block, &size) == GPUPOOL_SUCCESS);
    board_->moves(2);
    CHECK(board_->reaches(3));
    CHECK(at(block)[0] == 0x44 && at(block)[size - 1] == 0x44);
    CHECK(gpupool_import(pool, board_->handle, &again, &size) == GPUPOOL_SUCCESS && again == block);
    CHECK(gpupool_import(make_pool(), board_->handle, &late, &size) == GPUPOOL_ERROR_UNAVAILABLE);
    CHECK(message().find("has ended") != std::string::npos && late == 0 && size == 0);
    CHECK(gpupool_import_close(pool, block) == GPUPOOL_SUCCESS);
    CHECK(at(block)[0] == 0x44);  // one import is left
    CHECK(gpupool_import_close(pool, block) == GPUPOOL_SUCCESS);
    CHECK(gpupool_destroy(pool) == GPUPOOL_SUCCESS);
    return 0;
  });
  ASSERT_TRUE(board_->reaches(2));
  kill(exporter, SIGKILL);
  EXPECT_EQ(end_of(exporter), -SIGKILL);
  board_->moves(3);
  EXPECT_EQ(end_of(importer), 0);
}

TEST_P(ExportsOn, APoolMayEndWhileOthersUseItsMemory) {
  const pid_t exporter = start([&] {
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t block = take(pool, 6 * kMiB);
    memset(at(block), 0x55, 6 * kMiB);
    CHECK(gpupool_export(pool, block, board_->handle, sizeof board_->handle) == GPUPOOL_SUCCESS);
    CHECK(board_->moves(1) && board_->reaches(2));
    CHECK(gpupool_free(pool, block, 0) == GPUPOOL_SUCCESS);
    CHECK(gpupool_destroy(pool) == GPUPOOL_SUCCESS);
    gpupool_t* const next = make_pool();
    const gpupool_ptr_t other = take(next, 6 * kMiB);
    memset(at(other), 0x66, 6 * kMiB);
    CHECK(board_->moves(3) && board_->reaches(4));
    return 0;
  });
  const pid_t importer = start([&] {
    CHECK(board_->reaches(1));
    gpupool_t* const pool = make_pool();
    gpupool_ptr_t block = 0;
    uint64_t size = 0;
    CHECK(gpupool_import(pool, board_->handle, &block, &size) == GPUPOOL_SUCCESS);
    CHECK(board_->moves(2) && board_->reaches(3));
    CHECK(at(block)[0] == 0x55 && at(block)[size - 1] == 0x55);
    CHECK(gpupool_destroy(pool) == GPUPOOL_SUCCESS);  // closes the import
    CHECK(board_->moves(4));
    return 0;
  });
  EXPECT_EQ(end_of(importer), 0);
  EXPECT_EQ(end_of(exporter), 0);
}

TEST_P(ExportsOn, AThousandLeaveNothing) {
  in_child([&] {
    gpupool_t* const pool = make_pool();
    gpupool_t* const other = make_pool();
    size_t descriptors = 0, mappings = 0;
    for (int i = 0; i < 1000; ++i) {
      const gpupool_ptr_t block = take(pool, kMiB);
      gpupool_ptr_t there = 0;
      uint64_t size = 0;
      char handle[GPUPOOL_EXPORT_BYTES];
      CHECK(gpupool_export(pool, block, handle, sizeof handle) == GPUPOOL_SUCCESS);
      CHECK(gpupool_import(other, handle, &there, &size) == GPUPOOL_SUCCESS);
      at(block)[i] = static_cast<unsigned char>(i);
      CHECK(at(there)[i] == static_cast<unsigned char>(i));
      CHECK(gpupool_free(pool, block, 0) == GPUPOOL_SUCCESS);
      CHECK(gpupool_import_close(other, there) == GPUPOOL_SUCCESS);
      if (i == 10) {
        descriptors = open_descriptors();
        mappings = count_mappings();
      }
    }
    CHECK(open_descriptors() <= descriptors + 2 && count_mappings() <= mappings + 4);
    CHECK(stats_of(pool).all.reserved_bytes.current <= 4 * kMiB);
    CHECK(gpupool_validate(pool) == GPUPOOL_SUCCESS);
    CHECK(gpupool_destroy(pool) == GPUPOOL_SUCCESS);
    CHECK(gpupool_destroy(other) == GPUPOOL_SUCCESS);
    return 0;
  });
}

TEST_F(ExportsTest, AHandleIsGoodOnlyWhileItsBlockLives) {
  in_child([&] {
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t block = take(pool, kMiB);
    char old[GPUPOOL_EXPORT_BYTES], again[GPUPOOL_EXPORT_BYTES], next[GPUPOOL_EXPORT_BYTES];
    CHECK(gpupool_export(pool, block, old, sizeof old) == GPUPOOL_SUCCESS);
    CHECK(gpupool_export(pool, block, again, sizeof again) == GPUPOOL_SUCCESS);
    CHECK(strcmp(old, again) == 0);
    const size_t descriptors = open_descriptors();
    CHECK(gpupool_free(pool, block, 0) == GPUPOOL_SUCCESS);
    gpupool_ptr_t there = 1;
    uint64_t size = 1;
    CHECK(gpupool_import(pool, old, &there, &size) == GPUPOOL_ERROR_UNAVAILABLE);
    CHECK(message().find("has freed the block") != std::string::npos && there == 0 && size == 0);
    // The next export has the same descriptors.
    CHECK(take(pool, kMiB) == block);
    CHECK(gpupool_export(pool, block, next, sizeof next) == GPUPOOL_SUCCESS);
    CHECK(open_descriptors() == descriptors && strcmp(old, next) != 0);
    CHECK(strncmp(old, next, strlen(old) - 32) == 0);
    CHECK(gpupool_import(pool, old, &there, &size) == GPUPOOL_ERROR_UNAVAILABLE);
    CHECK(message().find("is another one by now") != std::string::npos);
    CHECK(gpupool_import(pool, next, &there, &size) == GPUPOOL_SUCCESS);
    return 0;
  });
}

TEST_F(ExportsTest, WhatIsNoHandleIsRefused) {
  in_child([&] {
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t block = take(pool, kMiB);
    char handle[GPUPOOL_EXPORT_BYTES];
    CHECK(gpupool_export(pool, block, handle, sizeof handle) == GPUPOOL_SUCCESS);
    const size_t descriptors = open_descriptors();
    const size_t mappings = count_mappings();
    const auto refused = [&](const std::string& bad, gpupool_status_t status) {
      gpupool_ptr_t there = 1;
      uint64_t size = 1;
      return gpupool_import(pool, bad.c_str(), &there, &size) == status && there == 0 && size == 0;
    };
    const std::string good = handle;
    for (size_t length = 0; length < good.size(); ++length) {
      CHECK(refused(good.substr(0, length), GPUPOOL_ERROR_INVALID_ARGUMENT));
    }
    CHECK(refused(good + "0", GPUPOOL_ERROR_INVALID_ARGUMENT));
    CHECK(refused(std::string(10'000, 'x'), GPUPOOL_ERROR_INVALID_ARGUMENT));
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = bad[i] == '1' ? '2' : '1';
      const bool is_refused =
          refused(bad, GPUPOOL_ERROR_INVALID_ARGUMENT) || refused(bad, GPUPOOL_ERROR_UNAVAILABLE);
      if (!is_refused) std::fprintf(stderr, "accepted: %s\n", bad.c_str());
      CHECK(is_refused);
    }
    std::string elsewhere = good;
    elsewhere[good.rfind(':') - 1] = '1';  // sim-0
    CHECK(refused(elsewhere, GPUPOOL_ERROR_INVALID_ARGUMENT));
    CHECK(message() == "the block is on device sim-1, and the pool on sim-0");
    CHECK(open_descriptors() == descriptors && count_mappings() == mappings);
    return 0;
  });
}

TEST_F(ExportsTest, WhatCannotBeExportedIsRefused) {
  in_child([&] {
    char handle[GPUPOOL_EXPORT_BYTES] = "before";
    gpupool_ptr_t there = 0;
    uint64_t size = 0;
    const auto refused = [&](gpupool_t* pool, gpupool_ptr_t ptr, gpupool_status_t status) {
      memcpy(handle, "before", 7);
      return gpupool_export(pool, ptr, handle, sizeof handle) == status && handle[0] == '\0';
    };
    gpupool_t* const driver = make_pool(GPUPOOL_MODE_DRIVER);
    CHECK(refused(driver, take(driver, kMiB), GPUPOOL_ERROR_UNSUPPORTED));
    CHECK(gpupool_import(driver, "x", &there, &size) == GPUPOOL_ERROR_UNSUPPORTED);
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t block = take(pool, kMiB);
    CHECK(refused(pool, block + 512, GPUPOOL_ERROR_UNKNOWN_POINTER));
    CHECK(refused(pool, 0, GPUPOOL_ERROR_UNKNOWN_POINTER));
    CHECK(gpupool_export(pool, block, handle, sizeof handle - 1) == GPUPOOL_ERROR_INVALID_ARGUMENT);
    CHECK(gpupool_set_debug("canary") == GPUPOOL_SUCCESS);
    gpupool_t* const debugged = make_pool();
    CHECK(gpupool_set_debug("") == GPUPOOL_SUCCESS);
    CHECK(refused(debugged, take(debugged, kMiB), GPUPOOL_ERROR_UNSUPPORTED));
    gpupool_sim_config_t config{};
    config.struct_size = sizeof config;
    config.data = 2;
    CHECK(gpupool_sim_configure(1, &config) == GPUPOOL_SUCCESS);
    gpupool_t* const empty = make_pool(GPUPOOL_MODE_VMM, 1);
    CHECK(refused(empty, take(empty, kMiB), GPUPOOL_ERROR_UNSUPPORTED));
    CHECK(gpupool_validate(empty) == GPUPOOL_SUCCESS);
    return 0;
  });
}

TEST_F(ExportsTest, WhereNoFileMayBeSoLargeTheExportIsRefusedWithoutASignal) {
  in_child([&] {
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t block = take(pool, kMiB);
    const rlimit limit{16, 16};
    CHECK(block != 0 && setrlimit(RLIMIT_FSIZE, &limit) == 0);
    char handle[GPUPOOL_EXPORT_BYTES];
    CHECK(gpupool_export(pool, block, handle, sizeof handle) == GPUPOOL_ERROR_UNAVAILABLE);
    CHECK(message().find("File too large") != std::string::npos);
    return 0;
  });
}

TEST_F(ExportsTest, APoolWithExportsStaysAwake) {
  in_child([&] {
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t block = take(pool, kMiB), other = take(pool, kMiB);
    char handle[GPUPOOL_EXPORT_BYTES];
    CHECK(gpupool_export(pool, block, handle, sizeof handle) == GPUPOOL_SUCCESS);
    CHECK(gpupool_sleep(pool, nullptr, nullptr) == GPUPOOL_ERROR_UNAVAILABLE);
    CHECK(message().find("exported blocks cannot sleep") != std::string::npos);
    CHECK(gpupool_free(pool, block, 0) == GPUPOOL_SUCCESS);
    const gpupool_ptr_t large = take(pool, 8 * kMiB);
    CHECK(gpupool_sleep_block(pool, large, nullptr, nullptr) == GPUPOOL_SUCCESS);
    CHECK(gpupool_export(pool, large, handle, sizeof handle) == GPUPOOL_ERROR_UNAVAILABLE);
    CHECK(gpupool_wake_block(pool, large, nullptr, nullptr) == GPUPOOL_SUCCESS);
    CHECK(gpupool_export(pool, large, handle, sizeof handle) == GPUPOOL_SUCCESS);
    CHECK(gpupool_sleep_block(pool, large, nullptr, nullptr) == GPUPOOL_ERROR_UNAVAILABLE);
    CHECK(gpupool_free(pool, large, 0) == GPUPOOL_SUCCESS);
    CHECK(gpupool_sleep(pool, nullptr, nullptr) == GPUPOOL_SUCCESS);
    CHECK(gpupool_export(pool, other, handle, sizeof handle) == GPUPOOL_ERROR_ASLEEP);
    CHECK(gpupool_wake(pool, nullptr, nullptr) == GPUPOOL_SUCCESS);
    CHECK(gpupool_export(pool, other, handle, sizeof handle) == GPUPOOL_SUCCESS);
    return 0;
  });
}

TEST_F(ExportsTest, ACaptureIsNotDisturbed) {
  in_child([&] {
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t block = take(pool, kMiB);
    CHECK(gpupool_stream_synchronize(pool, 5) == GPUPOOL_SUCCESS);
    gpupool_ptr_t held = 0, there = 0;
    uint64_t size = 0;
    CHECK(gpupool_malloc(pool, kMiB, 5, &held) == GPUPOOL_SUCCESS);
    CHECK(gpupool_sim_capture(0, 5, 1) == GPUPOOL_SUCCESS);
    char handle[GPUPOOL_EXPORT_BYTES];
    CHECK(gpupool_export(pool, block, handle, sizeof handle) == GPUPOOL_SUCCESS);
    CHECK(gpupool_import(pool, handle, &there, &size) == GPUPOOL_SUCCESS);
    CHECK(gpupool_import_close(pool, there) == GPUPOOL_SUCCESS);
    CHECK(gpupool_sim_capture(0, 5, 0) == GPUPOOL_SUCCESS);
    CHECK(count_faults() == 0);
    return 0;
  });
}

TEST_F(ExportsTest, AFailureOfTheDeviceChangesNothing) {
  in_child([&] {
    gpupool_t* const pool = make_pool();
    gpupool_t* const other = make_pool();
    const gpupool_ptr_t block = take(pool, 40 * kMiB);
    char handle[GPUPOOL_EXPORT_BYTES];
    gpupool_ptr_t there = 0;
    uint64_t size = 0;
    for (const char* script : {"share:1", "share:2", "share:3"}) {
      const size_t descriptors = open_descriptors();
      CHECK(gpupool_sim_script(0, script) == GPUPOOL_SUCCESS);
      CHECK(gpupool_export(pool, block, handle, sizeof handle) == GPUPOOL_ERROR_DRIVER);
      CHECK(open_descriptors() == descriptors);
    }
    CHECK(gpupool_sim_script(0, "") == GPUPOOL_SUCCESS);
    CHECK(gpupool_export(pool, block, handle, sizeof handle) == GPUPOOL_SUCCESS);
    for (const char* script : {"share:1", "share:3", "map:1", "map:2", "set_access:1", "address:1"}) {
      const size_t descriptors = open_descriptors();
      CHECK(gpupool_sim_script(0, script) == GPUPOOL_SUCCESS);
      CHECK(gpupool_import(other, handle, &there, &size) == GPUPOOL_ERROR_DRIVER);
      CHECK(there == 0 && size == 0 && open_descriptors() == descriptors);
    }
    CHECK(gpupool_sim_script(0, "") == GPUPOOL_SUCCESS);
    CHECK(gpupool_import(other, handle, &there, &size) == GPUPOOL_SUCCESS);
    CHECK(gpupool_sim_script(0, "unmap:1,host_wait:2") == GPUPOOL_SUCCESS);
    for (int i = 0; i < 2; ++i) {
      CHECK(gpupool_import_close(other, there) == GPUPOOL_ERROR_DRIVER);
      at(there)[0] = 1;  // still mapped
    }
    CHECK(gpupool_import_close(other, there) == GPUPOOL_SUCCESS);
    CHECK(count_faults() == 0);
    return 0;
  });
}

TEST_F(ExportsTest, AForkedChildHasNoneOfIt) {
  in_child([&] {
    gpupool_t* const pool = make_pool();
    gpupool_t* const other = make_pool();
    const gpupool_ptr_t block = take(pool, kMiB);
    at(block)[0] = 1;
    char handle[GPUPOOL_EXPORT_BYTES];
    gpupool_ptr_t there = 0;
    uint64_t size = 0;
    CHECK(gpupool_export(pool, block, handle, sizeof handle) == GPUPOOL_SUCCESS);
    CHECK(gpupool_import(other, handle, &there, &size) == GPUPOOL_SUCCESS);
    const pid_t child = start([&] {
      gpupool_ptr_t ptr = 0;
      CHECK(gpupool_export(pool, block, handle, sizeof handle) == GPUPOOL_ERROR_FORKED);
      CHECK(gpupool_import(other, handle, &ptr, &size) == GPUPOOL_ERROR_FORKED);
      CHECK(gpupool_import_close(other, there) == GPUPOOL_ERROR_FORKED);
      board_->moves(1);
      pause();
      return 0;
    });
    CHECK(board_->reaches(1));
    // The child keeps nothing of it in use.
    CHECK(gpupool_import_close(other, there) == GPUPOOL_SUCCESS);
    CHECK(gpupool_free(pool, block, 0) == GPUPOOL_SUCCESS);
    CHECK(stats_of(pool).all.active_bytes.current == 0);
    kill(child, SIGKILL);
    end_of(child);
    return 0;
  });
}

TEST_F(ExportsTest, AnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const pid_t exporter = start([&] {
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t block = take(pool, kMiB);
    CHECK(gpupool_export(pool, block, board_->handle, sizeof board_->handle) == GPUPOOL_SUCCESS);
    board_->moves(1);
    pause();
    return 0;
  });
  ASSERT_TRUE(board_->reaches(1));
  in_child([&] {
    CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    gpupool_ptr_t there = 0;
    uint64_t size = 0;
    CHECK(gpupool_import(make_pool(), board_->handle, &there, &size) == GPUPOOL_ERROR_UNAVAILABLE);
    CHECK(message().find("the system forbids") != std::string::npos);
    return 0;
  });
  kill(exporter, SIGKILL);
  end_of(exporter);
}

/// An exporter and importers that are killed at any moment: the exporter's own pool stays whole, and gets all
/// its memory back.
TEST_F(ExportsTest, ImportersMayBeKilledAtAnyMoment) {
  const pid_t exporter = start([&] {
    gpupool_t* const pool = make_pool();
    while (board_->step.load() < 2) {
      const gpupool_ptr_t block = take(pool, 3 * kMiB);
      CHECK(block != 0);
      char handle[GPUPOOL_EXPORT_BYTES];
      CHECK(gpupool_export(pool, block, handle, sizeof handle) == GPUPOOL_SUCCESS);
      memcpy(board_->handle, handle, sizeof handle);
      board_->step.store(std::max(board_->step.load(), 1));
      usleep(300);
      CHECK(gpupool_free(pool, block, 0) == GPUPOOL_SUCCESS);
      CHECK(gpupool_validate(pool) == GPUPOOL_SUCCESS);
      if (stats_of(pool).all.active_bytes.current > 600 * kMiB) usleep(50'000);
    }
    CHECK(soon([&] { return stats_of(pool).all.active_bytes.current == 0; }, 20'000));
    CHECK(gpupool_empty(pool, nullptr) == GPUPOOL_SUCCESS);
    CHECK(stats_of(pool).all.reserved_bytes.current == 0);
    CHECK(open_descriptors() < 30);
    return 0;
  });
  ASSERT_TRUE(board_->reaches(1));
  for (int round = 0; round < 40; ++round) {
    const pid_t importer = start([&] {
      gpupool_t* const pool = make_pool();
      for (;;) {
        gpupool_ptr_t there = 0;
        uint64_t size = 0;
        if (gpupool_import(pool, board_->handle, &there, &size) != GPUPOOL_SUCCESS) continue;
        at(there)[0] = 1;
        CHECK(gpupool_import_close(pool, there) == GPUPOOL_SUCCESS);
      }
      return 0;
    });
    usleep(static_cast<useconds_t>(1000 + round * 777 % 9000));
    kill(importer, SIGKILL);
    EXPECT_EQ(end_of(importer), -SIGKILL);
  }
  board_->step.store(2);
  EXPECT_EQ(end_of(exporter), 0);
}

TEST_F(ExportsTest, ThreadsImportOneBlock) {
  in_child([&] {
    gpupool_t* const pool = make_pool();
    gpupool_t* const other = make_pool();
    const gpupool_ptr_t block = take(pool, kMiB);
    char handle[GPUPOOL_EXPORT_BYTES];
    CHECK(gpupool_export(pool, block, handle, sizeof handle) == GPUPOOL_SUCCESS);
    std::atomic<int> bad{0};
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) {
          gpupool_ptr_t there = 0;
          uint64_t size = 0;
          if (gpupool_import(other, handle, &there, &size) != GPUPOOL_SUCCESS) ++bad;
          at(there)[t] = 1;
          if (gpupool_import_close(other, there) != GPUPOOL_SUCCESS) ++bad;
        }
      });
    }
    for (std::thread& each : threads) each.join();
    CHECK(bad == 0);
    CHECK(gpupool_free(pool, block, 0) == GPUPOOL_SUCCESS);
    CHECK(stats_of(pool).all.active_bytes.current == 0);
    return 0;
  });
}

}  // namespace
}  // namespace gpupool::internal::share
