// SPDX-License-Identifier: Apache-2.0
// gpupool share --selftest: starts this program three times in a group of its own, and tells each over a
// socket what to take and what to free.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <vector>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/process_files.hpp"
#include "cli/base/signals.hpp"
#include "cli/base/size.hpp"
#include "cli/share/options.hpp"
#include "gpupool/share.hpp"

namespace gpupool::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMostSize = uint64_t{1} << 30;
constexpr uint64_t kLeastSize = uint64_t{64} << 20;
constexpr int kPatienceS = 60;
constexpr uint64_t kTestWaitNs = 500'000'000;
/// A malloc waits for its neighbours once, and is done soon after, even if the processors are busy.
constexpr double kMostMs = static_cast<double>(kTestWaitNs) / 1e6 + 2000;
/// How long the bytes of a killed process may be in limbo.
constexpr double kLimboMs = 10'000;

volatile std::sig_atomic_t test_ended_by = 0;

void note_tests_end(int number) {
  test_ended_by = number;
}

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

std::runtime_error failed(const char* what) {
  return std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

/// What a member says once it has joined, and of each order: a number of bytes to take, or 0, to free all.
struct Answer {
  int32_t status;  // of a malloc; at first, how it shares
  double ms;

  bool has_given() const { return status == GPUPOOL_SUCCESS; }
};

/// A process that ends with this object, and with this process.
class TestMember {
 public:
  TestMember(const std::string& group, const std::string& device, uint64_t guaranteed) {
    int lines[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, lines) != 0) throw failed("socketpair");
    line_ = OpenFile(lines[0]);
    const OpenFile others(lines[1]);
    const timeval patience{kPatienceS, 0};
    (void)setsockopt(line_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const pid_t self = getpid();
    const std::string bytes = std::to_string(guaranteed);
    pid_ = fork();
    if (pid_ < 0) throw failed("fork");
    if (pid_ > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self || dup2(others.get(), STDIN_FILENO) < 0) _exit(1);
    execl("/proc/self/exe", "gpupool", "share", "--group", group.c_str(), "--device", device.c_str(),
          "--selftest-member", bytes.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  TestMember(const TestMember&) = delete;
  TestMember& operator=(const TestMember&) = delete;
  ~TestMember() {
    signal(SIGKILL);
    (void)end();
  }

  pid_t pid() const noexcept { return pid_; }

  Answer hear() {
    Answer answer{};
    ssize_t got = -1;
    do {
      got = recv(line_.get(), &answer, sizeof answer, 0);
    } while (got < 0 && errno == EINTR && test_ended_by == 0);
    if (test_ended_by != 0) throw std::runtime_error("a signal has ended the test");
    if (got == sizeof answer) return answer;
    const bool is_silent = got < 0 && errno == EAGAIN;
    throw std::runtime_error(fmt::format("process {} {}", pid_, is_silent ? "does not answer" : "has ended"));
  }

  Answer take(uint64_t bytes) {
    (void)send(line_.get(), &bytes, sizeof bytes, MSG_NOSIGNAL);  // hear() says if nobody is there
    return hear();
  }
  void drop() { (void)take(0); }

  void signal(int number) const {
    if (pid_ > 0) (void)kill(pid_, number);
  }
  /// Waits until it has ended, or kills it. Returns its exit status, or 128 and its signal.
  int end() {
    if (pid_ <= 0) return 0;
    line_ = OpenFile();
    int status = 0;
    for (int ms = 0; waitpid(pid_, &status, WNOHANG) == 0; ++ms) {
      if (ms == kPatienceS * 1000) signal(SIGKILL);
      usleep(1000);
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  OpenFile line_;
};

/// A name for this test alone: a process in another container may have the same number.
std::string own_name() {
  std::random_device random;
  return fmt::format("selftest-{}-{:08x}", getpid(), random());
}

struct TestFiles {
  std::vector<std::string> paths;
  ~TestFiles() {
    for (const std::string& each : paths) (void)unlink(each.c_str());
  }
};

struct Verdict {
  bool holds;
  std::string words;
};

class SelfTest {
 public:
  SelfTest(const gpupool_device_info_t& device, uint64_t limit, TestFiles& files)
      : group_{.name = own_name(), .device = device.device, .backend = static_cast<Backend>(device.backend)},
        device_(device_label(device)),
        limit_(limit),
        part_(limit / 8),
        files_(files) {}

  Verdict join() {
    for (const uint64_t guaranteed : {uint64_t{0}, uint64_t{0}, part_}) {
      TestMember& member = members_.emplace_back(*group_.name, device_, guaranteed);
      if (member.hear().status != GPUPOOL_SHARE_STATE_SHARED)
        return {false, "a process runs alone: see above"};
      if (members_.size() == 1) files_.paths.push_back(share_info(group_).share.path);
    }
    const ShareInfo info = share_info(group_);
    const bool is_right = info.members.size() == members_.size() && info.share.limit_bytes == limit_;
    return {is_right, fmt::format("{} processes share {} on {}", info.members.size(),
                                  format_bytes(info.share.limit_bytes), device_)};
  }

  /// Each in turn takes what the other one has in its cache; the last is the holder.
  Verdict ask_in_turn() {
    constexpr size_t kTimes = 8;
    const uint64_t bytes = 6 * part_;
    double most_ms = 0;
    for (size_t i = 0; i <= kTimes; ++i) {
      TestMember& asker = members_[i % 2];
      const Answer taken = asker.take(bytes);
      if (!taken.has_given())
        return {false,
                fmt::format("{} of cached memory did not come in {:.0f} ms", format_bytes(bytes), taken.ms)};
      if (i != 0) most_ms = std::max(most_ms, taken.ms);  // the first takes what nobody had
      asker.drop();
    }
    return {most_ms <= kMostMs,
            fmt::format("{} cached by one came to the next {} times, in {:.1f} ms at most, "
                        "{:.0f} ms allowed",
                        format_bytes(bytes), kTimes, most_ms, kMostMs)};
  }

  Verdict keep_guarantee() {
    // What is given counts, not how soon: on a busy machine a neighbour may answer too late the first time.
    bool has_all = false;
    for (int tries = 0; !has_all && tries < 3; ++tries) has_all = holder().take(7 * part_).has_given();
    if (!has_all) return {false, fmt::format("{} that nobody has are not given", format_bytes(7 * part_))};
    const Answer own = members_[2].take(part_);
    return {own.has_given(),
            fmt::format("{} of guaranteed memory, with all else taken, {} in {:.1f} ms", format_bytes(part_),
                        own.has_given() ? "came" : "did not come", own.ms)};
  }

  Verdict wait_in_vain() {
    const Answer taken = asker().take(part_);
    return {!taken.has_given() && taken.ms <= kMostMs,
            fmt::format("who asks for what is live elsewhere is {} after {:.0f} ms, {:.0f} ms allowed",
                        taken.has_given() ? "given it" : "refused", taken.ms, kMostMs)};
  }

  Verdict take_from_the_killed() {
    const uint64_t bytes = 6 * part_;
    holder().signal(SIGKILL);
    (void)holder().end();
    const Clock::time_point begin = Clock::now();
    bool is_there = false;
    while (!is_there && ms_since(begin) <= kLimboMs) is_there = asker().take(bytes).has_given();
    return {is_there,
            fmt::format("{} live in a process that was killed {} {:.0f} ms later, {:.0f} ms allowed",
                        format_bytes(bytes), is_there ? "were another's" : "did not come back,",
                        ms_since(begin), kLimboMs)};
  }

  Verdict end_all() {
    int worst = 0;
    for (TestMember& each : members_) worst = std::max(worst, each.end());
    (void)share_repair(group_);
    const ShareInfo info = share_info(group_);
    return {worst == 0 && info.share.used_bytes == 0 && info.members.empty(),
            fmt::format("all have ended, with status {} at worst; {} are left of {} members", worst,
                        format_bytes(info.share.used_bytes), info.members.size())};
  }

 private:
  TestMember& holder() { return members_[0]; }
  TestMember& asker() { return members_[1]; }

  const ShareGroup group_;
  const std::string device_;
  const uint64_t limit_;
  const uint64_t part_;  // an eighth
  TestFiles& files_;
  std::deque<TestMember> members_;  // the last has a part guaranteed
};

struct Check {
  const char* name;
  Verdict (SelfTest::*run)();
};
/// Each relies on those before it, so the first that fails is the last.
constexpr Check kChecks[] = {
    {"members", &SelfTest::join},
    {"asking", &SelfTest::ask_in_turn},
    {"guarantee", &SelfTest::keep_guarantee},
    {"waiting", &SelfTest::wait_in_vain},
    {"killed", &SelfTest::take_from_the_killed},
    {"end", &SelfTest::end_all},
};

bool holds(SelfTest& test, const Check& check, bool json) {
  Verdict verdict{false, ""};
  try {
    verdict = (test.*check.run)();
  } catch (const std::exception& error) {
    verdict.words = error.what();
  }
  if (json) {
    print_json({{"check", check.name}, {"holds", verdict.holds}, {"words", verdict.words}});
  } else {
    fmt::print("{:<6} {:<10} {}\n", verdict.holds ? "ok" : "FAILED", check.name, verdict.words);
    std::fflush(stdout);
  }
  return verdict.holds;
}

bool test_sharing(const ShareOptions& options) {
  TestFiles files;
  // Processes share a simulated device only if it has a name, which must be set before the device exists.
  const char* const usual = std::getenv("GPUPOOL_SIM_SHARED");
  const bool is_named = usual != nullptr && *usual != '\0';
  const std::string own = own_name();
  if (!is_named) setenv("GPUPOOL_SIM_SHARED", own.c_str(), 1);
  const gpupool_device_info_t device = find_device(options.device.empty() ? "auto" : options.device);
  if (!is_named && device.backend == GPUPOOL_BACKEND_SIM)
    files.paths.push_back(fmt::format("/dev/shm/gpupool-{}.sim-{}-{}", geteuid(), own, device.device));
  const uint64_t wanted = std::min(kMostSize, device.free_bytes / 2);  // the rest is for contexts
  if (wanted < kLeastSize)
    throw InputError(fmt::format("--selftest: the device has only {} free", format_bytes(device.free_bytes)));
  // Whole chunks, as is each eighth of it.
  const uint64_t limit = wanted - wanted % (8 * device.granularity_bytes);
  setenv("GPUPOOL_SHARE_LIMIT", std::to_string(limit).c_str(), 1);
  for (const char* each : {"GPUPOOL_SHARE", "GPUPOOL_SHARE_GUARANTEED", "GPUPOOL_SHARE_PRIORITY"})
    unsetenv(each);
  SelfTest test(device, limit, files);
  const auto holds_too = [&](const Check& check) { return holds(test, check, options.json); };
  return std::all_of(std::begin(kChecks), std::end(kChecks), holds_too);
}

}  // namespace

int run_share_selftest(const ShareOptions& options) {
  handle_signals(kEndingSignals, note_tests_end);
  const bool all_hold = test_sharing(options);
  return test_ended_by != 0 ? 128 + test_ended_by : all_hold ? 0 : 1;
}

int be_test_member(const ShareOptions& options) {
  const gpupool_device_info_t device = find_device(options.device);
  configure_data(device, false);
  Config config = config_for(device);
  config.share = options.group;
  config.guaranteed_bytes = options.guaranteed.value_or(0);
  config.share_wait_ns = kTestWaitNs;
  Pool pool = create_pool(config);
  std::vector<gpupool_ptr_t> blocks;
  Answer answer{static_cast<int32_t>(pool.stats().share_state), 0};
  (void)send(STDIN_FILENO, &answer, sizeof answer, MSG_NOSIGNAL);
  for (uint64_t bytes = 0; read(STDIN_FILENO, &bytes, sizeof bytes) == sizeof bytes;) {
    const Clock::time_point begin = Clock::now();
    gpupool_ptr_t block = 0;
    answer.status = bytes == 0 ? GPUPOOL_SUCCESS : gpupool_malloc(pool.handle(), bytes, 0, &block);
    answer.ms = ms_since(begin);
    if (block != 0) blocks.push_back(block);
    if (bytes == 0) {
      for (const gpupool_ptr_t each : blocks) pool.deallocate(each);
      blocks.clear();
    }
    (void)send(STDIN_FILENO, &answer, sizeof answer, MSG_NOSIGNAL);
  }
  return 0;
}

}  // namespace gpupool::cli
