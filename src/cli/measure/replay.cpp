// SPDX-License-Identifier: Apache-2.0
#include "cli/measure/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/base/library.hpp"
#include "cli/base/size.hpp"
#include "cli/measure/data_check.hpp"
#include "gpupool/sim.hpp"

namespace gpupool::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Events between two updates of the progress bar.
constexpr size_t kSlice = 16384;

/// The same for a paced pass: few enough that the time between two is short, and enough that reading the
/// clock costs nothing.
constexpr size_t kPacedSlice = 32;

/// How many inconsistencies to describe; all are counted.
constexpr uint64_t kMaxTold = 10;

gpupool_driver_stats_t difference(const gpupool_driver_stats_t& after, const gpupool_driver_stats_t& before) {
  gpupool_driver_stats_t result{};
  for (const DriverCall& call : kDriverCalls) {
    (result.*call.stat).count = (after.*call.stat).count - (before.*call.stat).count;
    (result.*call.stat).nanoseconds = (after.*call.stat).nanoseconds - (before.*call.stat).nanoseconds;
  }
  return result;
}

Config with_limit(Config config, uint64_t limit_bytes) {
  config.limit_bytes = limit_bytes;
  return config;
}

class Replayer {
 public:
  Replayer(const Trace& trace, const ReplaySetup& setup, uint64_t cap_bytes, bool stop_at_failure,
           Progress& progress)
      : trace_(trace),
        setup_(setup),
        stop_at_failure_(stop_at_failure),
        progress_(progress),
        pool_(create_pool(with_limit(setup.config, cap_bytes))),
        pointers_(trace.slot_count) {
    for (size_t i = 0; i < trace.streams.size(); ++i) {
      owned_streams_.emplace_back(pool_);
      streams_.push_back(owned_streams_.back().id());
    }
    if (setup.with_data) data_.emplace(pool_, streams_, trace.slot_count);
    faults_ = read_faults().count;
  }

  ReplayResult run() {
    for (int pass = 1; pass <= setup_.passes && !must_stop(); ++pass) {
      pass_ = pass;
      run_pass();
      check_pool();
    }
    result_.host_waits = pool_.stats().driver.host_wait.count;
    return std::move(result_);
  }

 private:
  bool must_stop() const { return stop_at_failure_ && result_.failed_allocations != 0; }

  void run_pass() {
    const gpupool_stats_t before = pool_.stats();
    const Clock::time_point begun = Clock::now();
    Clock::duration taken{};
    const size_t slice = setup_.paced ? kPacedSlice : kSlice;
    for (size_t begin = 0; begin < trace_.events.size() && !must_stop(); begin += slice) {
      const size_t end = std::min(begin + slice, trace_.events.size());
      const Clock::time_point start = Clock::now();
      if (data_) {
        play<true>(begin, end);
      } else {
        play<false>(begin, end);
      }
      taken += Clock::now() - start;
      if (setup_.paced) pace(begun, begin, end);
      progress_.set(static_cast<uint64_t>(pass_ - 1) * trace_.events.size() + end);
    }
    if (data_) data_->compare();
    free_leftovers();

    const gpupool_stats_t after = pool_.stats();
    PassResult pass;
    pass.nanoseconds = std::chrono::duration<double, std::nano>(taken).count();
    pass.driver = difference(after.driver, before.driver);
    pass.hits = after.hits - before.hits;
    pass.misses = after.misses - before.misses;
    pass.steals = after.steals - before.steals;
    pass.peak_reserved_bytes = after.all.reserved_bytes.peak;
    result_.peak_reserved_bytes = std::max(result_.peak_reserved_bytes, pass.peak_reserved_bytes);
    if (result_.failed_allocations == 0 && after.all.allocated_bytes.peak != trace_.peak_live_bytes) {
      report(fmt::format("the pool's peak of allocated bytes is {} and the trace's is {}",
                         after.all.allocated_bytes.peak, trace_.peak_live_bytes));
    }
    pool_.reset_peaks();
    result_.passes.push_back(pass);
  }

  /// Waits for the time that the recorded program spent on these events.
  void pace(Clock::time_point begun, size_t begin, size_t end) const {
    const double per_event = trace_.duration * 1e9 / static_cast<double>(trace_.events.size());
    const auto until = [&](size_t event) {
      return static_cast<uint64_t>(per_event * static_cast<double>(event));
    };
    if (setup_.config.backend == Backend::sim) {
      sim::advance(setup_.config.device, until(end) - until(begin));
    } else {
      std::this_thread::sleep_until(begun + std::chrono::nanoseconds(until(end)));
    }
  }

  /// The measured loop. A block that could not be allocated has pointer 0, as an empty block does.
  template <bool with_data>
  void play(size_t begin, size_t end) {
    gpupool_t* const pool = pool_.handle();
    for (size_t i = begin; i < end; ++i) {
      const TraceEvent& event = trace_.events[i];
      const gpupool_stream_t stream = streams_[event.stream];
      gpupool_ptr_t& pointer = pointers_[event.slot];
      if (event.is_malloc) {
        const gpupool_status_t status = gpupool_malloc(pool, event.bytes, stream, &pointer);
        if (status != GPUPOOL_SUCCESS) [[unlikely]] {
          pointer = 0;
          count_failure(status, i);
          if (stop_at_failure_) return;
        }
        if constexpr (with_data) {
          if (pointer != 0) data_->write(event.slot, trace_.ids[i], pointer, event.bytes, stream);
        }
      } else if (pointer != 0) {
        if constexpr (with_data) data_->read(event.slot, stream);
        const gpupool_status_t status = gpupool_free(pool, pointer, stream);
        pointer = 0;
        if (status != GPUPOOL_SUCCESS) [[unlikely]] {
          report(fmt::format("freeing block {} failed: {}", trace_.ids[i], describe(status)));
        }
      }
    }
  }

  /// Frees what the trace left live, and what an aborted pass had not yet freed.
  void free_leftovers() {
    const auto free_slot = [&](uint32_t slot, gpupool_stream_t stream) {
      if (pointers_[slot] == 0) return;
      if (data_) data_->read(slot, stream);
      const gpupool_status_t status = gpupool_free(pool_.handle(), pointers_[slot], stream);
      pointers_[slot] = 0;
      if (status != GPUPOOL_SUCCESS) {
        report(fmt::format("freeing a block after the pass failed: {}", describe(status)));
      }
    };
    for (const TraceEvent& event : trace_.leftovers) free_slot(event.slot, streams_[event.stream]);
    if (must_stop()) {
      for (uint32_t slot = 0; slot < trace_.slot_count; ++slot) free_slot(slot, GPUPOOL_STREAM_UNKNOWN);
    }
    if (data_) data_->compare();
  }

  /// Checks what must hold whenever everything is freed.
  void check_pool() {
    try {
      pool_.validate();
    } catch (const Error& error) {
      report(fmt::format("the pool's records are inconsistent: {}", error.what()));
    }
    const gpupool_stats_t stats = pool_.stats();
    if (stats.all.allocated_bytes.current != 0 || stats.all.allocated_blocks.current != 0) {
      report(fmt::format("everything is freed and the pool counts {} blocks of {} bytes as allocated",
                         stats.all.allocated_blocks.current, stats.all.allocated_bytes.current));
    }
    if (const sim::Faults faults = read_faults(); faults.count != faults_) {
      report(fmt::format("{} rules of the device were broken, the last one: {}", faults.count - faults_,
                         faults.last),
             faults.count - faults_);
      faults_ = faults.count;
    }
    if (data_ && data_->mismatches() != mismatches_) {
      report(fmt::format("{} of the places that were read had been overwritten, the first: {}",
                         data_->mismatches() - mismatches_, data_->first_mismatch()),
             data_->mismatches() - mismatches_);
      mismatches_ = data_->mismatches();
    }
  }

  sim::Faults read_faults() const {
    return setup_.config.backend == Backend::sim ? sim::faults(setup_.config.device) : sim::Faults{};
  }

  void count_failure(gpupool_status_t status, size_t index) {
    if (result_.failed_allocations++ != 0) return;
    const TraceEvent& event = trace_.events[index];
    result_.problems.push_back(
        fmt::format("pass {}, event {}: block {} of {} on stream {} could not be allocated: {}", pass_,
                    format_count(index + 1), trace_.ids[index], format_bytes(event.bytes),
                    trace_.streams[event.stream], describe(status)));
  }

  void report(const std::string& problem, uint64_t count = 1) {
    if (result_.inconsistencies < kMaxTold) {
      result_.problems.push_back(fmt::format("pass {}: {}", pass_, problem));
    }
    result_.inconsistencies += count;
  }

  const Trace& trace_;
  const ReplaySetup& setup_;
  const bool stop_at_failure_;
  Progress& progress_;
  Pool pool_;
  std::vector<Stream> owned_streams_;
  std::vector<gpupool_stream_t> streams_;  // by index in Trace::streams
  std::vector<gpupool_ptr_t> pointers_;    // by slot; 0: none
  std::optional<DataCheck> data_;
  uint64_t faults_ = 0;
  uint64_t mismatches_ = 0;
  int pass_ = 1;
  ReplayResult result_;
};

}  // namespace

uint64_t PassResult::driver_calls() const {
  uint64_t sum = 0;
  for (const DriverCall& call : kDriverCalls) sum += (driver.*call.stat).count;
  return sum;
}

double PassResult::driver_microseconds() const {
  uint64_t sum = 0;
  for (const DriverCall& call : kDriverCalls) sum += (driver.*call.stat).nanoseconds;
  return static_cast<double>(sum) / 1000;
}

ReplayResult replay(const Trace& trace, const ReplaySetup& setup, uint64_t cap_bytes, bool stop_at_failure,
                    Progress& progress) {
  return Replayer(trace, setup, cap_bytes, stop_at_failure, progress).run();
}

}  // namespace gpupool::cli
