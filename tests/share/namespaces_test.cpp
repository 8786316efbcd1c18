// SPDX-License-Identifier: Apache-2.0
// Members in namespaces of their own, as in containers that mount one folder: each has the number 1 there, or
// whatever another process has here.
#include <sched.h>
#include <string.h>
#include <sys/mount.h>

#include <string>
#include <vector>

#include "exports_fixture.hpp"
#include "pools_fixture.hpp"

namespace gpupool::internal::share {
namespace {

/// A process in PID and mount namespaces of its own.
struct Container {
  pid_t outside = 0;  // starts it, and ends as it does
  pid_t inside = 0;   // as the test's namespace numbers it
};

/// Enters namespaces for this process's mounts and its children; where only root may, as root of a user
/// namespace.
bool enter_namespaces() {
  constexpr int kOwn = CLONE_NEWPID | CLONE_NEWNS;
  return unshare(kOwn) == 0 || unshare(CLONE_NEWUSER | kOwn) == 0;
}

/// Sees its own namespace's processes in /proc, as a container does.
bool mount_proc() {
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("proc", "/proc", "proc", 0, nullptr) == 0;
}

template <typename Base>
class InNamespaces : public Base {
 protected:
  void SetUp() override {
    const pid_t child = this->start([] {
      if (!enter_namespaces()) return 1;
      const pid_t inner = fork();
      if (inner == 0) _exit(mount_proc() && getpid() == 1 ? 0 : 1);
      return Base::end_of(inner);
    });
    if (this->end_of(child) != 0) GTEST_SKIP() << "the system allows no namespaces here";
  }

  template <typename Work>
  Container start_inside(Work work) {
    Common<std::atomic<pid_t>> inside;
    Container container;
    container.outside = this->start([&] {
      if (!enter_namespaces()) return 97;
      const pid_t inner = fork();
      if (inner == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        _exit(mount_proc() ? work() : 98);
      }
      *inside = inner;
      const int result = Base::end_of(inner);
      return result < 0 ? 99 : result;
    });
    EXPECT_TRUE(soon([&] { return *inside != 0; }));
    container.inside = *inside;
    return container;
  }
  /// Kills it; its memory and its locks are gone afterwards.
  void end_inside(const Container& container) {
    kill(container.inside, SIGKILL);
    EXPECT_EQ(this->end_of(container.outside), 99);
  }
};

class PoolsInNamespaces : public InNamespaces<PoolsTest> {
 protected:
  Container start_hoarder_inside(uint64_t bytes, bool is_live) {
    return start_inside([=, this] {
      gpupool_t* const pool = make_pool();
      const gpupool_ptr_t block = take(pool, bytes);
      if (block == 0 || getpid() != 1) return 1;
      if (!is_live) gpupool_free(pool, block, 0);
      ++board_->step;
      pause();
      return 0;
    });
  }
};

/// Two that have the same number, and a third outside: none takes another's place, and each is seen to live.
TEST_F(PoolsInNamespaces, F11_MembersOfTheSameNumberLiveSideBySide) {
  const Container first = start_hoarder_inside(2 * kGiB, true);
  ASSERT_TRUE(board_->reaches(1));
  const Container second = start_hoarder_inside(3 * kGiB, true);
  ASSERT_TRUE(board_->reaches(2));
  const auto all = members();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].pid, 1U);
  EXPECT_EQ(all[1].pid, 1U);
  for (const Neighbour& each : all) EXPECT_FALSE(each.is_dead);
  EXPECT_EQ(standing().limbo, 0U);
  EXPECT_EQ(used_after_repair(), 5 * kGiB) << "a living member was taken for dead";
  // The death of one says nothing of the other.
  end_inside(first);
  EXPECT_EQ(used_after_repair(), 3 * kGiB);
  end_inside(second);
  EXPECT_EQ(used_after_repair(), 0U);
}

TEST_F(PoolsInNamespaces, F11_CachedMemoryCrossesThem) {
  const Container hoarder = start_hoarder_inside(7 * kGiB, false);
  ASSERT_TRUE(board_->reaches(1));
  const Container needy = start_inside([&] {
    gpupool_t* const pool = make_pool();
    return take(pool, 6 * kGiB) != 0 && stats_of(pool).share_taken_bytes >= 5 * kGiB ? 0 : 1;
  });
  EXPECT_EQ(end_of(needy.outside), 0);
  end_inside(hoarder);
  EXPECT_EQ(used_after_repair(), 0U);
}

/// A member inside finds that one outside was killed, and the other way round.
TEST_F(PoolsInNamespaces, F11_WhatTheKilledHadComesBackAcrossThem) {
  const pid_t outside = start_hoarder(7 * kGiB, true);
  ASSERT_TRUE(board_->reaches(1));
  const Container needy = start_inside([&] {
    gpupool_t* const pool = make_pool();
    ++board_->step;
    if (!board_->reaches(3) || take(pool, 6 * kGiB) == 0) return 1;
    ++board_->step;
    pause();
    return 0;
  });
  ASSERT_TRUE(board_->reaches(2));
  end(outside);
  ++board_->step;
  ASSERT_TRUE(board_->reaches(4));
  end_inside(needy);
  const pid_t late = start([&] { return take(make_pool(), 6 * kGiB) != 0 ? 0 : 1; });
  EXPECT_EQ(end_of(late), 0);
  EXPECT_EQ(used_after_repair(), 0U);
}

class ExportsInNamespaces : public InNamespaces<ExportsTest> {
 protected:
  /// Exports a block, and stays.
  int be_exporter() const {
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t block = take(pool, 2 * kMiB);
    CHECK(block != 0);
    memset(at(block), 0x55, 2 * kMiB);
    CHECK(gpupool_export(pool, block, board_->handle, sizeof board_->handle) == GPUPOOL_SUCCESS);
    board_->moves(1);
    CHECK(board_->reaches(2));
    return 0;
  }
  int be_importer() const {
    gpupool_ptr_t block = 0;
    uint64_t size = 0;
    CHECK(gpupool_import(make_pool(), board_->handle, &block, &size) == GPUPOOL_SUCCESS);
    CHECK(size == 2 * kMiB && at(block)[0] == 0x55 && at(block)[size - 1] == 0x55);
    return 0;
  }
  int be_refused() const {
    gpupool_ptr_t block = 1;
    uint64_t size = 1;
    CHECK(gpupool_import(make_pool(), board_->handle, &block, &size) == GPUPOOL_ERROR_UNAVAILABLE);
    CHECK(block == 0 && size == 0);
    CHECK(message().find("is in a PID namespace that this process does not see") != std::string::npos);
    return 0;
  }
};

TEST_F(ExportsInNamespaces, F11_TheHostImportsWhatAContainerExports) {
  const Container exporter = start_inside([&] { return be_exporter(); });
  ASSERT_TRUE(board_->reaches(1));
  in_child([&] { return be_importer(); });
  board_->moves(2);
  EXPECT_EQ(end_of(exporter.outside), 0);
}

TEST_F(ExportsInNamespaces, F11_OfTwoExportersOfOneNumberTheRightOneIsFound) {
  Common<ExportBoard> other;
  const Container first = start_inside([&] { return be_exporter(); });
  ASSERT_TRUE(board_->reaches(1));
  const Container second = start_inside([&] {
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t block = take(pool, kMiB);
    memset(at(block), 0x66, kMiB);
    CHECK(gpupool_export(pool, block, other->handle, sizeof other->handle) == GPUPOOL_SUCCESS);
    CHECK(other->moves(1) && board_->reaches(2));
    return 0;
  });
  ASSERT_TRUE(other->reaches(1));
  in_child([&] { return be_importer(); });
  in_child([&] {
    gpupool_ptr_t block = 0;
    uint64_t size = 0;
    CHECK(gpupool_import(make_pool(), other->handle, &block, &size) == GPUPOOL_SUCCESS);
    CHECK(size == kMiB && at(block)[0] == 0x66);
    return 0;
  });
  board_->moves(2);
  EXPECT_EQ(end_of(first.outside), 0);
  EXPECT_EQ(end_of(second.outside), 0);
}

/// The importer has a process of that number, which is another one, and is left alone.
TEST_F(ExportsInNamespaces, F11_AnExporterThatCannotBeSeenIsRefusedByItsReason) {
  const pid_t exporter = start([&] { return be_exporter(); });
  ASSERT_TRUE(board_->reaches(1));
  EXPECT_EQ(end_of(start_inside([&] { return be_refused(); }).outside), 0);
  board_->moves(2);
  EXPECT_EQ(end_of(exporter), 0);

  board_->moves(0);
  const Container neighbour = start_inside([&] { return be_exporter(); });
  ASSERT_TRUE(board_->reaches(1));
  EXPECT_EQ(end_of(start_inside([&] { return be_refused(); }).outside), 0);
  board_->moves(2);
  EXPECT_EQ(end_of(neighbour.outside), 0);
}

TEST_F(ExportsInNamespaces, F11_AnExporterThatHasEndedIsGone) {
  const Container exporter = start_inside([&] { return be_exporter(); });
  ASSERT_TRUE(board_->reaches(1));
  end_inside(exporter);
  in_child([&] { return be_refused(); });
}

}  // namespace
}  // namespace gpupool::internal::share
