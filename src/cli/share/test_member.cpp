// SPDX-License-Identifier: Apache-2.0
#include "cli/share/test_member.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <random>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cli/base/library.hpp"

namespace gpupool::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPatienceMs = 60'000;

[[noreturn]] void become_member(const TestMemberTerms& terms, const std::string& guaranteed, pid_t parent,
                                int line) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  dup2(line, STDIN_FILENO);
  dup2(line, STDOUT_FILENO);
  execl("/proc/self/exe", "gpupool", "share", "--group", terms.group.c_str(), "--device",
        terms.device.c_str(), "--selftest-member", guaranteed.c_str(), static_cast<char*>(nullptr));
  _exit(127);
}

/// A child's exit status, or 128 and its signal. Kills a child that does not end.
int wait_for_end(pid_t child) {
  int status = 0;
  for (int ms = 0; waitpid(child, &status, WNOHANG) == 0; ++ms) {
    if (ms == kPatienceMs) ::kill(child, SIGKILL);
    usleep(1000);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void answer(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

/// Reads the next line of standard input; false at its end. Unbuffered, so that poll() sees what is left.
bool next_order(std::string& line) {
  line.clear();
  for (char c = 0; read(STDIN_FILENO, &c, 1) == 1;) {
    if (c == '\n') return true;
    line += c;
  }
  return false;
}

bool has_order() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) != 0;
}

/// The member's own side.
class Obedient {
 public:
  explicit Obedient(Pool pool) : pool_(std::move(pool)) {}

  void obey(const std::string& line) {
    std::istringstream words(line);
    std::string order;
    uint64_t first = 0;
    uint64_t second = 0;
    words >> order >> first >> second;
    if (order == "take") return answer(take(first));
    if (order == "churn") return answer(churn(first, second));
    if (order == "check") return answer(check_pool());
    drop();
    answer("dropped");
  }

 private:
  std::string take(uint64_t bytes) {
    const Clock::time_point begin = Clock::now();
    gpupool_ptr_t block = 0;
    const gpupool_status_t status = gpupool_malloc(pool_.handle(), bytes, 0, &block);
    const auto ns = std::chrono::nanoseconds(Clock::now() - begin).count();
    if (status != GPUPOOL_SUCCESS) return fmt::format("refused {}", ns);
    blocks_.push_back({block, bytes});
    return fmt::format("took {}", ns);
  }

  void drop() {
    for (const Block& each : blocks_) pool_.deallocate(each.address);
    blocks_.clear();
  }

  /// Allocates blocks of all sizes, and now and then frees everything, so that there is something to give.
  std::string churn(uint64_t seed, uint64_t most) {
    std::minstd_rand pick(static_cast<uint32_t>(seed));
    uint64_t count = 0;
    Clock::duration longest{};
    uint64_t live = 0;
    for (; !has_order(); ++count) {
      if (pick() % 16 == 0) {
        drop();
        live = 0;
      }
      const uint64_t bytes = most / (4 + pick() % 28);
      if (live + bytes > most) continue;
      gpupool_ptr_t block = 0;
      const Clock::time_point begin = Clock::now();
      const gpupool_status_t status = gpupool_malloc(pool_.handle(), bytes, 0, &block);
      longest = std::max(longest, Clock::now() - begin);
      if (status == GPUPOOL_ERROR_OVER_LIMIT || status == GPUPOOL_ERROR_OUT_OF_MEMORY) {
        drop();
        live = 0;
        continue;
      }
      gpupool::check(status);
      blocks_.push_back({block, bytes});
      live += bytes;
    }
    return fmt::format("churned {} {}", count, std::chrono::nanoseconds(longest).count());
  }

  std::string check_pool() {
    const gpupool_status_t status = gpupool_validate(pool_.handle());
    return status == GPUPOOL_SUCCESS ? "well" : describe(status);
  }

  struct Block {
    gpupool_ptr_t address;
    uint64_t bytes;
  };
  Pool pool_;
  std::vector<Block> blocks_;
};

}  // namespace

TestMember::TestMember(const TestMemberTerms& terms) {
  int lines[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, lines) != 0) {
    throw std::runtime_error(fmt::format("no socket for a member: {}", std::strerror(errno)));
  }
  const pid_t self = getpid();
  const std::string guaranteed = std::to_string(terms.guaranteed);
  pid_ = fork();
  if (pid_ == 0) become_member(terms, guaranteed, self, lines[1]);
  const int error = errno;
  close(lines[1]);
  line_ = lines[0];
  if (pid_ > 0) return;
  close_line();
  throw std::runtime_error(fmt::format("no process can be started: {}", std::strerror(error)));
}

TestMember::~TestMember() {
  kill();
}

void TestMember::close_line() {
  if (line_ >= 0) close(line_);
  line_ = -1;
}

std::string TestMember::hear(const char* what) {
  for (;;) {
    if (const size_t end = heard_.find('\n'); end != std::string::npos) {
      const std::string line = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return line;
    }
    pollfd input{line_, POLLIN, 0};
    char text[256];
    const bool is_there = poll(&input, 1, kPatienceMs) > 0;
    const ssize_t got = is_there ? recv(line_, text, sizeof text, 0) : 0;
    // Of a process that was killed before it read what it was told, the end is an error.
    if (got <= 0) {
      throw std::runtime_error(fmt::format("process {} {} when it should {}", pid_,
                                           is_there ? "has ended" : "does not answer", what));
    }
    heard_.append(text, static_cast<size_t>(got));
  }
}

void TestMember::say(const std::string& line) {
  const std::string whole = line + "\n";
  if (send(line_, whole.data(), whole.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(whole.size())) {
    throw std::runtime_error(fmt::format("process {} has ended: {}", pid_, std::strerror(errno)));
  }
}

TestMember::Taken TestMember::take(uint64_t bytes) {
  say(fmt::format("take {}", bytes));
  std::istringstream words(hear("take"));
  std::string word;
  double ns = 0;
  words >> word >> ns;
  return {word == "took", ns / 1e6};
}

void TestMember::drop() {
  say("drop");
  (void)hear("drop");
}

void TestMember::stop() {
  ::kill(pid_, SIGSTOP);
  int status = 0;
  while (waitpid(pid_, &status, WUNTRACED) < 0 && errno == EINTR) {
  }
  if (WIFSTOPPED(status)) return;
  throw std::runtime_error(fmt::format("process {} has ended", std::exchange(pid_, -1)));
}

void TestMember::go_on() const {
  ::kill(pid_, SIGCONT);
}

void TestMember::kill() {
  close_line();
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  (void)wait_for_end(pid_);
  pid_ = -1;
}

int TestMember::end() {
  close_line();
  const pid_t child = pid_;
  pid_ = -1;
  return wait_for_end(child);
}

int be_test_member(const ShareOptions& options) {
  const gpupool_device_info_t device = find_device(options.device);
  configure_data(device, false);
  Config config = config_for(device);
  config.share = options.group;
  config.guaranteed_bytes = options.guaranteed.value_or(0);
  config.share_wait_ns = kTestWaitNs;
  Pool pool = create_pool(config);
  const gpupool_stats_t stats = pool.stats();
  answer(fmt::format("joined {} {}", stats.share_state, stats.share_slot));
  Obedient self(std::move(pool));
  for (std::string line; next_order(line);) self.obey(line);
  return 0;
}

}  // namespace gpupool::cli
