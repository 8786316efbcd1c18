// SPDX-License-Identifier: Apache-2.0
// 21 typical bugs of GPU programs, planted on the simulated device or on a GPU.
#pragma once

#include <gpupool/gpupool.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "debug/gpu_work.hpp"

namespace debug_test {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;

/// A pool in debug modes on a device of its own, and what a program does with it.
class World {
 public:
  /// On a GPU, a fault ends the context: the process must have no other world.
  explicit World(const char* modes, bool is_on_gpu = false);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  gpupool_t* pool() const { return pool_; }
  gpupool_stream_t a() const { return streams_[0]; }
  gpupool_stream_t b() const { return streams_[1]; }

  /// A block of stream a; filled with ones, unless it is raw.
  gpupool_ptr_t take(uint64_t bytes, bool raw = false);
  /// Frees it on stream a.
  void give(gpupool_ptr_t block);
  /// A free that may be refused.
  void try_give(gpupool_ptr_t block);
  /// Work on a stream that writes zeros, or reads.
  void write(gpupool_ptr_t at, uint64_t bytes, gpupool_stream_t stream);
  void read(gpupool_ptr_t at, uint64_t bytes, gpupool_stream_t stream);
  /// The same by a graph of stream b, of which there is one.
  void capture_read(gpupool_ptr_t at, uint64_t bytes);
  void launch();
  /// All streams have done their work.
  void wait();

  // ---- what has come to light

  bool saw_nan() const { return saw_nan_; }
  bool was_refused() const { return was_refused_; }
  uint64_t findings();
  bool has_fault() const;

 private:
  void look(uint64_t bytes);
  void expect(gpupool_status_t status);
  void expect(bool is_done);
  gpupool_ptr_t host() const { return reinterpret_cast<gpupool_ptr_t>(host_); }

  std::unique_ptr<GpuWork> gpu_;  // null: the simulated device

  gpupool_t* pool_ = nullptr;
  std::vector<gpupool_stream_t> streams_;
  std::vector<float> memory_;
  float* host_ = nullptr;
  uint64_t capture_ = 0;
  std::vector<gpupool_ptr_t> live_;
  bool saw_nan_ = false;
  bool was_refused_ = false;
  bool has_fault_ = false;  // of a GPU
};

struct Bug {
  const char* name;
  void (*plant)(World& world);
};

extern const std::vector<Bug> kBugs;

struct Mode {
  const char* name;   // as docs/debugging.md has it
  const char* modes;  // as GPUPOOL_DEBUG has it
};

extern const std::vector<Mode> kModes;

/// How a mode finds a bug: "refused", "fault", "check", "NaN", or "".
const char* verdict(const Bug& bug, const Mode& mode, bool is_on_gpu = false);

}  // namespace debug_test
