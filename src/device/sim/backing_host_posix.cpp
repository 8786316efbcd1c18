// SPDX-License-Identifier: Apache-2.0
// With data: a mapping is a real mapping, so two addresses of one chunk are the same memory, and touching
// unmapped memory is a segmentation fault, as it is an illegal access on a GPU.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/no_copy.hpp"
#include "device/sim/backing.hpp"
#include "os/files.hpp"

namespace gpupool::internal {
namespace {

constexpr uint64_t kStoreSize = uint64_t{1} << 62;
constexpr int kNothing = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

void* pointer(Address address) noexcept {
  return reinterpret_cast<void*>(address);
}

int protection_of(Permission access) noexcept {
  switch (access) {
    case Permission::write: return PROT_READ | PROT_WRITE;
    case Permission::read: return PROT_READ;
    case Permission::none: break;
  }
  return PROT_NONE;
}

Status host_failure(const char* what, uint64_t size) noexcept {
  return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "simulated device: the host cannot %s %llu bytes: %s", what,
              static_cast<unsigned long long>(size), std::strerror(errno));
}

class HostBacking final : public SimBacking, NoCopy {
 public:
  HostBacking() = default;
  ~HostBacking() override {
    for (const auto& [offset, memory] : imported_) close(memory.file);
    if (store_ >= 0) close(store_);
  }

  bool has_data() const noexcept override { return true; }

  Status reserve(uint64_t size, uint64_t alignment, Address& base) override {
    size = align_up(size, os::kPageBytes);
    const uint64_t extra = alignment > os::kPageBytes ? alignment : 0;
    void* const found = mmap(nullptr, size + extra, PROT_NONE, kNothing, -1, 0);
    if (found == MAP_FAILED) return host_failure("reserve addresses for", size);
    const auto first = reinterpret_cast<Address>(found);
    const Address aligned = align_up(first, alignment);
    if (aligned != first) munmap(found, aligned - first);
    const uint64_t behind = first + extra - aligned;
    if (behind != 0) munmap(pointer(aligned + size), behind);
    base = aligned;
    return kSuccess;
  }

  void release(Address base, uint64_t size) noexcept override {
    munmap(pointer(base), align_up(size, os::kPageBytes));
  }

  Status create(uint64_t size, uint64_t& offset) override {
    if (store_ < 0) store_ = os::make_sparse_file(kStoreSize);
    if (store_ < 0) return host_failure("create a file for", size);
    offset = next_offset_;
    next_offset_ += align_up(size, os::kPageBytes);
    return kSuccess;
  }

  /// Memory that another process has imported stays, as a GPU's driver keeps it.
  void discard(uint64_t offset, uint64_t size) noexcept override {
    if (const auto found = imported_.find(offset); found != imported_.end()) {
      close(found->second.file);
      imported_.erase(found);
      return;
    }
    if (shared_.erase(offset) != 0 && os::is_held(store_, offset, size)) return;
    os::punch_hole(store_, offset, align_up(size, os::kPageBytes));
  }

  // The descriptor is one of the whole store. Whoever imports a part of it holds that part.

  Status export_part(uint64_t offset, SharedChunk& shared) override {
    shared_.insert(offset);
    const int copy = fcntl(store_, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
      return fail(GPUPOOL_ERROR_UNAVAILABLE, "no descriptor for a chunk: %s", std::strerror(errno));
    shared = {copy, offset};
    return kSuccess;
  }

  Status import_part(const SharedChunk& shared, uint64_t size, uint64_t& offset) override {
    const auto [entry, inserted] = imported_.try_emplace(next_offset_);
    const int file = os::open_again(shared.descriptor);
    struct stat found {};
    if (file < 0 || fstat(file, &found) != 0 || shared.offset > kStoreSize - size ||
        static_cast<uint64_t>(found.st_size) < shared.offset + size ||
        !os::hold_part(file, shared.offset, size)) {
      if (file >= 0) close(file);
      imported_.erase(entry);
      return fail(GPUPOOL_ERROR_DRIVER, "simulated device: descriptor %d is no shared chunk of %llu bytes",
                  shared.descriptor, static_cast<unsigned long long>(size));
    }
    entry->second = {file, shared.offset, size};
    offset = next_offset_;
    next_offset_ += size;
    return kSuccess;
  }

  Status map(Address address, uint64_t size, uint64_t offset) override {
    const FileRange range = range_of(offset);
    void* const mapped = mmap(pointer(address), align_up(size, os::kPageBytes), PROT_NONE,
                              MAP_SHARED | MAP_FIXED, range.file, static_cast<off_t>(range.offset));
    return mapped == MAP_FAILED ? host_failure("map", size) : kSuccess;
  }

  Status set_access(Address address, uint64_t size, Permission access) override {
    const int result = mprotect(pointer(address), align_up(size, os::kPageBytes), protection_of(access));
    return result != 0 ? host_failure("make accessible", size) : kSuccess;
  }

  Status unmap(Address address, uint64_t size) override {
    void* const mapped =
        mmap(pointer(address), align_up(size, os::kPageBytes), PROT_NONE, kNothing | MAP_FIXED, -1, 0);
    return mapped == MAP_FAILED ? host_failure("unmap", size) : kSuccess;
  }

  // ---- fork. Only system calls: this may be the child of a process with many threads.

  void copy_for_child() noexcept override {
    copy_ = os::make_sparse_file(kStoreSize);
    if (copy_ < 0 || copy_store(copy_)) return;
    drop_copy();
  }

  void drop_copy() noexcept override {
    if (copy_ >= 0) close(copy_);
    copy_ = -1;
  }

  void become_copy() noexcept override {
    for (auto& [offset, memory] : imported_) close(std::exchange(memory.file, -1));
    if (store_ >= 0) close(store_);
    store_ = std::exchange(copy_, -1);
  }

  void map_again(Address address, uint64_t size, uint64_t offset, Permission access) noexcept override {
    const uint64_t length = align_up(size, os::kPageBytes);
    // What was imported is not copied: the child has none of it.
    if (range_of(offset).file == store_ && store_ >= 0 &&
        mmap(pointer(address), length, protection_of(access), MAP_SHARED | MAP_FIXED, store_,
             static_cast<off_t>(offset)) != MAP_FAILED) {
      return;
    }
    mmap(pointer(address), length, PROT_NONE, kNothing | MAP_FIXED, -1, 0);
  }

  // The kernel checks the host's side of a copy, so that a bad pointer is an error and not a crash.

  bool write(uint64_t offset, Address host, uint64_t size) noexcept override {
    FileRange range = range_of(offset);
    while (size != 0) {
      const ssize_t done = pwrite(range.file, pointer(host), size, static_cast<off_t>(range.offset));
      if (!advance(done, range.offset, host, size)) return false;
    }
    return true;
  }

  bool read(Address host, uint64_t offset, uint64_t size) noexcept override {
    FileRange range = range_of(offset);
    while (size != 0) {
      const ssize_t done = pread(range.file, pointer(host), size, static_cast<off_t>(range.offset));
      if (!advance(done, range.offset, host, size)) return false;
    }
    return true;
  }

 private:
  /// Where in which file physical memory is.
  struct FileRange {
    int file = -1;
    uint64_t offset = 0;
    uint64_t size = 0;
  };

  FileRange range_of(uint64_t offset) const noexcept {
    auto after = imported_.upper_bound(offset);
    if (after != imported_.begin()) {
      const auto& [begin, memory] = *--after;
      if (offset - begin < memory.size) return {memory.file, memory.offset + (offset - begin), 0};
    }
    return {store_, offset, 0};
  }

  static bool advance(ssize_t done, uint64_t& offset, Address& host, uint64_t& size) noexcept {
    if (done < 0) return errno == EINTR;
    if (done == 0) return false;
    const auto bytes = static_cast<uint64_t>(done);
    offset += bytes;
    host += bytes;
    size -= bytes;
    return true;
  }

  /// Copies every byte of the store that was ever written and not released.
  bool copy_store(int target) noexcept {
    off_t begin = 0;
    while ((begin = lseek(store_, begin, SEEK_DATA)) >= 0) {
      const off_t end = lseek(store_, begin, SEEK_HOLE);
      if (end < begin || !copy_bytes(target, begin, end)) return false;
      begin = end;
    }
    return errno == ENXIO;  // no more data
  }

  /// Through a window onto the target, because a file has no address to copy from.
  bool copy_bytes(int target, off_t begin, off_t end) noexcept {
    constexpr off_t kWindow = 64 << 20;
    while (begin < end) {
      const auto size = static_cast<uint64_t>(std::min(end - begin, kWindow));
      void* const window = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, target, begin);
      if (window == MAP_FAILED) return false;
      const bool done = read(reinterpret_cast<Address>(window), static_cast<uint64_t>(begin), size);
      munmap(window, size);
      if (!done) return false;
      begin += static_cast<off_t>(size);
    }
    return true;
  }

  int store_ = -1;
  int copy_ = -1;  // during a fork
  uint64_t next_offset_ = 0;
  std::map<uint64_t, FileRange> imported_;  // by the first offset of their names
  std::set<uint64_t> shared_;               // what is exported, by its offset
};

}  // namespace

Status check_host_backing() {
  return kSuccess;
}

std::unique_ptr<SimBacking> make_host_backing() {
  return std::make_unique<HostBacking>();
}

}  // namespace gpupool::internal
