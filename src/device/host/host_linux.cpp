// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "device/host/host.hpp"
#include "device/without_mappings.hpp"
#include "os/host_memory.hpp"

namespace gpupool::internal {
namespace {

/// What all pools of the process hold. A forked child inherits it with the memory.
constinit std::atomic<uint64_t> host_bytes_held{0};
/// For every pool, 0 to 2 are CUDA's default streams.
constinit std::atomic<Stream> last_host_stream{2};

/// All events have passed.
constexpr Event kPassed = 1;

void* pointer_to(Address address) noexcept {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));  // NOLINT(performance-no-int-to-ptr)
}

Status read_host(os::HostMemory& memory) {
  if (os::read_host_memory(memory)) return kSuccess;
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "the system does not say how much memory is available");
}

class HostDevice final : public DeviceWithoutMappings {
 public:
  explicit HostDevice(uint64_t total) {
    info_.backend = GPUPOOL_BACKEND_HOST;
    info_.backend_name = "host";
    info_.capabilities = GPUPOOL_CAPABILITY_MANAGED | GPUPOOL_CAPABILITY_INTEGRATED;
    info_.total = total;
    info_.granularity = uint64_t{2} << 20;
    std::snprintf(info_.name, sizeof info_.name, "memory of the host");
    std::snprintf(info_.id, sizeof info_.id, "host");
  }

  const DeviceInfo& info() const noexcept override { return info_; }
  uint64_t now_ns() noexcept override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  }

  /// Memory that is held but was never written is not in use for the system, and not free for a pool.
  Status free_memory(uint64_t& free) override {
    os::HostMemory now;
    if (const Status status = read_host(now); status != kSuccess) return status;
    const uint64_t held = std::min(host_bytes_held.load(std::memory_order_relaxed), info_.total);
    free = std::min(now.available, info_.total - held);
    return kSuccess;
  }

  Status add_peer(int32_t peer, bool) override {
    if (peer == info_.ordinal) return kSuccess;
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "peer %d does not exist: there is one host", peer);
  }
  void remove_peer(int32_t) noexcept override {}

  // ---- memory; all kinds are the same

  Status allocate(Kind, uint64_t size, Stream, Address& address) override {
    uint64_t free = 0;
    if (const Status status = free_memory(free); status != kSuccess) return status;
    void* const pages = size > free
                            ? MAP_FAILED
                            : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
      return fail(GPUPOOL_ERROR_OUT_OF_MEMORY, "the host has no %" PRIu64 " bytes: %" PRIu64 " are free",
                  size, free);
    }
    host_bytes_held.fetch_add(size, std::memory_order_relaxed);
    address = reinterpret_cast<uintptr_t>(pages);
    return kSuccess;
  }
  Status deallocate(Kind, Address address, uint64_t size, Stream) override {
    if (munmap(pointer_to(address), size) != 0) {
      return fail(GPUPOOL_ERROR_INTERNAL, "the system does not take %" PRIu64 " bytes at 0x%" PRIx64 " back",
                  size, address);
    }
    host_bytes_held.fetch_sub(size, std::memory_order_relaxed);
    return kSuccess;
  }
  Status host_memory(uint64_t& available) override { return free_memory(available); }

  // ---- order: whatever was queued is done

  Status context_of(Stream, uint64_t& context) override { return say(context, uint64_t{0}); }
  Status record(Stream, uint64_t, Event& event) override { return say(event, kPassed); }
  Status query(Event, bool& passed) override { return say(passed, true); }
  Status wait(Stream, Event) override { return kSuccess; }
  Status synchronize(Event) override { return kSuccess; }
  void recycle(Event) noexcept override {}
  Status synchronize_all(uint64_t) override { return kSuccess; }
  Status is_capturing(Stream, bool& capturing) override { return say(capturing, false); }
  Status capture_id(Stream, uint64_t& id) override { return say(id, uint64_t{0}); }

  // ---- streams and data

  Status create_stream(Stream& stream) override {
    return say(stream, last_host_stream.fetch_add(1, std::memory_order_relaxed) + 1);
  }
  Status destroy_stream(Stream) override { return kSuccess; }
  Status synchronize_stream(Stream) override { return kSuccess; }
  Status copy(Address destination, Address source, uint64_t size, Stream) override {
    std::memmove(pointer_to(destination), pointer_to(source), size);
    return kSuccess;
  }
  Status transfer(Address destination, Address source, uint64_t size, Stream stream) override {
    return copy(destination, source, size, stream);
  }
  Status fill(Address destination, uint8_t value, uint64_t size, Stream) override {
    std::memset(pointer_to(destination), value, size);
    return kSuccess;
  }
  Status fill_words(Address destination, uint32_t word, uint64_t size, Stream) override {
    std::fill_n(static_cast<uint32_t*>(pointer_to(destination)), size / sizeof word, word);
    return kSuccess;
  }

  Status begin_inspecting() override { return kSuccess; }
  Status inspect(std::span<const Look> looks, Address report, Stream) override {
    for (const Look& look : looks) {
      do_look(look, static_cast<const uint8_t*>(pointer_to(look.address)),
              *static_cast<DamageReport*>(pointer_to(report)));
    }
    return kSuccess;
  }

 private:
  template <typename Value>
  static Status say(Value& where, Value what) noexcept {
    where = what;
    return kSuccess;
  }

  DeviceInfo info_;
};

}  // namespace

Status count_hosts(int32_t& count) {
  os::HostMemory now;
  if (const Status status = read_host(now); status != kSuccess) return status;
  count = 1;
  return kSuccess;
}

Status open_host(int32_t, std::span<const int32_t> peers, std::unique_ptr<Device>& device) {
  os::HostMemory now;
  if (const Status status = read_host(now); status != kSuccess) return status;
  auto opened = std::make_unique<HostDevice>(now.total);
  for (const int32_t peer : peers) {
    if (const Status status = opened->add_peer(peer, false); status != kSuccess) return status;
  }
  device = std::move(opened);
  return kSuccess;
}

}  // namespace gpupool::internal
