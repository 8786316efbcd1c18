// SPDX-License-Identifier: Apache-2.0
// gpupool as a peer: through its C interface, with the default configuration.
#pragma once

#include "gpupool/gpupool.h"

#include "harness.hpp"

namespace gpupool_bench {

inline void check_gpupool(gpupool_status_t status) {
  if (status == GPUPOOL_SUCCESS) return;
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  gpupool_last_error(&error);
  throw std::runtime_error(std::string(gpupool_status_name(status)) + ": " + error.message);
}

class Gpupool {
 public:
  using Stream = gpupool_stream_t;

  static std::string label() { return "gpupool"; }
  static std::string version() { return gpupool_version_string(); }

  explicit Gpupool(uint64_t cap_bytes) {
    // Addresses only, where the device is simulated: its memory is not what is measured.
    static const gpupool_status_t without_data = [] {
      gpupool_sim_config_t sim{};
      sim.struct_size = sizeof sim;
      sim.data = 2;
      return gpupool_sim_configure(0, &sim);
    }();
    check_gpupool(without_data);
    gpupool_config_t config;
    check_gpupool(gpupool_config_init(&config, sizeof config));
    config.limit_bytes = cap_bytes;
    check_gpupool(gpupool_create(&config, &pool_));
  }
  ~Gpupool() {
    for (const Stream stream : streams_) gpupool_stream_destroy(pool_, stream);
    gpupool_destroy(pool_);
  }
  Gpupool(const Gpupool&) = delete;
  Gpupool& operator=(const Gpupool&) = delete;

  Stream new_stream() {
    Stream stream = 0;
    check_gpupool(gpupool_stream_create(pool_, &stream));
    streams_.push_back(stream);
    return stream;
  }

  uint64_t malloc(uint64_t bytes, Stream stream) {
    gpupool_ptr_t address = 0;
    const gpupool_status_t status = gpupool_malloc(pool_, bytes, stream, &address);
    if (status == GPUPOOL_SUCCESS) return address;
    if (status != GPUPOOL_ERROR_OUT_OF_MEMORY && status != GPUPOOL_ERROR_OVER_LIMIT) check_gpupool(status);
    return 0;
  }

  void free(uint64_t address, uint64_t, Stream stream) {
    check_gpupool(gpupool_free(pool_, address, stream));
  }

  uint64_t reserved_bytes() const { return stats().all.reserved_bytes.current; }
  uint64_t peak_reserved_bytes() const { return stats().all.reserved_bytes.peak; }

  Counters counters() const {
    const gpupool_stats_t now = stats();
    const gpupool_driver_stats_t& driver = now.driver;
    double calls = 0;
    double milliseconds = 0;
    for (const gpupool_call_stat_t& each :
         {driver.create, driver.release, driver.map, driver.set_access, driver.unmap, driver.address,
          driver.malloc, driver.free, driver.event_record, driver.query, driver.stream_wait,
          driver.host_wait}) {
      calls += static_cast<double>(each.count);
      milliseconds += static_cast<double>(each.nanoseconds) / 1e6;
    }
    return {{"driver_ms", milliseconds},
            {"driver_calls", calls},
            {"creates", static_cast<double>(driver.create.count)},
            {"host_waits", static_cast<double>(driver.host_wait.count)},
            {"steals", static_cast<double>(now.steals)},
            {"stream_steals", static_cast<double>(now.stream_steals)},
            {"hits", static_cast<double>(now.hits)},
            {"misses", static_cast<double>(now.misses)},
            {"metadata_bytes", static_cast<double>(now.metadata_bytes)}};
  }

 private:
  gpupool_stats_t stats() const {
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    check_gpupool(gpupool_stats(pool_, &stats));
    return stats;
  }

  gpupool_t* pool_ = nullptr;
  std::vector<Stream> streams_;
};

}  // namespace gpupool_bench
