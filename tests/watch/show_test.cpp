// SPDX-License-Identifier: Apache-2.0
// The page that other processes read: what is on it, when it is written, and whose it is.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/bits.hpp"
#include "gpupool/gpupool.h"
#include "watch/stats_page.hpp"

namespace gpupool::internal {
namespace {

/// The descriptors of this process that are pages of figures.
std::vector<int> page_files() {
  std::vector<int> files;
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    char target[64] = {};
    if (readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1) < 0) continue;
    if (std::strcmp(target, "/memfd:gpupool-stats (deleted)") == 0) files.push_back(std::atoi(entry->d_name));
  }
  closedir(folder);
  return files;
}

/// What the writer stores meanwhile.
template <typename Number>
Number load(const Number& from) {
  return std::atomic_ref(const_cast<Number&>(from)).load();
}

/// The page as another process has it.
class Seen {
 public:
  Seen() {
    const std::vector<int> files = page_files();
    EXPECT_EQ(files.size(), 1U);
    if (files.size() != 1) return;
    void* const address = mmap(nullptr, sizeof(wire::stats::Page), PROT_READ, MAP_SHARED, files[0], 0);
    if (address != MAP_FAILED) page_ = static_cast<const wire::stats::Page*>(address);
  }
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;
  ~Seen() {
    if (page_ != nullptr) munmap(const_cast<wire::stats::Page*>(page_), sizeof(wire::stats::Page));
  }
  const wire::stats::Page& page() const { return *page_; }
  bool is_there() const { return page_ != nullptr; }

  /// The slot of a pool; null where there is none.
  const wire::stats::Slot* slot_of(uint64_t pool) const {
    for (const wire::stats::Slot& slot : page_->slots) {
      if (load(slot.state) == wire::stats::SlotState::pool && load(slot.words[0]) == pool) return &slot;
    }
    return nullptr;
  }
  std::vector<uint64_t> pools() const {
    std::vector<uint64_t> found;
    for (const wire::stats::Slot& slot : page_->slots) {
      if (load(slot.state) == wire::stats::SlotState::pool) found.push_back(load(slot.words[0]));
    }
    return found;
  }

 private:
  const wire::stats::Page* page_ = nullptr;
};

/// False where the slot was written meanwhile.
bool read_once(const wire::stats::Slot& slot, wire::stats::Figures& figures) {
  const uint32_t before = load(slot.sequence);
  std::array<uint64_t, wire::stats::kFigureWords> words;
  for (size_t at = 0; at < words.size(); ++at) words[at] = load(slot.words[at]);
  std::memcpy(static_cast<void*>(&figures), words.data(), sizeof figures);
  return before % 2 == 0 && load(slot.sequence) == before;
}

class Show : public testing::Test {
 protected:
  void SetUp() override { keep_no_data(); }
  /// The device needs no descriptors then. A child after fork has a device of its own.
  static void keep_no_data() {
    gpupool_sim_config_t sim{};
    sim.struct_size = sizeof sim;
    sim.data = 2;
    ASSERT_EQ(gpupool_sim_configure(0, &sim), GPUPOOL_SUCCESS);
  }
  void TearDown() override {
    for (gpupool_t* pool : pools_) EXPECT_EQ(gpupool_destroy(pool), GPUPOOL_SUCCESS);
  }

  gpupool_t* make(uint64_t limit = 0) {
    gpupool_config_t config;
    EXPECT_EQ(gpupool_config_init(&config, sizeof config), GPUPOOL_SUCCESS);
    config.backend = GPUPOOL_BACKEND_SIM;
    config.limit_bytes = limit;
    gpupool_t* pool = nullptr;
    EXPECT_EQ(gpupool_create(&config, &pool), GPUPOOL_SUCCESS);
    pools_.push_back(pool);
    return pool;
  }
  void end_last() {
    EXPECT_EQ(gpupool_destroy(pools_.back()), GPUPOOL_SUCCESS);
    pools_.pop_back();
  }
  static gpupool_ptr_t take(gpupool_t* pool, uint64_t bytes) {
    gpupool_ptr_t block = 0;
    EXPECT_EQ(gpupool_malloc(pool, bytes, 0, &block), GPUPOOL_SUCCESS);
    return block;
  }
  static wire::stats::Figures read(const Seen& seen, uint64_t pool) {
    wire::stats::Figures figures{};
    const wire::stats::Slot* const slot = seen.slot_of(pool);
    EXPECT_NE(slot, nullptr);
    EXPECT_TRUE(slot != nullptr && read_once(*slot, figures));
    return figures;
  }
  /// The number of the pool that was made last: the highest that is shown.
  static uint64_t newest(const Seen& seen) {
    uint64_t number = 0;
    for (const uint64_t each : seen.pools()) number = std::max(number, each);
    return number;
  }
  /// What a child of fork that runs `work` ends with.
  template <typename Work>
  static int in_child(Work work) {
    const pid_t child = fork();
    if (child == 0) _exit(work());
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::vector<gpupool_t*> pools_;
};

TEST_F(Show, APoolThatGrowsIsShownAtOnce) {
  gpupool_t* const pool = make(uint64_t{1} << 30);
  EXPECT_EQ(gpupool_set_name(pool, "weights"), GPUPOOL_SUCCESS);
  const Seen seen;
  ASSERT_TRUE(seen.is_there());
  const uint64_t number = newest(seen);
  EXPECT_STREQ(read(seen, number).name, "weights");
  EXPECT_EQ(read(seen, number).counts.limit, uint64_t{1} << 30);
  const gpupool_ptr_t first = take(pool, 40 * kMiB);
  const gpupool_ptr_t second = take(pool, 8 * kMiB);
  const wire::stats::Figures figures = read(seen, number);
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  ASSERT_EQ(gpupool_stats(pool, &stats), GPUPOOL_SUCCESS);
  EXPECT_EQ(figures.counts.live, 48 * kMiB);
  EXPECT_EQ(figures.counts.live_blocks, 2U);
  EXPECT_EQ(figures.counts.live_peak, stats.all.allocated_bytes.peak);
  EXPECT_EQ(figures.counts.reserved, stats.all.reserved_bytes.current);
  EXPECT_EQ(figures.counts.cached, stats.cached_bytes);
  EXPECT_EQ(figures.counts.misses, stats.misses);
  EXPECT_GT(figures.counts.driver_calls, 0U);
  EXPECT_EQ(figures.counts.driver_calls, stats.driver.create.count + stats.driver.map.count +
                                             stats.driver.set_access.count + stats.driver.address.count +
                                             stats.driver.query.count + stats.driver.event_record.count);
  ASSERT_EQ(gpupool_set_limit(pool, uint64_t{2} << 30), GPUPOOL_SUCCESS);
  EXPECT_EQ(read(seen, number).counts.limit, uint64_t{2} << 30);
  ASSERT_EQ(gpupool_free(pool, first, 0), GPUPOOL_SUCCESS);
  ASSERT_EQ(gpupool_free(pool, second, 0), GPUPOOL_SUCCESS);
  ASSERT_EQ(gpupool_empty(pool, nullptr), GPUPOOL_SUCCESS);
  EXPECT_EQ(read(seen, number).counts.reserved, 0U);
  EXPECT_EQ(read(seen, number).counts.live, 0U);
  EXPECT_GE(read(seen, number).counts.live_peak, 48 * kMiB);
}

TEST_F(Show, ACachedPairWritesNothingAndOthersEvery10Milliseconds) {
  gpupool_t* const pool = make();
  gpupool_ptr_t block = take(pool, kMiB);
  const Seen seen;
  const wire::stats::Slot& slot = *seen.slot_of(newest(seen));
  ASSERT_EQ(gpupool_free(pool, block, 0), GPUPOOL_SUCCESS);
  const uint32_t before = load(slot.sequence);
  const auto begun = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begun < std::chrono::milliseconds(30)) {
    block = take(pool, kMiB);
    ASSERT_EQ(gpupool_free(pool, block, 0), GPUPOOL_SUCCESS);
  }
  EXPECT_EQ(load(slot.sequence), before);
  // Each asks for the pool's lock.
  const auto again = std::chrono::steady_clock::now();
  uint32_t rounds = 0;
  for (; std::chrono::steady_clock::now() - again < std::chrono::milliseconds(50); ++rounds)
    ASSERT_EQ(gpupool_synchronize(pool), GPUPOOL_SUCCESS);
  const auto taken = std::chrono::steady_clock::now() - again;
  const auto most = std::chrono::duration_cast<std::chrono::milliseconds>(taken).count() / 10 + 1;
  const uint32_t writes = (load(slot.sequence) - before) / 2;
  EXPECT_GE(writes, 2U);
  EXPECT_LE(writes, static_cast<uint32_t>(most));
  EXPECT_GT(rounds, writes);
}

TEST_F(Show, TagsAreShownAsTheyAreTaken) {
  ASSERT_EQ(gpupool_set_sampling(kMiB), GPUPOOL_SUCCESS);
  gpupool_t* const pool = make();
  ASSERT_EQ(gpupool_tag_push("kv cache"), GPUPOOL_SUCCESS);
  const gpupool_ptr_t block = take(pool, 512 * kMiB);
  ASSERT_EQ(gpupool_tag_pop(), GPUPOOL_SUCCESS);
  const Seen seen;
  const wire::stats::Figures figures = read(seen, newest(seen));
  ASSERT_EQ(figures.tag_count, 1U);
  EXPECT_STREQ(figures.tags[0].name, "kv cache");
  EXPECT_EQ(figures.tags[0].bytes, 512 * kMiB);
  ASSERT_EQ(gpupool_free(pool, block, 0), GPUPOOL_SUCCESS);
}

TEST_F(Show, SlotsServeTheNextPoolAndMoreAreCounted) {
  make();
  const Seen seen;
  const size_t others = seen.pools().size();
  const size_t used = load(seen.page().header.slots_used);
  for (int round = 0; round < 200; ++round) {
    make();
    EXPECT_EQ(seen.pools().size(), others + 1);
    end_last();
  }
  EXPECT_EQ(seen.pools().size(), others);
  EXPECT_LE(load(seen.page().header.slots_used), std::max(used, others + 1));
  while (seen.pools().size() < wire::stats::kSlots) make();
  EXPECT_EQ(load(seen.page().header.not_shown), 0U);
  gpupool_t* const unseen = make();
  EXPECT_EQ(load(seen.page().header.not_shown), 1U);
  const gpupool_ptr_t block = take(unseen, kMiB);
  EXPECT_EQ(gpupool_free(unseen, block, 0), GPUPOOL_SUCCESS);
  end_last();
  EXPECT_EQ(load(seen.page().header.not_shown), 0U);
}

TEST_F(Show, AChildAfterForkHasAPageOfItsOwn) {
  gpupool_t* const pool = make();
  const gpupool_ptr_t block = take(pool, 4 * kMiB);
  const Seen seen;
  const std::vector<uint64_t> before = seen.pools();
  const uint32_t sequence = load(seen.slot_of(newest(seen))->sequence);
  const int result = in_child([&] {
    if (!page_files().empty()) return 1;
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    if (gpupool_stats(pool, &stats) != GPUPOOL_SUCCESS) return 2;
    if (stats.all.allocated_bytes.current != 4 * kMiB) return 3;
    make();
    const Seen own;
    if (own.page().header.process != static_cast<uint64_t>(getpid())) return 4;
    if (own.pools().size() != 1) return 5;
    return 0;
  });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(seen.pools(), before);
  EXPECT_EQ(load(seen.slot_of(newest(seen))->sequence), sequence);
  EXPECT_EQ(seen.page().header.process, static_cast<uint64_t>(getpid()));
  EXPECT_EQ(gpupool_free(pool, block, 0), GPUPOOL_SUCCESS);
}

TEST_F(Show, AFileThatTookThePagesNumberStaysOpenInAChild) {
  const int result = in_child([&] {
    make();
    const int page = page_files().at(0);
    const int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (dup2(other, page) != page) return 1;
    return in_child([&] {
      struct stat seen {};
      return fstat(page, &seen) == 0 && S_ISCHR(seen.st_mode) ? 0 : 2;
    });
  });
  EXPECT_EQ(result, 0);
}

TEST_F(Show, NoPageIsMadeWhereItIsNotWanted) {
  const auto uses_a_pool = [&] {
    const gpupool_ptr_t block = take(make(), kMiB);
    return block != 0 && gpupool_free(pools_.back(), block, 0) == GPUPOOL_SUCCESS;
  };
  EXPECT_EQ(in_child([&] {
              setenv("GPUPOOL_STATS", "0", 1);
              return uses_a_pool() && page_files().empty() ? 0 : 1;
            }),
            0);
  EXPECT_EQ(in_child([&] {
              setenv("GPUPOOL_STATS", "perhaps", 1);
              return uses_a_pool() && page_files().size() == 1 ? 0 : 1;
            }),
            0);
}

TEST_F(Show, APoolWorksWhereNoDescriptorIsLeftForThePage) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer opens a pipe for its own checks";
#endif
  EXPECT_EQ(in_child([&] {
              keep_no_data();
              rlimit none{};
              getrlimit(RLIMIT_NOFILE, &none);
              const rlimit before = none;
              none.rlim_cur = 3;
              setrlimit(RLIMIT_NOFILE, &none);
              const gpupool_ptr_t block = take(make(), kMiB);
              const bool works = block != 0 && gpupool_free(pools_.back(), block, 0) == GPUPOOL_SUCCESS;
              setrlimit(RLIMIT_NOFILE, &before);
              return works && page_files().empty() ? 0 : 1;
            }),
            0);
}

/// Two processes and a page between them: whatever is read at one time was written at one time.
TEST_F(Show, AReaderNeverSeesHalfOfWhatIsWritten) {
  void* const memory =
      mmap(nullptr, sizeof(wire::stats::Slot), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& slot = *static_cast<wire::stats::Slot*>(memory);
  const pid_t writer = fork();
  if (writer == 0) {
    wire::stats::Figures figures{};
    for (uint64_t round = 0;; ++round) {
      figures.pool = figures.counts.live = figures.counts.taken = round;
      figures.tags[0].bytes = figures.tags[wire::stats::kTags - 1].bytes = round;
      shown::write(slot, wire::stats::SlotState::pool, figures);
    }
  }
  uint64_t good = 0;
  uint64_t last = 0;
  const auto begun = std::chrono::steady_clock::now();
  // Where all processors are busy, the writer may begin late.
  while ((good < 20000 || last <= 100) &&
         std::chrono::steady_clock::now() - begun < std::chrono::seconds(10)) {
    wire::stats::Figures figures{};
    if (!read_once(slot, figures)) continue;
    ++good;
    EXPECT_EQ(figures.counts.live, figures.pool);
    EXPECT_EQ(figures.counts.taken, figures.pool);
    EXPECT_EQ(figures.tags[0].bytes, figures.pool);
    EXPECT_EQ(figures.tags[wire::stats::kTags - 1].bytes, figures.pool);
    EXPECT_GE(figures.pool, last);
    last = figures.pool;
  }
  kill(writer, SIGKILL);
  EXPECT_EQ(waitpid(writer, nullptr, 0), writer);
  EXPECT_GE(good, 1000U);  // they take turns on one processor
  EXPECT_GT(last, 100U);
  munmap(memory, sizeof(wire::stats::Slot));
}

}  // namespace
}  // namespace gpupool::internal
