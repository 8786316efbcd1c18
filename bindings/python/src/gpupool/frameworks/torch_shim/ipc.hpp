// SPDX-License-Identifier: Apache-2.0
// Tensors for other processes: the chunks that a block lies in are handed over as file descriptors, and
// mapped again there. Both processes must use gpupool.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gpupool/frameworks.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace gpupool_torch {

/// The functions of the CUDA driver that this needs. Their types are spelled out, so that no header of the
/// driver has to be there.
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

/// Memory of another process, mapped here.
class Imported {
 public:
  struct Chunk {
    size_t size;
    int descriptor;
  };

  Imported(int pid, const std::vector<Chunk>& chunks) {
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device_));
    for (const Chunk& each : chunks) size_ += each.size;
    const Driver& driver = Driver::instance();
    TORCH_CHECK(driver.reserve(&address_, size_, 0, 0, 0) == 0, "gpupool: no addresses for a shared tensor");
    const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    TORCH_CHECK(process >= 0, "gpupool: the process ", pid, " that sent a tensor is gone");
    for (const Chunk& each : chunks) map(pid, process, each);
    close(process);
    const Driver::Access access{.device = device_};
    TORCH_CHECK(driver.set_access(address_, size_, &access, 1) == 0,
                "gpupool: a shared tensor cannot be used on device ", int(device_));
  }

  ~Imported() {
    const c10::cuda::CUDAGuard guard(device_);
    (void)cudaDeviceSynchronize();
    (void)Driver::instance().unmap(address_, size_);
    (void)Driver::instance().unreserve(address_, size_);
  }

  Imported(const Imported&) = delete;
  Imported& operator=(const Imported&) = delete;

  void* address() const { return reinterpret_cast<void*>(address_); }

 private:
  void map(int pid, int process, const Chunk& chunk) {
    const int own = static_cast<int>(syscall(SYS_pidfd_getfd, process, chunk.descriptor, 0));
    TORCH_CHECK(
        own >= 0, "gpupool: this process may not take a tensor's memory from process ", pid, ": ",
        std::strerror(errno),
        ". The system forbids it (kernel.yama.ptrace_scope, or a container's rules): send tensor.cpu()");
    Driver::Handle handle = 0;
    const int imported = Driver::instance().import_handle(
        &handle, reinterpret_cast<void*>(static_cast<intptr_t>(own)), kFileDescriptor);
    close(own);
    TORCH_CHECK(imported == 0, "gpupool: the driver does not take a shared tensor's memory: error ",
                imported);
    const int mapped = Driver::instance().map(address_ + mapped_, chunk.size, 0, handle, 0);
    (void)Driver::instance().release(handle);
    TORCH_CHECK(mapped == 0, "gpupool: a shared tensor's memory cannot be mapped: error ", mapped);
    mapped_ += chunk.size;
  }

  c10::DeviceIndex device_ = -1;
  Driver::Address address_ = 0;
  size_t size_ = 0;
  size_t mapped_ = 0;
};

class Sharing {
 public:
  using ShareableHandle = c10::cuda::CUDACachingAllocator::ShareableHandle;

  /// The descriptors stay open until the block is freed: PyTorch keeps it while others use it.
  ShareableHandle share(gpupool_t* pool, void* ptr) {
    gpupool_block_t block{};
    TORCH_CHECK(pool != nullptr && gpupool_block_info(pool, reinterpret_cast<uintptr_t>(ptr), &block,
                                                      sizeof block) == GPUPOOL_SUCCESS,
                "gpupool: ", ptr, " is in no live block, so that it cannot be shared");
    const std::lock_guard lock(mutex_);
    Export& own = exports_[block.address];
    if (own.handle.empty()) own = exported(pool, block);
    return {static_cast<ptrdiff_t>(reinterpret_cast<uintptr_t>(ptr) - own.start), own.handle};
  }

  void forget(void* ptr) {
    if (is_empty_.load(std::memory_order_relaxed)) return;
    const std::lock_guard lock(mutex_);
    const auto own = exports_.find(reinterpret_cast<uintptr_t>(ptr));
    if (own == exports_.end()) return;
    for (const int descriptor : own->second.descriptors) close(descriptor);
    exports_.erase(own);
    is_empty_.store(exports_.empty(), std::memory_order_relaxed);
  }

  /// One mapping for all tensors of a block; it goes with the last of them.
  std::shared_ptr<void> open(const std::string& handle) {
    std::istringstream text(handle);
    std::string word;
    int pid = 0;
    std::vector<Imported::Chunk> chunks;
    text >> word >> pid;
    for (Imported::Chunk chunk{}; text >> chunk.size >> chunk.descriptor;) chunks.push_back(chunk);
    TORCH_CHECK(
        word == kMagic && !chunks.empty(),
        "gpupool: the process that sent this tensor uses another allocator. Install gpupool in both, or in "
        "none: GPUPOOL_INSTALL=torch in the environment does it in all");
    const std::lock_guard lock(mutex_);
    std::weak_ptr<Imported>& known = imports_[handle];
    std::shared_ptr<Imported> memory = known.lock();
    if (memory == nullptr) {
      memory = std::make_shared<Imported>(pid, chunks);
      known = memory;
    }
    return {memory, memory->address()};
  }

 private:
  static constexpr const char* kMagic = "gpupool-1";
  struct Export {
    uintptr_t start = 0;
    std::string handle;
    std::vector<int> descriptors;
  };

  Export exported(gpupool_t* pool, const gpupool_block_t& block) {
    Export own;
    std::ostringstream text;
    text << kMagic << ' ' << getpid();
    for (const gpupool_segment_t& chunk : chunks_of(pool, block)) {
      if (own.start == 0) own.start = chunk.address;
      Driver::Handle handle = 0;
      int descriptor = -1;
      int result = Driver::instance().retain(&handle, reinterpret_cast<void*>(chunk.address));
      if (result == 0) {
        result = Driver::instance().export_handle(&descriptor, handle, kFileDescriptor, 0);
        (void)Driver::instance().release(handle);
      }
      TORCH_CHECK(result == 0, "gpupool: the driver does not share this memory between processes (error ",
                  result, "): send tensor.cpu()");
      own.descriptors.push_back(descriptor);
      text << ' ' << chunk.size_bytes << ' ' << descriptor;
    }
    own.handle = text.str();
    is_empty_.store(false, std::memory_order_relaxed);
    return own;
  }

  static std::vector<gpupool_segment_t> chunks_of(gpupool_t* pool, const gpupool_block_t& block) {
    std::vector<gpupool_segment_t> all;
    size_t count = 0;
    size_t blocks = 0;
    do {
      all.resize(count);
      (void)gpupool_snapshot(pool, all.data(), sizeof(gpupool_segment_t), all.size(), &count, nullptr,
                             sizeof(gpupool_block_t), 0, &blocks);
    } while (count > all.size());
    all.resize(count);
    std::erase_if(all, [&](const gpupool_segment_t& chunk) {
      return chunk.address + chunk.size_bytes <= block.address ||
             chunk.address >= block.address + block.allocated_bytes;
    });
    return all;
  }

  std::mutex mutex_;
  std::atomic<bool> is_empty_{true};
  std::map<uintptr_t, Export> exports_;
  std::map<std::string, std::weak_ptr<Imported>> imports_;
};

}  // namespace gpupool_torch
