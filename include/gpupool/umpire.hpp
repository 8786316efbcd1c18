// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pool as an allocator of Umpire, on which Umpire's own strategies can stand.
///
///     auto& manager = umpire::ResourceManager::getInstance();
///     gpupool::UmpireMemory source{gpupool::plug::default_pool(0)};
///     auto memory = manager.makeAllocator<gpupool::UmpireStrategy>("gpupool", source);
///     auto pool = manager.makeAllocator<umpire::strategy::QuickPool>("quick", memory);
///
/// Needs C++17. All inline over the C functions. Since 0.2.
#ifndef GPUPOOL_UMPIRE_HPP
#define GPUPOOL_UMPIRE_HPP

#include <gpupool/plug.hpp>

#include <umpire/ResourceManager.hpp>
#include <umpire/strategy/AllocationStrategy.hpp>
#include <umpire/util/error.hpp>

#include <cstddef>
#include <string>

namespace gpupool {
inline namespace v0 {

/// A pool, and who can reach its memory.
struct UmpireMemory {
  gpupool_t* pool;
  umpire::Platform platform = umpire::Platform::cuda;

  /// For Umpire's log.
  friend std::string to_string(const UmpireMemory& memory) {
    return umpire::platform_to_string(memory.platform);
  }
};

/// Hands out memory of a pool, which must outlive Umpire's use of it. Any thread may call.
/// Umpire names no stream: memory is any stream's at once, and a free waits for the device (plug::AnyStream),
/// so put one of Umpire's pools on top where memory is freed often. A shortage is
/// umpire::out_of_memory_error, in the pool's own words.
class UmpireStrategy : public umpire::strategy::AllocationStrategy {
 public:
  /// What ResourceManager::makeAllocator calls. Throws std::runtime_error.
  UmpireStrategy(const std::string& name, int id, const UmpireMemory& memory)
      : AllocationStrategy(name, id, nullptr, "gpupool"), any_(memory.pool), platform_(memory.platform) {}

  void* allocate(std::size_t size) override {
    void* ptr = any_.allocate(size);
    if (ptr == nullptr && size != 0) UMPIRE_ERROR(umpire::out_of_memory_error, plug::last_error());
    return ptr;
  }

  void deallocate(void* ptr, std::size_t) override {
    if (!any_.release(ptr)) UMPIRE_ERROR(umpire::runtime_error, plug::last_error());
  }

  /// Gives back what the pool has cached.
  void release() override { (void)gpupool_empty(any_.pool(), nullptr); }

  /// What the pool holds, cached memory included, for all its users.
  std::size_t getActualSize() const noexcept override {
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    (void)gpupool_stats(any_.pool(), &stats);
    return stats.all.reserved_bytes.current;
  }

  umpire::Platform getPlatform() noexcept override { return platform_; }

  umpire::MemoryResourceTraits getTraits() const noexcept override {
    using Kind = umpire::MemoryResourceTraits::resource_type;
    umpire::MemoryResourceTraits traits;
    traits.resource = platform_ == umpire::Platform::host ? Kind::host : Kind::device;
    return traits;
  }

 private:
  plug::AnyStream any_;
  umpire::Platform platform_;
};

}  // namespace v0
}  // namespace gpupool

#endif  // GPUPOOL_UMPIRE_HPP
