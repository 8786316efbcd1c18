// SPDX-License-Identifier: Apache-2.0
// What a call meets when the host has no memory: a device, a pool on it with a little of everything, and what
// must be true of both afterwards. One process each, which ends by the exit status of check.h.
#pragma once

#include <gpupool/gpupool.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "fake_cuda/fake_cuda.hpp"
#include "support/check.h"

namespace attack {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kCapacity = 512 * kMiB;

/// Where pools get memory, by the words of the command line.
struct Setting {
  bool is_sim = true;
  gpupool_mode_t mode = GPUPOOL_MODE_VMM;
  gpupool_kind_t kind = GPUPOOL_KIND_DEVICE;
  uint32_t flags = 0;

  bool is_vmm() const { return mode == GPUPOOL_MODE_VMM; }
  bool is_aware() const { return (flags & GPUPOOL_FLAG_CAPTURE_AWARE) != 0; }
  bool is_upstream() const { return mode == GPUPOOL_MODE_UPSTREAM; }
  /// The device's own figures show what pools hold.
  bool is_on_device() const { return kind == GPUPOOL_KIND_DEVICE && !is_upstream(); }
};

class World {
 public:
  explicit World(const Setting& chosen) : setting(chosen) {
    setenv("GPUPOOL_BACKEND", setting.is_sim ? "sim" : "cuda", 1);
    if (setting.is_sim) {
      gpupool_sim_config_t sim{};
      sim.struct_size = sizeof sim;
      sim.data = setting.is_upstream() ? 1 : 2;
      sim.capacity_bytes = kCapacity;
      OK(gpupool_sim_configure(0, &sim));
    } else {
      fake_cuda().set_capacity(0, kCapacity);
    }
    lab = new_pool(0);
    free_at_start_ = free_on_device();
    OK(gpupool_stream_create(lab, &a));
    OK(gpupool_stream_create(lab, &b));
  }

  gpupool_config_t config() {
    gpupool_config_t config = config_for(0);
    config.mode = setting.mode;
    config.kind = setting.kind;
    config.flags = setting.flags;
    if (setting.is_upstream()) {
      config.upstream_malloc = upstream_malloc;
      config.upstream_free = upstream_free;
      config.upstream_user = this;
    }
    return config;
  }

  // ---- a pool with a little of everything

  void create_pool() {
    const gpupool_config_t chosen = config();
    OK(gpupool_create(&chosen, &pool));
    REQUIRE(pool != nullptr);
  }

  /// Live and cached blocks of both groups on stream a, and live ones on stream b.
  void furnish() {
    create_pool();
    malloc(1000, a);
    malloc(6 * kMiB, a);
    malloc(3 * kMiB, b);
    free(malloc(10 * kMiB, a), a);
    free(malloc(1000, a), a);
  }

  gpupool_ptr_t malloc(uint64_t size, gpupool_stream_t stream) {
    gpupool_ptr_t block = 0;
    OK(gpupool_malloc(pool, size, stream, &block));
    REQUIRE(block != 0);
    live[block] = stream;
    return block;
  }
  void free(gpupool_ptr_t block, gpupool_stream_t stream) {
    OK(gpupool_free(pool, block, stream));
    live.erase(block);
  }

  /// Queues work that lasts until calm().
  void make_busy(gpupool_stream_t stream) {
    if (setting.is_sim) {
      OK(gpupool_sim_work(0, stream, 0, 0, 1'000'000'000));
    } else {
      fake_cuda().hold(stream);
      OK(gpupool_fill(lab, live.begin()->first, 7, 512, stream));
      held_.push_back(stream);
    }
  }
  void calm() {
    for (const gpupool_stream_t stream : held_) fake_cuda().release(stream);
    held_.clear();
  }

  void begin_capture(gpupool_stream_t stream) {
    capturing = stream;
    if (setting.is_sim) {
      OK(gpupool_sim_capture(0, stream, 1));
    } else {
      fake_cuda().begin_capture(stream, 0);
    }
    if (pool != nullptr) OK(gpupool_capture_id(pool, stream, &capture));
  }
  void end_capture() {
    if (capturing == 0) return;
    if (setting.is_sim) {
      OK(gpupool_sim_capture(0, capturing, 0));
    } else {
      CHECK(fake_cuda().end_capture(capturing) == 1);
    }
    capturing = 0;
  }

  // ---- what must be so

  gpupool_stats_t stats() const { return stats_of(pool); }

  /// Gives everything back, and looks whether it is.
  void finish() {
    calm();
    end_capture();
    if (pool != nullptr) {
      while (!live.empty()) free(live.begin()->first, live.begin()->second);
      OK(gpupool_synchronize(pool));
      OK(gpupool_validate(pool));
      const gpupool_stats_t now = stats();
      CHECK(now.all.allocated_bytes.current == 0);
      CHECK(now.all.allocated_blocks.current == 0);
      CHECK(now.all.active_bytes.current == 0);
      OK(gpupool_destroy(pool));
    }
    check_nothing_left();
  }

  void check_nothing_left() {
    if (a != 0) OK(gpupool_stream_destroy(lab, a));
    if (b != 0) OK(gpupool_stream_destroy(lab, b));
    CHECK(free_on_device() == free_at_start_);
    OK(gpupool_destroy(lab));
    CHECK(upstream_segments.empty());
    CHECK(upstream_good);
    if (setting.is_sim) {
      uint64_t faults = 0;
      char text[512] = {};
      OK(gpupool_sim_faults(0, &faults, text, sizeof text));
      if (faults != 0) fprintf(stderr, "  the device's last fault: %s\n", text);
      CHECK(faults == 0);
    } else if (!has_default_pool) {
      const FakeCudaLive left = fake_cuda().live();
      CHECK(left.reservations == 0);
      CHECK(left.chunks == 0);
      CHECK(left.mappings == 0);
      CHECK(left.allocations == 0);
      CHECK(left.events == 0);
      CHECK(left.streams == 0);
      CHECK(fake_cuda().context_depth() == 0);
    }
  }

  Setting setting;
  gpupool_t* lab = nullptr;  // creates streams, never allocates
  gpupool_t* pool = nullptr;
  gpupool_stream_t a = 0;
  gpupool_stream_t b = 0;
  gpupool_stream_t capturing = 0;
  uint64_t capture = 0;
  std::map<gpupool_ptr_t, gpupool_stream_t> live;
  gpupool_ptr_t target = 0;  // the block that the call is about
  gpupool_ptr_t out = 0;     // what the call gave
  gpupool_stream_t out_stream = 0;
  bool has_default_pool = false;
  std::map<gpupool_ptr_t, uint64_t> upstream_segments;
  bool upstream_good = true;

 private:
  static int32_t upstream_malloc(void* user, uint64_t size, gpupool_stream_t, gpupool_ptr_t* out_ptr) {
    auto& self = *static_cast<World*>(user);
    uint64_t held = 0;
    for (const auto& [address, bytes] : self.upstream_segments) held += bytes;
    void* memory = nullptr;
    if (held + size > kCapacity || posix_memalign(&memory, 512, size) != 0) return 1;
    *out_ptr = reinterpret_cast<uintptr_t>(memory);
    self.upstream_segments[*out_ptr] = size;
    return 0;
  }
  static void upstream_free(void* user, gpupool_ptr_t ptr, uint64_t size, gpupool_stream_t) {
    auto& self = *static_cast<World*>(user);
    const auto found = self.upstream_segments.find(ptr);
    if (found == self.upstream_segments.end() || found->second != size) {
      self.upstream_good = false;
      return;
    }
    self.upstream_segments.erase(found);
    std::free(reinterpret_cast<void*>(ptr));
  }

  uint64_t free_on_device() const {
    gpupool_device_info_t info{};
    info.struct_size = sizeof info;
    OK(gpupool_device_info(setting.is_sim ? GPUPOOL_BACKEND_SIM : GPUPOOL_BACKEND_CUDA, 0, &info));
    return info.free_bytes;
  }

  uint64_t free_at_start_ = 0;
  std::vector<gpupool_stream_t> held_;
};

}  // namespace attack
