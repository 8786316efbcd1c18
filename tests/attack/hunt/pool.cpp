// SPDX-License-Identifier: Apache-2.0
#include "attack/hunt/pool.hpp"

#include <stdexcept>

#include "attack/hunt/locks.hpp"

namespace hunt {
namespace {

constexpr int32_t kDevice = 0;

void check(gpupool_status_t status) {
  if (status == GPUPOOL_SUCCESS) return;
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  (void)gpupool_last_error(&error);
  throw std::runtime_error(std::string(gpupool_status_name(status)) + ": " + error.message);
}

void configure(const Pattern& pattern, bool is_simulated) {
  static constexpr const char* kModes[] = {"", "guard", "quarantine=64MiB"};
  check(gpupool_set_debug(kModes[pattern.debug]));
  if (pattern.sample == 0) check(gpupool_set_sampling(0));  // there is no way back to the usual density
  if (!is_simulated) return;
  gpupool_sim_config_t sim{};
  sim.struct_size = sizeof sim;
  sim.data = 2;  // addresses only
  check(gpupool_sim_configure(kDevice, &sim));
}

uint64_t device_faults(std::string* words) {
  uint64_t count = 0;
  char text[512] = {};
  check(gpupool_sim_faults(kDevice, &count, text, sizeof text));
  if (words != nullptr) *words = text;
  return count;
}

gpupool_stats_t stats_of(gpupool_t* pool) {
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  check(gpupool_stats(pool, &stats));
  return stats;
}

}  // namespace

Pools::Pools(const Pattern& pattern, gpupool_backend_t backend, uint64_t limit)
    : is_simulated_(backend == GPUPOOL_BACKEND_SIM) {
  configure(pattern, is_simulated_);
  if (is_simulated_) faults_before_ = device_faults(nullptr);
  gpupool_config_t config;
  check(gpupool_config_init(&config, sizeof config));
  config.backend = backend;
  config.device = kDevice;
  config.limit_bytes = limit;
  if (pattern.captures != 0) config.flags = GPUPOOL_FLAG_CAPTURE_AWARE;
  if (pattern.slack != kUsual) config.slack = pattern.slack == kTight ? -1 : 0.1;
  for (int64_t i = 0; i < pattern.pools; ++i) {
    gpupool_t* made = nullptr;
    check(gpupool_create(&config, &made));
    pools_.push_back(made);
  }
  // The last one is for captures.
  for (int64_t i = 0; i <= pattern.streams; ++i) {
    gpupool_stream_t made = 0;
    check(gpupool_stream_create(pools_.front(), &made));
    streams_.push_back(made);
  }
}

Pools::~Pools() {
  for (const gpupool_stream_t each : streams_) (void)gpupool_stream_destroy(pools_.front(), each);
  for (gpupool_t* const each : pools_) (void)gpupool_destroy(each);
}

uint64_t Pools::malloc(int pool, uint64_t bytes, int stream) {
  gpupool_ptr_t address = 0;
  const gpupool_status_t status = gpupool_malloc(this->pool(pool), bytes, this->stream(stream), &address);
  if (status == GPUPOOL_ERROR_OUT_OF_MEMORY || status == GPUPOOL_ERROR_OVER_LIMIT) return 0;
  check(status);
  return address;
}

void Pools::free(int pool, uint64_t address, uint64_t /*bytes*/, int stream) {
  check(gpupool_free(this->pool(pool), address, this->stream(stream)));
}

void Pools::record_stream(int pool, uint64_t address, int stream) {
  check(gpupool_record_stream(this->pool(pool), address, this->stream(stream)));
}

void Pools::work(uint64_t address, int stream, uint64_t nanoseconds) {
  if (is_simulated_) check(gpupool_sim_work(kDevice, this->stream(stream), address, 1, nanoseconds));
}

/// The graph before may not run any more, once another is captured.
void Pools::begin_capture(int stream) {
  if (!is_simulated_) return;
  if (capture_ != 0) check(gpupool_release_capture(pool(0), capture_));
  check(gpupool_sim_capture(kDevice, this->stream(stream), 1));
  check(gpupool_capture_id(pool(0), this->stream(stream), &capture_));
}

void Pools::end_capture(int stream) {
  if (is_simulated_) check(gpupool_sim_capture(kDevice, this->stream(stream), 0));
}

void Pools::advance(uint64_t nanoseconds) {
  if (is_simulated_) check(gpupool_sim_advance(kDevice, nanoseconds));
}

void Pools::synchronize() {
  for (gpupool_t* const each : pools_) check(gpupool_synchronize(each));
}

uint64_t Pools::reserved_bytes() const {
  return counts().reserved_bytes;
}

uint64_t Pools::locks_taken() const {
  return hunt::locks_taken();
}

Counts Pools::counts() const {
  Counts sum;
  for (gpupool_t* const each : pools_) {
    const gpupool_stats_t stats = stats_of(each);
    sum.hits += stats.hits;
    sum.misses += stats.misses;
    sum.reserved_bytes += stats.all.reserved_bytes.current;
    const gpupool_driver_stats_t& driver = stats.driver;
    // Events, queries and waits on the GPU are cheap, and streams that share blocks need them.
    for (const gpupool_call_stat_t& call :
         {driver.create, driver.release, driver.map, driver.set_access, driver.unmap, driver.address,
          driver.malloc, driver.free, driver.host_wait}) {
      sum.driver_calls += call.count;
      sum.driver_ns += call.nanoseconds;
    }
    sum.all_calls += driver.event_record.count + driver.query.count + driver.stream_wait.count;
  }
  sum.all_calls += sum.driver_calls;
  return sum;
}

uint64_t Pools::faults(std::string& words) const {
  uint64_t count = 0;
  if (is_simulated_) count = device_faults(&words) - faults_before_;
  for (gpupool_t* const each : pools_) {
    if (gpupool_validate(each) == GPUPOOL_SUCCESS) continue;
    ++count;
    gpupool_error_t error{};
    error.struct_size = sizeof error;
    (void)gpupool_last_error(&error);
    words = error.message;
  }
  return count;
}

}  // namespace hunt
