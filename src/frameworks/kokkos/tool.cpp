// SPDX-License-Identifier: Apache-2.0
// A tool for Kokkos: KOKKOS_TOOLS_LIBS=libgpupool_kokkos.so gpupool record -o run.gpt -- PROGRAM. Kokkos
// accepts no allocator, but says what it allocates. The tool asks a pool of the simulated device, which has
// addresses only, for the same, in one pool for each memory space, under the view's label. So a recording,
// and all that reads one, shows Kokkos.
#include <gpupool/gpupool.h>

#include <pthread.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace {

/// As Kokkos declares it.
struct SpaceHandle {
  char name[64];
};

/// Apart from those that the program itself may simulate, which begin at 0.
constexpr int32_t kDevice = 7;
constexpr uint64_t kCapacity = uint64_t{4} << 40;

struct Block {
  gpupool_t* pool;
  gpupool_ptr_t ptr;
};

std::string first(std::string_view text, std::size_t bytes) {
  return std::string(text.substr(0, bytes));
}

class Mirror;
/// From kokkosp_init_library on. Never destroyed: views may end after main.
constinit Mirror* mirror = nullptr;

/// Any thread may call. In a forked child the pools refuse, and what Kokkos allocates there is not recorded.
class Mirror {
 public:
  Mirror() {
    pthread_atfork([] { mirror->lock_.lock(); }, [] { mirror->lock_.unlock(); },
                   [] { mirror->lock_.unlock(); });
  }

  void allocate(const char* space, const char* label, const void* ptr, uint64_t size) {
    const std::lock_guard guard(lock_);
    gpupool_t* pool = pool_of(space);
    Block block{pool, 0};
    const bool has_tag =
        label != nullptr && *label != '\0' && gpupool_tag_push(first(label, kTag).c_str()) == 0;
    if (pool == nullptr || gpupool_malloc(pool, size, 0, &block.ptr) != GPUPOOL_SUCCESS) {
      ++lost_;
    } else {
      blocks_[ptr] = block;
    }
    if (has_tag) (void)gpupool_tag_pop();
  }

  void deallocate(const void* ptr) {
    const std::lock_guard guard(lock_);
    const auto found = blocks_.find(ptr);
    if (found == blocks_.end()) return;
    (void)gpupool_free(found->second.pool, found->second.ptr, 0);
    blocks_.erase(found);
  }

  void say_what_is_lost() {
    const std::lock_guard guard(lock_);
    if (lost_ > 0) {
      std::fprintf(stderr, "gpupool: %llu allocations of Kokkos are not in the recording\n",
                   static_cast<unsigned long long>(lost_));
    }
  }

 private:
  static constexpr std::size_t kTag = 63;

  gpupool_t* pool_of(const std::string& space) {
    const auto found = pools_.find(space);
    if (found != pools_.end()) return found->second;
    if (pools_.empty()) {
      gpupool_sim_config_t device{};
      device.struct_size = sizeof device;
      device.data = 2;
      device.capacity_bytes = kCapacity;
      (void)gpupool_sim_configure(kDevice, &device);
    }
    gpupool_config_t config{};
    config.struct_size = sizeof config;
    config.backend = GPUPOOL_BACKEND_SIM;
    config.device = kDevice;
    gpupool_t* pool = nullptr;
    if (gpupool_create(&config, &pool) == GPUPOOL_SUCCESS) (void)gpupool_set_name(pool, space.c_str());
    return pools_.emplace(space, pool).first->second;
  }

  std::mutex lock_;
  std::map<std::string, gpupool_t*> pools_;
  std::unordered_map<const void*, Block> blocks_;
  uint64_t lost_ = 0;
};

}  // namespace

extern "C" {

GPUPOOL_API void kokkosp_init_library(int, uint64_t, uint32_t, void*) {
  if (mirror == nullptr) mirror = new Mirror;
}

GPUPOOL_API void kokkosp_finalize_library() {
  if (mirror != nullptr) mirror->say_what_is_lost();
}

GPUPOOL_API void kokkosp_allocate_data(SpaceHandle space, const char* label, const void* ptr, uint64_t size) {
  if (mirror != nullptr) mirror->allocate(space.name, label, ptr, size);
}

GPUPOOL_API void kokkosp_deallocate_data(SpaceHandle, const char*, const void* ptr, uint64_t) {
  if (mirror != nullptr) mirror->deallocate(ptr);
}

GPUPOOL_API void kokkosp_push_profile_region(const char* name) {
  (void)gpupool_mark(first(name, 255).c_str());
}

}  // extern "C"
