// SPDX-License-Identifier: Apache-2.0
#include "cli/share/selftest.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/share/test_member.hpp"
#include "gpupool/share.hpp"

namespace gpupool::cli {
namespace {

constexpr const char* kTestGroupSize = "1GiB";
constexpr uint64_t kLeastSize = uint64_t{64} << 20;
constexpr double kTestWaitMs = static_cast<double>(kTestWaitNs) / 1e6;
/// A malloc waits for its neighbours once, and is done soon after, even if the processors are busy.
constexpr double kMostMs = kTestWaitMs + 2000;
/// How long the bytes of killed processes may be in limbo.
constexpr double kLimboMs = 10'000;
/// The member that has a guarantee, and the one that is stopped.
constexpr size_t kSure = 1;
constexpr size_t kStopped = 0;

/// Removes the files that the test has made, even if a signal ends it.
class TestFiles {
 public:
  TestFiles() {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, end_by);
  }
  TestFiles(const TestFiles&) = delete;
  TestFiles& operator=(const TestFiles&) = delete;
  ~TestFiles() {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, SIG_DFL);
    remove();
  }
  static void add(const std::string& path) {
    for (auto& each : paths_) {
      if (each[0] != '\0' || path.size() >= each.size()) continue;
      std::memcpy(each.data(), path.c_str(), path.size() + 1);
      return;
    }
  }

 private:
  static void remove() {
    for (auto& each : paths_) {
      if (each[0] != '\0') unlink(each.data());
      each[0] = '\0';
    }
  }
  static void end_by(int number) {
    remove();
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
  // Of fixed size, since a signal's handler must not allocate.
  static inline std::array<std::array<char, 512>, 2> paths_{};
};

/// Looks again and again whether the group has more than its limit.
class Watcher {
 public:
  explicit Watcher(const ShareGroup& group)
      : thread_([this, group](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            look(group);
            usleep(1000);
          }
        }) {}
  uint64_t looks() const noexcept { return looks_; }
  /// By how many bytes it had more, at most.
  uint64_t most_over() const noexcept { return most_over_; }

 private:
  void look(const ShareGroup& group) {
    gpupool_share_t share{};
    share.struct_size = sizeof share;
    size_t count = 0;
    if (gpupool_share_info(group.c_name(), group.c_backend(), group.device, &share, nullptr,
                           sizeof(gpupool_share_member_t), 0, &count) != GPUPOOL_SUCCESS) {
      return;
    }
    ++looks_;
    if (share.used_bytes > share.limit_bytes) {
      most_over_ = std::max(most_over_.load(), share.used_bytes - share.limit_bytes);
    }
  }
  std::atomic<uint64_t> looks_{0};
  std::atomic<uint64_t> most_over_{0};
  std::jthread thread_;
};

/// A name for this test alone: a process in another container may have the same number.
std::string own_name() {
  std::random_device random;
  return fmt::format("selftest-{}-{:08x}", getpid(), random());
}

class SelfTest {
 public:
  SelfTest(const ShareOptions& options, const gpupool_device_info_t& device, uint64_t limit)
      : options_(options),
        group_{.name = own_name(), .device = device.device, .backend = static_cast<Backend>(device.backend)},
        device_(device_label(device)),
        limit_(limit),
        part_(limit / 8),
        members_(options.processes) {}

  /// Each check relies on those before it, so the first that fails is the last.
  int run() {
    if (!test("members", [this] { return start_all(); })) return 1;
    const Watcher watcher(group_);
    const bool all_hold =
        test("asking", [this] { return ask_in_turn(); }) &&
        test("guarantee", [this] { return keep_guarantee(); }) &&
        test("waiting", [this] { return wait_in_vain(); }) &&
        test("killed", [this] { return take_from_the_killed(); }) &&
        test("stopped", [this] { return pass_over_the_stopped(); }) &&
        test("random", [this] { return kill_at_random(); }) && test("sums", [this] { return add_up(); }) &&
        test("limit", [&] { return stay_below(watcher); }) && test("end", [this] { return end_all(); });
    return all_hold ? 0 : 1;
  }

 private:
  struct Verdict {
    bool holds;
    std::string words;
  };

  template <typename Check>
  bool test(const char* name, Check check) {
    Verdict verdict{false, ""};
    try {
      verdict = check();
    } catch (const std::exception& error) {
      verdict.words = error.what();
    }
    if (options_.json) {
      print_json({{"check", name}, {"holds", verdict.holds}, {"words", verdict.words}});
    } else {
      fmt::print("{:<6} {:<10} {}\n", verdict.holds ? "ok" : "FAILED", name, verdict.words);
      std::fflush(stdout);
    }
    return verdict.holds;
  }

  /// Starts a member in a place. Returns why it cannot take part, or "".
  std::string start(size_t index) {
    members_[index] =
        std::make_unique<TestMember>(TestMemberTerms{*group_.name, device_, index == kSure ? part_ : 0});
    std::istringstream words(members_[index]->hear("join"));
    std::string joined;
    int state = 0;
    words >> joined >> state;
    if (joined == "joined" && state == GPUPOOL_SHARE_STATE_SHARED) return "";
    return "a process runs alone: see above";
  }
  TestMember& member(size_t index) { return *members_.at(index); }
  /// Members that hoard and ask.
  std::vector<size_t> askers() const {
    std::vector<size_t> all;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (i != kSure) all.push_back(i);
    }
    return all;
  }

  Verdict start_all() {
    for (size_t i = 0; i < members_.size(); ++i) {
      if (const std::string why = start(i); !why.empty()) return {false, why};
      if (i == 0) TestFiles::add(share_info(group_).share.path);
    }
    const ShareInfo info = share_info(group_);
    std::vector<uint64_t> pids;
    pids.reserve(info.members.size());
    for (const gpupool_share_member_t& each : info.members) pids.push_back(each.pid);
    for (const auto& each : members_) {
      if (std::count(pids.begin(), pids.end(), static_cast<uint64_t>(each->pid())) != 1) {
        return {false, fmt::format("process {} is not listed as a member once", each->pid())};
      }
    }
    const bool is_right = info.members.size() == members_.size() && info.share.limit_bytes == limit_;
    return {is_right, fmt::format("{} processes share {} on {}", info.members.size(),
                                  format_bytes(info.share.limit_bytes), device_)};
  }

  /// Each member takes what the one before it has in its cache.
  Verdict ask_in_turn() {
    const std::vector<size_t> all = askers();
    const uint64_t bytes = 6 * part_;
    std::vector<double> times;
    const size_t rounds = std::max<size_t>(all.size(), 8);
    for (size_t i = 0; i <= rounds; ++i) {
      TestMember& asker = member(all[i % all.size()]);
      const TestMember::Taken taken = asker.take(bytes);
      if (!taken.is_there) {
        return {false,
                fmt::format("{} of cached memory did not come in {:.0f} ms", format_bytes(bytes), taken.ms)};
      }
      if (i != 0) times.push_back(taken.ms);  // the first takes what nobody had
      asker.drop();
    }
    holder_ = all[rounds % all.size()];
    std::sort(times.begin(), times.end());
    return {
        times.back() <= kMostMs,
        fmt::format("{} cached by one came to the next {} times: {:.1f} ms in the middle, {:.1f} ms at most, "
                    "{:.0f} ms allowed",
                    format_bytes(bytes), times.size(), times[times.size() / 2], times.back(), kMostMs)};
  }

  /// What is given counts here, not how soon: on a busy machine a neighbour may answer too late the first
  /// time.
  Verdict keep_guarantee() {
    bool is_given = false;
    for (int tries = 0; tries < 3 && !is_given; ++tries) is_given = member(holder_).take(7 * part_).is_there;
    if (!is_given) {
      return {false, fmt::format("{} that nobody has are not given", format_bytes(7 * part_))};
    }
    const TestMember::Taken own = member(kSure).take(part_);
    return {own.is_there, fmt::format("{} of guaranteed memory, with all else taken, {} in {:.1f} ms",
                                      format_bytes(part_), own.is_there ? "came" : "did not come", own.ms)};
  }

  Verdict wait_in_vain() {
    const TestMember::Taken taken = member(another(holder_)).take(part_);
    return {!taken.is_there && taken.ms <= kMostMs,
            fmt::format("who asks for what is live elsewhere is {} after {:.0f} ms, {:.0f} ms allowed",
                        taken.is_there ? "given it" : "refused", taken.ms, kMostMs)};
  }

  Verdict take_from_the_killed() {
    const uint64_t bytes = 6 * part_;
    member(holder_).kill();
    const auto begin = std::chrono::steady_clock::now();
    bool is_there = false;
    double ms = 0;
    while (!is_there && ms <= kLimboMs) {
      is_there = member(another(holder_)).take(bytes).is_there;
      ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    }
    member(another(holder_)).drop();
    if (const std::string why = start(holder_); !why.empty()) return {false, why};
    return {
        is_there,
        fmt::format("{} live in a process that was killed {} {:.0f} ms later, {:.0f} ms allowed",
                    format_bytes(bytes), is_there ? "were another's" : "did not come back,", ms, kLimboMs)};
  }

  Verdict pass_over_the_stopped() {
    for (const size_t each : askers()) member(each).drop();
    TestMember& stopped = member(kStopped);
    if (!stopped.take(6 * part_).is_there) return {false, "cached memory did not come to the one to stop"};
    stopped.drop();
    TestMember& asker = member(another(kStopped));
    stopped.stop();
    const TestMember::Taken refused = asker.take(3 * part_);
    const TestMember::Taken given = asker.take(part_ / 2);
    stopped.go_on();
    const TestMember::Taken later = asker.take(3 * part_);
    asker.drop();
    const bool holds = !refused.is_there && refused.ms <= kMostMs && given.is_there && later.is_there;
    return {holds,
            fmt::format("what a stopped process has is {} after {:.0f} ms, {:.0f} ms allowed; what is free "
                        "is {}; when it goes on, what it has {}",
                        refused.is_there ? "given" : "refused", refused.ms, kMostMs,
                        given.is_there ? "given" : "refused", later.is_there ? "comes" : "does not come")};
  }

  /// All allocate and free at random, and want twice what there is; one is stopped now and then, others are
  /// killed and start again. The one with a guarantee is not killed: there would be no room for another one.
  Verdict kill_at_random() {
    std::minstd_rand pick(static_cast<uint32_t>(getpid()));
    const uint64_t most = 2 * limit_ / members_.size();
    const auto pause = [&] { std::this_thread::sleep_for(std::chrono::milliseconds(20 + pick() % 80)); };
    const auto churn = [&](size_t index) { member(index).say(fmt::format("churn {} {}", pick(), most)); };
    for (const auto& each : members_) each->drop();
    for (size_t i = 0; i < members_.size(); ++i) churn(i);
    uint64_t kills = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.seconds);
    while (std::chrono::steady_clock::now() < end) {
      pause();
      if (pick() % 4 == 0) {
        member(kStopped).stop();
        pause();
        member(kStopped).go_on();
        continue;
      }
      const size_t victim = kSure + 1 + pick() % (members_.size() - kSure - 1);
      member(victim).kill();
      ++kills;
      if (const std::string why = start(victim); !why.empty()) return {false, why};
      churn(victim);
    }
    return stop_churning(kills);
  }

  Verdict stop_churning(uint64_t kills) {
    uint64_t blocks = 0;
    double longest_ms = 0;
    for (const auto& each : members_) each->say("drop");
    for (size_t i = 0; i < members_.size(); ++i) {
      std::istringstream words(member(i).hear("churn"));
      (void)member(i).hear("drop");
      std::string word;
      uint64_t count = 0;
      double ns = 0;
      words >> word >> count >> ns;
      blocks += count;
      // The member that was stopped took longer, and does not count.
      if (i != kStopped) longest_ms = std::max(longest_ms, ns / 1e6);
    }
    return {longest_ms <= kMostMs,
            fmt::format(
                "{} kills in {:.1f} s: {} mallocs by those who were left, the longest took {:.0f} ms, {:.0f} "
                "ms allowed",
                kills, options_.seconds, format_count(blocks), longest_ms, kMostMs)};
  }

  /// Checks that what is used is what the members have, and that each member's pool is valid.
  Verdict add_up() {
    for (const auto& each : members_) {
      each->say("check");
      if (const std::string found = each->hear("check"); found != "well") return {false, found};
    }
    const int64_t off = share_repair(group_);
    const ShareInfo info = share_info(group_);
    uint64_t charged = 0;
    for (const gpupool_share_member_t& each : info.members) {
      charged += each.charged_bytes;
      if (each.charged_bytes < std::max(each.reserved_bytes, each.guaranteed_bytes)) {
        return {false, fmt::format("member {} has more than it is charged for", each.slot)};
      }
    }
    return {
        off == 0 && charged == info.share.used_bytes,
        fmt::format("{} used is {} in {} members, and was off by {} bytes",
                    format_bytes(info.share.used_bytes), format_bytes(charged), info.members.size(), off)};
  }

  static Verdict stay_below(const Watcher& watcher) {
    return {watcher.most_over() == 0 && watcher.looks() != 0,
            fmt::format("looked at {} times, the group had {} bytes too many at most",
                        format_count(watcher.looks()), watcher.most_over())};
  }

  Verdict end_all() {
    int worst = 0;
    for (const auto& each : members_) worst = std::max(worst, each->end());
    (void)share_repair(group_);
    const ShareInfo info = share_info(group_);
    return {worst == 0 && info.share.used_bytes == 0 && info.members.empty(),
            fmt::format("all have ended, with status {} at worst; {} are left of {} members", worst,
                        format_bytes(info.share.used_bytes), info.members.size())};
  }

  /// A member that hoards and asks, other than this one.
  size_t another(size_t index) const {
    for (const size_t each : askers()) {
      if (each != index) return each;
    }
    throw std::logic_error("a group of one");
  }

  const ShareOptions& options_;
  const ShareGroup group_;
  const std::string device_;
  const uint64_t limit_;
  const uint64_t part_;  // an eighth
  std::vector<std::unique_ptr<TestMember>> members_;
  size_t holder_ = 0;
};

}  // namespace

int run_share_selftest(const ShareOptions& options) {
  const uint64_t wanted = parse_bytes(options.size.empty() ? kTestGroupSize : options.size, "--size");
  if (wanted < kLeastSize) throw InputError("--size: the self-test's group needs 64MiB at least");
  const TestFiles files;
  // Processes share a simulated device only if it has a name, which must be set before the device exists.
  const char* const usual = std::getenv("GPUPOOL_SIM_SHARED");
  const bool is_named = usual != nullptr && *usual != '\0';
  const std::string own = own_name();
  if (!is_named) setenv("GPUPOOL_SIM_SHARED", own.c_str(), 1);
  const gpupool_device_info_t device = find_device(options.device.empty() ? "auto" : options.device);
  if (!is_named && device.backend == GPUPOOL_BACKEND_SIM) {
    TestFiles::add(fmt::format("/dev/shm/gpupool-{}.sim-{}-{}", geteuid(), own, device.device));
  }
  if (wanted > device.free_bytes) {
    throw InputError(fmt::format("--size: the device has only {} free", format_bytes(device.free_bytes)));
  }
  // Whole chunks, as is each eighth of it.
  const uint64_t limit = wanted - wanted % (8 * device.granularity_bytes);
  setenv("GPUPOOL_SHARE_LIMIT", std::to_string(limit).c_str(), 1);
  for (const char* each : {"GPUPOOL_SHARE", "GPUPOOL_SHARE_GUARANTEED", "GPUPOOL_SHARE_PRIORITY"})
    unsetenv(each);
  return SelfTest(options, device, limit).run();
}

}  // namespace gpupool::cli
