// SPDX-License-Identifier: Apache-2.0
#include "cli/workers.hpp"

#include <barrier>
#include <chrono>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace gpupool::cli {

double time_threads(int threads, const Work& prepare, const Work& work) {
  using Clock = std::chrono::steady_clock;
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

}  // namespace gpupool::cli
