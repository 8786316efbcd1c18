// SPDX-License-Identifier: Apache-2.0
// Tensors for other processes: one process hands over the chunks of a block as file descriptors, and the
// other maps them again. Both must use gpupool. A process and a descriptor are numbers that others may have
// later. So each export has a ticket: a descriptor of a random number, which is in the handle as well. While
// the ticket still leads to that random number, the other descriptors of the handle are what they were.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gpupool/gpupool.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iomanip>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "mappings.hpp"

namespace gpupool_torch {

/// The functions of the CUDA driver that this needs. Their types are spelled out, so the driver's header is
/// not needed.
class Driver {
 public:
  struct Access {
    int location_type = 1;  // a device
    int device;
    int flags = 3;  // reading and writing
  };
  using Handle = unsigned long long;
  using Address = unsigned long long;

  int (*retain)(Handle*, void*) = function<int(Handle*, void*)>("cuMemRetainAllocationHandle");
  int (*release)(Handle) = function<int(Handle)>("cuMemRelease");
  int (*export_handle)(void*, Handle, int, unsigned long long) =
      function<int(void*, Handle, int, unsigned long long)>("cuMemExportToShareableHandle");
  int (*import_handle)(Handle*, void*,
                       int) = function<int(Handle*, void*, int)>("cuMemImportFromShareableHandle");
  int (*reserve)(Address*, size_t, size_t, Address, unsigned long long) =
      function<int(Address*, size_t, size_t, Address, unsigned long long)>("cuMemAddressReserve");
  int (*unreserve)(Address, size_t) = function<int(Address, size_t)>("cuMemAddressFree");
  int (*map)(Address, size_t, size_t, Handle, unsigned long long) =
      function<int(Address, size_t, size_t, Handle, unsigned long long)>("cuMemMap");
  int (*unmap)(Address, size_t) = function<int(Address, size_t)>("cuMemUnmap");
  int (*set_access)(Address, size_t, const Access*,
                    size_t) = function<int(Address, size_t, const Access*, size_t)>("cuMemSetAccess");

  static const Driver& instance() {
    static const Driver driver;
    return driver;
  }

 private:
  template <typename Type>
  static Type* function(const char* name) {
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    void* found = library != nullptr ? dlsym(library, name) : nullptr;
    TORCH_CHECK(found != nullptr, "gpupool: the CUDA driver has no ", name);
    return reinterpret_cast<Type*>(found);
  }
};

constexpr int kFileDescriptor = 1;  // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

/// A file descriptor that closes with its owner.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) (void)close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

/// A random number that a descriptor leads to.
class Ticket {
 public:
  using Number = std::array<uint64_t, 2>;

  Ticket() : file_(memfd_create("gpupool", MFD_CLOEXEC)) {
    constexpr auto kSize = static_cast<ssize_t>(sizeof number_);
    TORCH_CHECK(file_.is_open() && getrandom(number_.data(), sizeof number_, 0) == kSize &&
                    pwrite(file_.number(), number_.data(), sizeof number_, 0) == kSize,
                "gpupool: a tensor cannot be shared: ", std::strerror(errno));
  }

  int descriptor() const { return file_.number(); }
  const Number& number() const { return number_; }

  static bool is_behind(const Descriptor& file, const Number& expected) {
    Number found{};
    return pread(file.number(), found.data(), sizeof found, 0) == static_cast<ssize_t>(sizeof found) &&
           found == expected;
  }

 private:
  Descriptor file_;
  Number number_{};
};

/// What a handle says.
struct Shared {
  struct Chunk {
    size_t size;
    int descriptor;
  };

  int pid = 0;
  int ticket = -1;
  Ticket::Number number{};
  std::vector<Chunk> chunks;

  std::string to_handle() const {
    std::ostringstream text;
    text << kMagic << ' ' << pid << ' ' << ticket << ' ' << number[0] << ' ' << number[1];
    for (const Chunk& each : chunks) text << ' ' << each.size << ' ' << each.descriptor;
    return text.str();
  }

  static Shared from_handle(const std::string& handle) {
    std::istringstream text(handle);
    std::string word;
    Shared shared;
    text >> word >> shared.pid >> shared.ticket >> shared.number[0] >> shared.number[1];
    for (Chunk chunk{}; text >> chunk.size >> chunk.descriptor;) shared.chunks.push_back(chunk);
    TORCH_CHECK(
        word == kMagic && !shared.chunks.empty(),
        "gpupool: the process that sent this tensor uses another allocator, or another version of gpupool. "
        "Install gpupool in both, or in none: GPUPOOL_INSTALL=torch in the environment does it in all");
    return shared;
  }

  /// This process' own descriptors of the chunks, in their order.
  std::vector<Descriptor> fetch() const {
    const Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    TORCH_CHECK(process.is_open(), "gpupool: the process ", pid, " that sent a tensor is gone");
    std::vector<Descriptor> own;
    own.reserve(chunks.size());
    for (const Chunk& each : chunks) own.push_back(fetch(process, each.descriptor));
    // Checked last, because the ticket is closed before the others.
    TORCH_CHECK(Ticket::is_behind(fetch(process, ticket), number), "gpupool: the process ", pid,
                " has freed a tensor that it sent, or is another one by now");
    return own;
  }

 private:
  static constexpr const char* kMagic = "gpupool-2";

  Descriptor fetch(const Descriptor& process, int descriptor) const {
    Descriptor own(static_cast<int>(syscall(SYS_pidfd_getfd, process.number(), descriptor, 0)));
    const int error = errno;
    TORCH_CHECK(own.is_open() || error != EBADF, "gpupool: the process ", pid,
                " has freed a tensor that it sent, or is another one by now");
    TORCH_CHECK(
        own.is_open(), "gpupool: this process may not take a tensor's memory from process ", pid, ": ",
        std::strerror(error),
        ". The system forbids it (kernel.yama.ptrace_scope, or a container's rules): send tensor.cpu()");
    return own;
  }
};

/// Reserved addresses, and the memory mapped there from the first one on.
class Mapped {
 public:
  explicit Mapped(size_t size) : size_(size) {
    TORCH_CHECK(Driver::instance().reserve(&address_, size_, 0, 0, 0) == 0,
                "gpupool: no addresses for a shared tensor");
  }
  ~Mapped() {
    if (mapped_ != 0) (void)Driver::instance().unmap(address_, mapped_);
    (void)Driver::instance().unreserve(address_, size_);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  void add(const Descriptor& chunk, size_t size) {
    Driver::Handle handle = 0;
    const int imported = Driver::instance().import_handle(
        &handle, reinterpret_cast<void*>(static_cast<intptr_t>(chunk.number())), kFileDescriptor);
    TORCH_CHECK(imported == 0, "gpupool: the driver does not take a shared tensor's memory: error ",
                imported);
    const int mapped = Driver::instance().map(address_ + mapped_, size, 0, handle, 0);
    (void)Driver::instance().release(handle);
    TORCH_CHECK(mapped == 0, "gpupool: a shared tensor's memory cannot be mapped: error ", mapped);
    mapped_ += size;
  }

  void let_access(c10::DeviceIndex device) {
    const Driver::Access access{.device = device};
    TORCH_CHECK(Driver::instance().set_access(address_, size_, &access, 1) == 0,
                "gpupool: a shared tensor cannot be used on device ", int(device));
  }

  void* address() const { return reinterpret_cast<void*>(address_); }

 private:
  Driver::Address address_ = 0;
  size_t size_;
  size_t mapped_ = 0;
};

/// Memory of another process, mapped here for the current device and its peers.
class Imported {
 public:
  Imported(const Shared& shared, const std::vector<c10::DeviceIndex>& peers)
      : device(current_device()), memory_(size_of(shared)) {
    const std::vector<Descriptor> own = shared.fetch();
    for (size_t i = 0; i < own.size(); ++i) memory_.add(own[i], shared.chunks[i].size);
    memory_.let_access(device);
    for (const c10::DeviceIndex peer : peers) memory_.let_access(peer);
  }

  ~Imported() {
    const c10::cuda::CUDAGuard guard(device);
    (void)cudaDeviceSynchronize();
  }

  Imported(const Imported&) = delete;
  Imported& operator=(const Imported&) = delete;

  void let_access(c10::DeviceIndex peer) { memory_.let_access(peer); }
  void* address() const { return memory_.address(); }

  static c10::DeviceIndex current_device() {
    c10::DeviceIndex device = -1;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    return device;
  }

  const c10::DeviceIndex device;

 private:
  static size_t size_of(const Shared& shared) {
    size_t size = 0;
    for (const Shared::Chunk& each : shared.chunks) size += each.size;
    return size;
  }

  Mapped memory_;
};

class Sharing {
 public:
  using ShareableHandle = c10::cuda::CUDACachingAllocator::ShareableHandle;

  /// block is the block of this pool that ptr points into. The descriptors stay open until it is freed:
  /// PyTorch keeps it while others use it.
  ShareableHandle share(gpupool_t* pool, const gpupool_block_t& block, void* ptr) {
    const std::lock_guard lock(mutex_);
    auto own = exports_.find(block.address);
    if (own == exports_.end()) {
      own = exports_.emplace(block.address, std::make_unique<Export>(pool, block)).first;
      is_empty_.store(false, std::memory_order_relaxed);
    }
    return {static_cast<ptrdiff_t>(reinterpret_cast<uintptr_t>(ptr) - own->second->start),
            own->second->handle};
  }

  void forget(void* ptr) {
    if (is_empty_.load(std::memory_order_relaxed)) return;
    const std::lock_guard lock(mutex_);
    exports_.erase(reinterpret_cast<uintptr_t>(ptr));
    is_empty_.store(exports_.empty(), std::memory_order_relaxed);
  }

  /// One mapping for all tensors of a block; it goes with the last of them.
  std::shared_ptr<void> open(const std::string& handle) {
    const std::lock_guard lock(mutex_);
    const auto known = imports_.find(handle);
    std::shared_ptr<Imported> memory = known != imports_.end() ? known->second.lock() : nullptr;
    if (memory == nullptr) {
      auto imported =
          std::make_unique<Imported>(Shared::from_handle(handle), peers_[Imported::current_device()]);
      memory = {imported.release(), [this, handle](Imported* gone) { close_import(handle, gone); }};
      imports_[handle] = memory;
    }
    return {memory, memory->address()};
  }

  /// Lets a peer use everything that is imported on a device, now and later.
  void enable_peer(c10::DeviceIndex device, c10::DeviceIndex peer) {
    const std::lock_guard lock(mutex_);
    auto& peers = peers_[device];
    if (std::find(peers.begin(), peers.end(), peer) != peers.end()) return;
    for (const auto& [handle, import] : imports_) {
      const std::shared_ptr<Imported> memory = import.lock();
      if (memory != nullptr && memory->device == device) memory->let_access(peer);
    }
    peers.push_back(peer);
  }

  /// How many mappings there are of other processes' memory.
  size_t import_count() {
    const std::lock_guard lock(mutex_);
    return imports_.size();
  }

 private:
  struct Export {
    Export(gpupool_t* pool, const gpupool_block_t& block) {
      Shared shared{getpid(), ticket.descriptor(), ticket.number(), {}};
      for (const gpupool_segment_t& chunk : chunks_of(pool)) {
        if (chunk.address + chunk.size_bytes <= block.address) continue;
        if (chunk.address >= block.address + block.allocated_bytes) break;
        if (start == 0) start = chunk.address;
        descriptors.push_back(exported(chunk.address));
        shared.chunks.push_back({chunk.size_bytes, descriptors.back().number()});
      }
      handle = shared.to_handle();
    }

    static Descriptor exported(uintptr_t address) {
      Driver::Handle handle = 0;
      int descriptor = -1;
      int result = Driver::instance().retain(&handle, reinterpret_cast<void*>(address));
      if (result == 0) {
        result = Driver::instance().export_handle(&descriptor, handle, kFileDescriptor, 0);
        (void)Driver::instance().release(handle);
      }
      TORCH_CHECK(result == 0, "gpupool: the driver does not share this memory between processes (error ",
                  result, "): send tensor.cpu()");
      return Descriptor(descriptor);
    }

    uintptr_t start = 0;
    std::string handle;
    std::vector<Descriptor> descriptors;
    Ticket ticket;  // last, so that it is closed first
  };

  /// Removes the entry with the mapping, unless the same memory has been mapped anew meanwhile.
  void close_import(const std::string& handle, Imported* gone) {
    {
      const std::lock_guard lock(mutex_);
      const auto known = imports_.find(handle);
      if (known != imports_.end() && known->second.expired()) imports_.erase(known);
    }
    delete gone;  // waits for the device
  }

  std::recursive_mutex mutex_;  // an import that fails half-way is closed under it
  std::atomic<bool> is_empty_{true};
  std::map<uintptr_t, std::unique_ptr<Export>> exports_;
  std::map<std::string, std::weak_ptr<Imported>> imports_;
  std::map<c10::DeviceIndex, std::vector<c10::DeviceIndex>> peers_;
};

}  // namespace gpupool_torch
