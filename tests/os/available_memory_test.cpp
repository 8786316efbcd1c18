// SPDX-License-Identifier: Apache-2.0
// How much of the host's memory a process may have, in made-up trees of the system's files.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "base/bits.hpp"
#include "os/host_memory.hpp"
#include "support/own_folder.hpp"

namespace gpupool::internal {
namespace {

class HostMemory : public testing::Test {
 protected:
  void SetUp() override {
    write("/proc/meminfo", "MemTotal: 67108864 kB\nMemFree: 1024 kB\nMemAvailable: 33554432 kB\n");
  }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path whole = root() + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }

  /// Mounts groups as systemd does.
  void mount(const std::string& type, const std::string& at, const std::string& options,
             const std::string& root_of_groups = "/") const {
    write("/proc/self/mountinfo", "24 30 0:22 / /proc rw,nosuid - proc proc rw\n31 30 0:27 " +
                                      root_of_groups + " " + at + " rw,nosuid shared:9 - " + type + " " +
                                      type + " " + options + "\n");
  }

  void write_v2(const std::string& group, const std::string& max, const std::string& high,
                const std::string& current, const std::string& inactive = "0") const {
    write("/sys/fs/cgroup" + group + "/memory.max", max + "\n");
    write("/sys/fs/cgroup" + group + "/memory.high", high + "\n");
    write("/sys/fs/cgroup" + group + "/memory.current", current + "\n");
    write("/sys/fs/cgroup" + group + "/memory.stat", "anon 7\ninactive_file " + inactive + "\nslab 3\n");
  }

  void write_v1(const std::string& group, uint64_t limit, uint64_t usage, uint64_t inactive) const {
    const std::string folder = "/sys/fs/cgroup/memory" + group;
    write(folder + "/memory.limit_in_bytes", std::to_string(limit) + "\n");
    write(folder + "/memory.usage_in_bytes", std::to_string(usage) + "\n");
    write(folder + "/memory.stat",
          "cache 1\ninactive_file 0\ntotal_inactive_file " + std::to_string(inactive) + "\n");
  }

  os::HostMemory read() const {
    os::HostMemory memory;
    EXPECT_TRUE(os::read_host_memory(memory, root().c_str()));
    return memory;
  }

  std::string root() const { return folder_.path().string(); }

 private:
  OwnFolder folder_;
};

TEST_F(HostMemory, WithoutGroupsIsTheMachines) {
  EXPECT_EQ(read().total, 64 * kGiB);
  EXPECT_EQ(read().available, 32 * kGiB);
  std::filesystem::remove(root() + "/proc/meminfo");
  os::HostMemory memory{1, 2};
  EXPECT_FALSE(os::read_host_memory(memory, root().c_str()));
  EXPECT_EQ(memory.available, 2u);
}

TEST_F(HostMemory, IsTheLeastOfAllGroupsAbove) {
  mount("cgroup2", "/sys/fs/cgroup", "rw");
  write("/proc/self/cgroup", "0::/pods/one/app\n");
  write_v2("/pods/one/app", "max", "max", "4096");
  write_v2("/pods/one", std::to_string(16 * kGiB), "max", std::to_string(6 * kGiB), std::to_string(kGiB));
  write_v2("/pods", std::to_string(20 * kGiB), "max", std::to_string(18 * kGiB));
  EXPECT_EQ(read().total, 16 * kGiB);
  EXPECT_EQ(read().available, 2 * kGiB) << "the outer group has least left";
  write_v2("/pods", "max", "max", std::to_string(18 * kGiB));
  EXPECT_EQ(read().available, 11 * kGiB) << "idle pages of files can be had";
  write_v2("/pods/one", std::to_string(16 * kGiB), std::to_string(8 * kGiB), std::to_string(6 * kGiB));
  EXPECT_EQ(read().total, 8 * kGiB);
  EXPECT_EQ(read().available, 2 * kGiB);
  write_v2("/pods/one", std::to_string(4 * kGiB), "max", std::to_string(6 * kGiB));
  EXPECT_EQ(read().available, 0u) << "a group may have more than its limit";
}

TEST_F(HostMemory, OfAContainerThatSeesOnlyItsOwnGroup) {
  // With a namespace of its own, and without one, where the path is the host's.
  for (const auto& [path, root_of_groups] :
       {std::pair{"/", "/"}, std::pair{"/docker/abc", "/docker/abc"},
        std::pair{"/docker/other", "/docker/abc"}, std::pair{"/../../x", "/"}}) {
    SCOPED_TRACE(path);
    mount("cgroup2", "/sys/fs/cgroup", "rw", root_of_groups);
    write("/proc/self/cgroup", std::string("0::") + path + "\n");
    write_v2("", std::to_string(2 * kGiB), "max", std::to_string(kGiB));
    EXPECT_EQ(read().total, 2 * kGiB);
    EXPECT_EQ(read().available, kGiB);
  }
}

TEST_F(HostMemory, OfTheFirstVersionOfGroups) {
  mount("cgroup", "/sys/fs/cgroup/memory", "rw,memory");
  write("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/slurm/job\n0::/\n");
  write_v1("", 9'223'372'036'854'771'712u, 40 * kGiB, 0);
  write_v1("/slurm", 8 * kGiB, 5 * kGiB, 2 * kGiB);
  write_v1("/slurm/job", 9'223'372'036'854'771'712u, kGiB, 0);
  EXPECT_EQ(read().total, 8 * kGiB);
  EXPECT_EQ(read().available, 5 * kGiB);
  mount("cgroup", "/sys/fs/cgroup/cpu", "rw,cpu");
  EXPECT_EQ(read().available, 32 * kGiB) << "another controller's groups";
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need addresses without end
TEST_F(HostMemory, EndsWithTheProcessesOwnLimits) {
  write("/proc/self/statm", "300000 2000 1000 10 0 20000 0\n");  // in pages
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (const auto& [which, used] : {std::pair{RLIMIT_AS, 300000u}, std::pair{RLIMIT_DATA, 20000u}}) {
    rlimit before{};
    ASSERT_EQ(getrlimit(which, &before), 0);
    const rlimit less{16 * kGiB, before.rlim_max};
    if (setrlimit(which, &less) != 0) GTEST_SKIP() << "a lower limit is in force";
    const uint64_t available = read().available;
    ASSERT_EQ(setrlimit(which, &before), 0);
    EXPECT_EQ(available, 16 * kGiB - used * page);
  }
}
#endif

TEST_F(HostMemory, OfThisMachine) {
  os::HostMemory memory;
  ASSERT_TRUE(os::read_host_memory(memory));
  EXPECT_GT(memory.total, 0u);
  EXPECT_LE(memory.available, memory.total);
}

}  // namespace
}  // namespace gpupool::internal
