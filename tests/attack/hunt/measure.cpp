// SPDX-License-Identifier: Apache-2.0
#include "attack/hunt/measure.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "attack/hunt/bytes.hpp"
#include "attack/hunt/player.hpp"
#include "attack/hunt/pool.hpp"
#include "attack/hunt/times.hpp"

namespace hunt {
namespace {

constexpr uint64_t kQuarantine64 = 64 * kMiB;
constexpr uint64_t kKeptByThreads = 1438 * kMiB;  // a hundredth of the simulated device
/// The policy allows moving memory this part of the time, for ever.
constexpr double kTimeForMoving = 0.001;
constexpr unsigned kSeconds = 60;

/// What best fit reserves for the pattern.
uint64_t least_bytes(const Pattern& pattern) {
  Script script(pattern);
  BestFit best_fit(static_cast<size_t>(pattern.pools));
  Player player(best_fit, static_cast<size_t>(pattern.threads), script.slots());
  for (int period = 0; period < 3; ++period) player.play(script.next_period());
  return best_fit.reserved_bytes();
}

/// Chunks that a stream needs at least, since streams share none, nor do small and large blocks.
uint64_t granules(const Pattern& pattern) {
  return static_cast<uint64_t>((pattern.streams + 1) * pattern.pools) * 2 * kGranule;
}

/// Of each pool.
uint64_t limit_bytes(const Pattern& pattern) {
  if (pattern.limit == 0) return 0;
  const uint64_t live = live_peak(pattern) / 100 * static_cast<uint64_t>(pattern.limit);
  const uint64_t withheld = pattern.debug == kQuarantine ? kQuarantine64 : 0;
  return (live / kGranule + 1) * kGranule + granules(pattern) / static_cast<uint64_t>(pattern.pools) +
         withheld;
}

/// What is reserved for reasons that have nothing to do with how the pattern goes, and what threads may keep
/// so that they need not wait for each other.
uint64_t excused_bytes(const Pattern& pattern) {
  const uint64_t withheld = pattern.debug == kQuarantine ? kQuarantine64 : 0;
  const uint64_t kept = pattern.threads > 1 ? kKeptByThreads : 0;
  return granules(pattern) + (withheld + kept) * static_cast<uint64_t>(pattern.pools);
}

double ratio(uint64_t part, uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<uint64_t>(1, whole));
}

void say(Figures& figures, double faults, const std::string& words) {
  figures.values[kFaults] = faults;
  std::snprintf(figures.words.data(), figures.words.size(), "%s", words.c_str());
}

Figures measure_here(const Pattern& pattern) {
  const uint64_t least = least_bytes(pattern);
  Script script(pattern);
  Pools pools(pattern, GPUPOOL_BACKEND_SIM, limit_bytes(pattern));
  Player player(pools, static_cast<size_t>(pattern.threads), script.slots());
  for (int64_t period = 0; period < pattern.rest; ++period) player.play(script.next_period());

  const Counts before = pools.counts();
  const uint64_t mallocs_before = player.mallocs();
  const uint64_t failures_before = player.failures();
  const uint64_t locks_before = player.locks();
  Times times;
  uint64_t reserved = 0;
  uint64_t calls = 0;
  for (int period = 0; period < kPeriodsMeasured; ++period) {
    const std::vector<Step> steps = script.next_period();
    player.play(steps);
    times.add(player.nanoseconds());
    reserved = std::max(reserved, pools.reserved_bytes());
    for (const Step& step : steps) calls += step.kind == Kind::malloc || step.kind == Kind::free ? 1 : 0;
  }
  const Counts after = pools.counts();

  Figures figures;
  auto& values = figures.values;
  const uint64_t mallocs = player.mallocs() - mallocs_before;
  const uint64_t driver_ns = after.driver_ns - before.driver_ns;
  const auto gaps = static_cast<uint64_t>(pattern.gap * kPeriodsMeasured) * 1'000'000;
  values[kDriverTime] = ratio(driver_ns, driver_ns + gaps);
  const double driver_calls = ratio(after.driver_calls - before.driver_calls, mallocs);
  if (values[kDriverTime] > kTimeForMoving) values[kDriverCalls] = driver_calls;
  values[kReserved] = ratio(reserved, least + excused_bytes(pattern));
  // In a call that moves memory, the host's time is the simulated device's.
  if (driver_calls < 0.01) {
    values[kMisses] = ratio(after.misses - before.misses, mallocs);
    values[kMean] = times.mean_ns();
    values[kLongest] = times.longest_ns() / 1000;
    if (values[kMisses] == 0) values[kCached] = values[kMean];
    // The simulated device takes a lock of its own for each call.
    const uint64_t locks = player.locks() - locks_before;
    values[kLocks] = ratio(locks - std::min(locks, after.all_calls - before.all_calls), calls);
  }
  values[kFailures] = ratio(player.failures() - failures_before, mallocs);
  player.play(script.last_frees());
  pools.synchronize();
  std::string words;
  const uint64_t faults = pools.faults(words);
  say(figures, static_cast<double>(faults), words);
  return figures;
}

[[noreturn]] void measure_for(int pipe, const Pattern& pattern) {
  alarm(kSeconds + static_cast<unsigned>(pattern.rest));
  Figures figures;
  try {
    figures = measure_here(pattern);
  } catch (const std::exception& error) {
    say(figures, 1, error.what());
  }
  const bool is_sent = write(pipe, &figures, sizeof figures) == sizeof figures;
  _exit(is_sent ? 0 : 1);
}

}  // namespace

Figures measure(const Pattern& pattern) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error(std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(std::strerror(errno));
  if (child == 0) {
    close(ends[0]);
    measure_for(ends[1], pattern);
  }
  close(ends[1]);
  Figures figures;
  const bool is_whole = read(ends[0], &figures, sizeof figures) == sizeof figures;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (is_whole) return figures;
  figures = {};
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const std::string words = signal == SIGALRM ? "did not end" : "ended by signal " + std::to_string(signal);
  say(figures, 1, words);
  return figures;
}

}  // namespace hunt
