// SPDX-License-Identifier: Apache-2.0
// A device as the pool sees it: the driver's virtual memory, the driver's own malloc, and streams.
//
// Preconditions, stated once for all implementations:
//   - sizes are positive multiples of info().granularity for chunks and mappings, of 512 for malloc;
//   - addresses given to map, set_access and unmap lie in a range from reserve_addresses;
//   - a mapping is unmapped whole, and only when no work can touch it;
//   - out-parameters are never null, and are written on success only.
// Callers ensure them; implementations need not check (the simulated device does, and counts faults).
//
// Every function may be called from any thread, with one exception: capture_id, record and wait touch a
// stream. While a capture begins or ends there on another thread, that ends the capture or the process, so
// they are for calls whose caller uses the stream (StreamUser in the pool). Only synchronize,
// synchronize_all, allocate, deallocate, synchronize_stream and destroy_stream may wait for the GPU, and
// transfer if much is already queued.
// Functions describe a failure with fail() or fail_driver(); if the device lacks memory, or the process
// addresses, that is GPUPOOL_ERROR_OUT_OF_MEMORY. After the driver has gone, every function returns
// GPUPOOL_ERROR_SHUTTING_DOWN.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "device/inspection.hpp"

namespace gpupool::internal {

using Address = gpupool_ptr_t;
using Stream = gpupool_stream_t;

/// A physical chunk, as the driver names it.
using ChunkHandle = uint64_t;

/// A point in a stream's order. 0 means no event.
using Event = uint64_t;

inline constexpr uint64_t kCaptureElsewhere = ~uint64_t{0} - 1;

/// What a device and its peers may do with mapped memory.
enum class Permission : int32_t {
  write = GPUPOOL_ACCESS_WRITE,
  read = GPUPOOL_ACCESS_READ,
  none = GPUPOOL_ACCESS_NONE,
};

/// What a pool in debug mode annotate says of its memory.
enum class Accessibility : uint8_t {
  open,    // anybody may touch it: it is the pool's no longer, or the pool itself is at it
  closed,  // nobody may
  block,   // what was open is a block now
  freed,   // the same block is closed
};

enum class Kind : int32_t {
  device = GPUPOOL_KIND_DEVICE,
  pinned = GPUPOOL_KIND_PINNED,
  managed = GPUPOOL_KIND_MANAGED,
};

/// A chunk as another process can get it: a descriptor, and where in the file behind it the chunk begins.
struct SharedChunk {
  int descriptor = -1;
  uint64_t offset = 0;
};

/// The properties of a device that never change.
struct DeviceInfo {
  gpupool_backend_t backend = GPUPOOL_BACKEND_AUTO;  // set by each device, as the name is
  const char* backend_name = "";
  int32_t ordinal = 0;
  uint32_t capabilities = 0;  // bits of gpupool_capability_t
  uint64_t total = 0;
  uint64_t granularity = 0;  // a power of two
  int32_t driver_version = 0;
  int32_t compute_capability = 0;
  bool keeps_data = true;            // false: addresses only, and nothing can be read back
  bool annotates = false;            // annotate() has a use
  bool ends_before_process = false;  // its driver: once it has, every call gives SHUTTING_DOWN
  // Accesses are checked when work runs, not when it is queued: by compute-sanitizer, which knows of no
  // chunks.
  bool is_under_sanitizer = false;
  char name[128] = {};
  char id[64] = {};  // the same in every process, and unique to this device
};

/// The driver calls that are counted, timed, and made to fail by scripts.
enum class Call : uint8_t {
  create,
  release,
  map,
  set_access,
  unmap,
  address,
  malloc,
  free,
  event_record,
  query,
  stream_wait,
  host_wait,
  copy,    // for the pool itself
  stream,  // creating and destroying
  share,   // exporting and importing
};

/// In the order of Call, as statistics and scripts name them.
inline constexpr std::array<const char*, 15> kCallNames = {
    "create",       "release", "map",         "set_access", "unmap", "address", "malloc", "free",
    "event_record", "query",   "stream_wait", "host_wait",  "copy",  "stream",  "share"};
inline constexpr size_t kCalls = kCallNames.size();

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const noexcept = 0;

  /// Bytes now free on the device, whoever holds the rest.
  virtual Status free_memory(uint64_t& free) = 0;

  /// Monotonic time for measuring calls: virtual on the simulated device.
  virtual uint64_t now_ns() noexcept = 0;

  /// Whether whoever owns the device's context has reset or destroyed it: streams, events and the driver's
  /// own allocations went with it, and what a pool has mapped belongs to nobody. Final, and quick to ask.
  virtual bool is_lost() noexcept { return false; }

  // ---- virtual memory

  virtual Status reserve_addresses(uint64_t size, Address& base) = 0;
  virtual Status release_addresses(Address base, uint64_t size) = 0;
  virtual Status create_chunk(uint64_t size, ChunkHandle& chunk) = 0;
  virtual Status release_chunk(ChunkHandle chunk) = 0;
  virtual Status map(Address address, uint64_t size, ChunkHandle chunk) = 0;
  /// Makes mapped addresses usable by the device and its peers.
  virtual Status set_access(Address address, uint64_t size) = 0;
  /// Changes what they may do there, after set_access. Work that does more is a fault.
  virtual Status protect(Address address, uint64_t size, Permission access) = 0;
  /// Unmaps [address, address + size), which must be one or several whole mappings.
  virtual Status unmap(Address address, uint64_t size) = 0;

  // ---- memory between processes

  /// Gives a new descriptor of a chunk. Whoever closes it and all its copies gives up a hold on the memory.
  virtual Status export_chunk(ChunkHandle chunk, SharedChunk& shared) = 0;
  /// Takes a chunk of `size` bytes from a descriptor that export_chunk gave in another process, or in this
  /// one. The descriptor stays the caller's. The memory lives until the last process has released it.
  virtual Status import_chunk(const SharedChunk& shared, uint64_t size, ChunkHandle& chunk) = 0;

  // ---- peers: other devices that may touch this one's memory

  /// Adds a peer: from now on set_access gives it access too. If `all` is true, it may also touch everything
  /// that allocate returns, past and future. A known peer, or the device itself, is not an error.
  virtual Status add_peer(int32_t peer, bool all) = 0;
  /// From now on set_access removes the peer's access.
  virtual void remove_peer(int32_t peer) noexcept = 0;

  // ---- the driver's own malloc; may wait for the GPU

  virtual Status allocate(Kind kind, uint64_t size, Stream stream, Address& address) = 0;
  virtual Status deallocate(Kind kind, Address address, uint64_t size, Stream stream) = 0;

  // ---- order

  /// A number for the context that a stream belongs to: 0 for the device's own. May be asked at any time.
  virtual Status context_of(Stream stream, uint64_t& context) = 0;
  /// Whether such a context is still there. Streams of one that has ended must not be named to the driver.
  virtual bool has_context(uint64_t) { return true; }
  /// Records a new event behind the work queued on stream, which belongs to that context. Return it with
  /// recycle.
  virtual Status record(Stream stream, uint64_t context, Event& event) = 0;
  virtual Status query(Event event, bool& passed) = 0;
  /// Makes later work of stream wait for event, on the GPU.
  virtual Status wait(Stream stream, Event event) = 0;
  /// Waits for event on the host.
  virtual Status synchronize(Event event) = 0;
  virtual void recycle(Event event) noexcept = 0;
  /// Waits on the host for everything queued so far on any stream of a context, 0: the device's own. Legal
  /// while streams capture, on any thread. Costs about 100 us, and other threads may have to wait to queue
  /// work meanwhile.
  virtual Status synchronize_all(uint64_t context) = 0;
  /// Whether a stream captures, or other streams' captures forbid to touch it. May be asked at any time. One
  /// that was destroyed does not, where the driver says so; CUDA's may crash.
  virtual Status is_capturing(Stream stream, bool& capturing) = 0;
  /// A number that names the capture in progress on stream; 0 if there is none. kCaptureElsewhere: the stream
  /// is not capturing, but querying it would disturb another stream that is (the legacy stream).
  virtual Status capture_id(Stream stream, uint64_t& id) = 0;

  // ---- streams and data, for programs that use no other CUDA library

  virtual Status create_stream(Stream& stream) = 0;
  virtual Status destroy_stream(Stream stream) = 0;
  virtual Status synchronize_stream(Stream stream) = 0;
  virtual Status copy(Address destination, Address source, uint64_t size, Stream stream) = 0;
  virtual Status fill(Address destination, uint8_t value, uint64_t size, Stream stream) = 0;
  /// The same with a word of 32 bits, for the pool itself: address and size are multiples of 4.
  virtual Status fill_words(Address destination, uint32_t word, uint64_t size, Stream stream) = 0;

  // ---- sleep

  /// How much more host memory could be page-locked now, as far as the system reports.
  virtual Status host_memory(uint64_t& available) = 0;
  /// Queues a copy between device memory and pinned memory from allocate, for the pool itself.
  virtual Status transfer(Address destination, Address source, uint64_t size, Stream stream) = 0;
  /// For messages about accesses: these addresses have no memory because the pool with that name sleeps.
  /// Null: it no longer does.
  virtual void name_asleep(Address address, uint64_t size, const char* pool) noexcept = 0;

  // ---- debug modes

  /// Gets ready for inspect(). May wait for the GPU.
  virtual Status begin_inspecting() = 0;
  /// Queues looks, 1 to kLooksAtOnce. What they find goes to a DamageReport at `report`, in pinned memory.
  /// Not for a stream that captures.
  virtual Status inspect(std::span<const Look> looks, Address report, Stream stream) = 0;

  /// Says who may touch memory of the pool, for the device and the tools that watch accesses to it. On a
  /// simulated device, the pool's own fill_words, transfer and inspect may touch all of it.
  virtual void annotate(Address address, uint64_t size, Accessibility accessibility) noexcept = 0;
};

}  // namespace gpupool::internal
