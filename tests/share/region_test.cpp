// SPDX-License-Identifier: Apache-2.0
// Regions that cannot be used: each is refused with its reason, and nothing else happens.
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>

#include "share_fixture.hpp"

namespace gpupool::internal::share {
namespace {

class RegionTest : public ShareTest {
 protected:
  /// Writes over what a region's header says.
  template <typename Field>
  void overwrite(size_t offset, Field value) const {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void expect_refused(const char* reason) const {
    std::shared_ptr<Member> member;
    EXPECT_EQ(share::join(place_, ~uint64_t{0}, std::make_unique<TestOwner>(), member),
              GPUPOOL_ERROR_UNAVAILABLE);
    EXPECT_EQ(member, nullptr);
    EXPECT_NE(std::string(last_error().message).find(reason), std::string::npos) << last_error().message;
  }
};

TEST_F(RegionTest, IsMadeWholeAndOnlyForItsUser) {
  const auto member = join();
  struct stat found {};
  ASSERT_EQ(stat(path().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600U);
  EXPECT_EQ(static_cast<size_t>(found.st_size), kRegionBytes);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  EXPECT_EQ(standing().limit, kTotal);
}

TEST_F(RegionTest, TheDefaultFolderIsTheUsersAlone) {
  place_.folder.clear();
  place_.group = "test-" + std::to_string(getpid());
  {
    const auto member = join();
    struct stat found {};
    const std::string own = "/dev/shm/gpupool-" + std::to_string(geteuid());
    ASSERT_EQ(lstat(own.c_str(), &found), 0);
    EXPECT_TRUE(S_ISDIR(found.st_mode));
    EXPECT_EQ(found.st_mode & 0777, 0700U);
  }
  std::filesystem::remove(path());
}

TEST_F(RegionTest, F12_TruncatedIsRefused) {
  join();
  ASSERT_EQ(truncate(path().c_str(), 100), 0);
  expect_refused("has 100 bytes, not");
  ASSERT_EQ(truncate(path().c_str(), 0), 0);
  expect_refused("has 0 bytes, not");
}

TEST_F(RegionTest, ForeignIsRefused) {
  join();
  overwrite(0, 'X');
  expect_refused("is no region of gpupool");
}

TEST_F(RegionTest, F12_OlderAndNewerLayoutsAreRefused) {
  join();
  overwrite(offsetof(wire::region::Begin, major), wire::region::kMajor + 1);
  expect_refused("has layout 2, and this version of gpupool knows 1");
  overwrite(offsetof(wire::region::Begin, major), wire::region::kMajor - 1);
  expect_refused("has layout 0");
}

TEST_F(RegionTest, ANewerMinorVersionIsUsed) {
  join();
  overwrite(offsetof(wire::region::Begin, minor), wire::region::kMinor + 7);
  EXPECT_NE(join(), nullptr);
}

TEST_F(RegionTest, OtherSizesOfSlotsAreRefused) {
  join();
  overwrite(offsetof(wire::region::Begin, slot_bytes), uint32_t{512});
  expect_refused("has another layout than its version says");
}

TEST_F(RegionTest, AnotherDevicesRegionIsRefused) {
  join();
  overwrite(offsetof(wire::region::Begin, device), 'X');
  expect_refused("is of another device");
}

TEST_F(RegionTest, LinksAreNotFollowed) {
  join();
  const std::string there = path();
  std::filesystem::rename(there, there + ".moved");
  std::filesystem::create_symlink(there + ".moved", there);
  expect_refused("opening it");
  std::filesystem::create_directory_symlink(folder_, folder_ + ".link");
  place_.folder = folder_ + ".link";
  expect_refused("opening the folder");
  std::filesystem::remove(folder_ + ".link");
}

TEST_F(RegionTest, WhatOthersMayUseIsRefused) {
  join();
  ASSERT_EQ(chmod(path().c_str(), 0666), 0);
  expect_refused("may be used by others");
  std::filesystem::remove(path());
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  expect_refused("everybody may write to");
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
}

TEST_F(RegionTest, AnythingButAFileIsRefused) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  expect_refused("is no file");
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  expect_refused("opening it");
}

TEST_F(RegionTest, AMissingFolderIsNotMade) {
  place_.folder = folder_ + "/none";
  expect_refused("opening the folder");
}

TEST_F(RegionTest, AFileThatMayNotBeSoLargeIsRefusedWithoutASignal) {
  const pid_t child = start([&] {
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::shared_ptr<Member> member;
    const bool is_refused =
        share::join(place_, ~uint64_t{0}, std::make_unique<TestOwner>(), member) == GPUPOOL_ERROR_UNAVAILABLE;
    return is_refused && strstr(last_error().message, "RLIMIT_FSIZE") != nullptr ? 0 : 1;
  });
  EXPECT_EQ(end_of(child), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "part of a region was left";
}

/// A filesystem without room: /dev/full would do if it could be mapped, so a small one is mounted.
TEST_F(RegionTest, AFullFilesystemIsRefusedAndLeavesNothing) {
  const std::string small = folder_ + "/small";
  std::filesystem::create_directory(small);
  const std::string command = "mount -t tmpfs -o size=16k,mode=0700 tmpfs " + small + " 2>/dev/null";
  if (std::system(command.c_str()) != 0) GTEST_SKIP() << "no filesystem may be mounted here";
  place_.folder = small;
  expect_refused("room for it");
  EXPECT_TRUE(std::filesystem::is_empty(small));
  ASSERT_EQ(std::system(("umount " + small).c_str()), 0);
}

TEST_F(RegionTest, NamesOfGroupsAreChecked) {
  for (const char* good : {"team", "a", "A.b-c_9", "123456789012345678901234567890123456789012345678"}) {
    EXPECT_EQ(check_group("share", good), kSuccess) << good;
  }
  for (const char* bad : {"", ".x", "..", "a/b", "a b", "\xc3\xa4", "a\n",
                          "1234567890123456789012345678901234567890123456789"}) {
    EXPECT_EQ(check_group("share", bad), GPUPOOL_ERROR_INVALID_ARGUMENT) << bad;
  }
}

TEST_F(RegionTest, ManyWhoComeAtOnceShareOne) {
  Common<std::atomic<int>> go;
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    children.push_back(start([&] {
      while (go->load() == 0) usleep(100);
      const auto member = join();
      return member != nullptr && member->charge(kGiB) ? pause() : 1;
    }));
  }
  go->store(1);
  for (int i = 0; i < 500 && (!std::filesystem::exists(path()) || used() != 16 * kGiB); ++i) usleep(10'000);
  EXPECT_EQ(used(), 16 * kGiB);
  EXPECT_EQ(members().size(), 16U);
  for (const pid_t child : children) kill(child, SIGKILL);
  for (const pid_t child : children) end_of(child);
  EXPECT_EQ(used_after_repair(), 0U);
}

}  // namespace
}  // namespace gpupool::internal::share
