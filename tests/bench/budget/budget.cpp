// SPDX-License-Identifier: Apache-2.0
// What it costs a member of a group to take bytes from the budget and to put them back: alone, and while
// other processes do nothing else. tests/share holds the same path to a number of instructions (F7).
//
//   budget [SECONDS]     of each row; default 7
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "base/bits.hpp"
#include "base/status.hpp"
#include "share/member.hpp"

namespace {

using namespace gpupool::internal;

constexpr uint64_t kChunk = 16 * kMiB;
constexpr size_t kMostProcesses = 8;
constexpr int kRepeats = 7;  // odd: the median is one of them
/// Between two looks at the time.
constexpr uint64_t kBatch = 1000;

/// Nobody is asked: there is room for all.
class Nothing final : public share::Owner {
 public:
  uint64_t release(uint64_t /*bytes*/) noexcept override { return 0; }
  uint64_t put_to_sleep(uint64_t /*bytes*/, uint64_t /*asker*/) noexcept override { return 0; }
  uint64_t live_bytes() noexcept override { return 0; }
  bool free_bytes(uint64_t& /*free*/) noexcept override { return false; }
};

/// What the processes of one repeat see of each other.
struct Board {
  std::atomic<size_t> ready{0};
  std::atomic<uint64_t> end{0};  // 0: not yet begun
  std::array<std::atomic<double>, kMostProcesses> ns_of_pair{};
};

void hammer(const share::Place& place, Board& board, double& ns_of_pair) {
  std::shared_ptr<share::Member> member;
  if (share::join(place, ~uint64_t{0}, std::make_unique<Nothing>(), member) != kSuccess) {
    std::fprintf(stderr, "budget: %s\n", last_error().message);
    _exit(1);
  }
  ++board.ready;
  while (board.end.load() == 0) sched_yield();
  uint64_t pairs = 0;
  const uint64_t start = share::now_ns();
  uint64_t now = start;
  for (; now < board.end.load(); now = share::now_ns()) {
    for (uint64_t i = 0; i < kBatch; ++i) {
      if (!member->charge(kChunk)) _exit(2);
      member->refund(kChunk);
    }
    pairs += kBatch;
  }
  // Who never got a processor in time has waited for all of it.
  ns_of_pair = static_cast<double>(now - start) / static_cast<double>(std::max<uint64_t>(pairs, 1));
}

/// Nanoseconds of a pair in the slowest of the processes, the time without a processor included.
double slowest(const share::Place& place, size_t processes, double seconds) {
  auto* const board = static_cast<Board*>(
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (board == MAP_FAILED) std::abort();
  new (board) Board;
  for (size_t i = 0; i < processes; ++i) {
    if (fork() != 0) continue;
    double ns = 0;
    hammer(place, *board, ns);
    board->ns_of_pair[i].store(ns);
    _exit(0);
  }
  while (board->ready.load() < processes && waitpid(-1, nullptr, WNOHANG) == 0) usleep(1000);
  board->end.store(share::now_ns() + static_cast<uint64_t>(seconds * 1e9));
  int status = 0;
  while (wait(&status) > 0) {
    if (status != 0) std::exit(1);
  }
  double most = 0;
  for (const auto& each : board->ns_of_pair) most = std::max(most, each.load());
  munmap(board, sizeof(Board));
  return most;
}

void row(const share::Place& place, size_t processes, double seconds, const char* target) {
  std::array<double, kRepeats> times{};
  for (double& each : times) each = slowest(place, processes, seconds / kRepeats);
  std::sort(times.begin(), times.end());
  std::printf("| %zu | %.0f ns | %.0f to %.0f ns | %s |\n", processes, times[kRepeats / 2], times.front(),
              times.back(), target);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 7;
  std::string folder = std::filesystem::temp_directory_path() / "gpupool-budget-XXXXXX";
  if (seconds <= 0 || mkdtemp(folder.data()) == nullptr) {
    std::fprintf(stderr, "usage: budget [SECONDS]\n");
    return 1;
  }
  share::Place place;
  place.folder = folder;
  place.group = "budget";
  place.device = "none";
  place.device_bytes = 64 * kGiB;
  std::printf(
      "%u processors\n\n| processes | take and put back | least to most | target |\n|---|---|---|---|\n",
      std::thread::hardware_concurrency());
  row(place, 1, seconds, "100 ns");
  row(place, 2, seconds, "-");
  row(place, 4, seconds, "-");
  row(place, kMostProcesses, seconds, "1,000 ns");
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}
