// SPDX-License-Identifier: Apache-2.0
#include "cli/measure/workers.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace gpupool::cli {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

double time_threads(int threads, const Work& prepare, const Work& work) {
  std::barrier<> start(threads);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(threads));
  std::vector<double> nanoseconds(static_cast<size_t>(threads));
  const auto run = [&](int thread) {
    const auto index = static_cast<size_t>(thread);
    bool has_started = false;
    try {
      prepare(thread);
      start.arrive_and_wait();
      has_started = true;
      const Clock::time_point begin = Clock::now();
      work(thread);
      nanoseconds[index] = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    } catch (const std::exception&) {
      errors[index] = std::current_exception();
      if (!has_started) start.arrive_and_drop();  // the others must not wait for this one
    }
  };
  {
    std::vector<std::jthread> running;
    running.reserve(static_cast<size_t>(threads));
    for (int thread = 0; thread < threads; ++thread) {
      try {
        running.emplace_back(run, thread);
      } catch (const std::system_error&) {
        // Those that run wait for all: take this one and the rest out of the count.
        for (int missing = thread; missing < threads; ++missing) start.arrive_and_drop();
        throw;
      }
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  double sum = 0;
  for (const double each : nanoseconds) sum += each;
  return sum / threads;
}

uint64_t calibrate(const std::function<double(uint64_t count)>& run, double seconds) {
  constexpr double kEnough = 1e6;  // nanoseconds that can be measured well
  constexpr uint64_t kMost = uint64_t{1} << 30;
  const auto time = [&](uint64_t count) { return std::min({run(count), run(count), run(count)}); };
  uint64_t count = 64;
  double each = time(count);
  while (each * static_cast<double>(count) < kEnough && count < kMost) each = time(count *= 2);
  const double fitting = seconds * 1e9 / std::max(each, 0.1);
  return std::clamp<uint64_t>(static_cast<uint64_t>(std::min(fitting, static_cast<double>(kMost))), 1, kMost);
}

}  // namespace gpupool::cli
