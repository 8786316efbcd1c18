// SPDX-License-Identifier: Apache-2.0
// Bytes on the host: what a language can be given, and memory for copies that nobody waits for.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "owned_block.hpp"

namespace binding {

/// What a language keeps bytes in, and how many of them that holds at most.
struct ByteType {
  const char* name;
  uint64_t most;
};
/// Defined by each language.
inline ByteType byte_type() noexcept;

/// Refuses more bytes than the language could be given, before memory is taken for them and any is copied.
inline void check_holds(uint64_t length) {
  const ByteType type = byte_type();
  if (length <= type.most) return;
  refuse(std::to_string(length) + " bytes are more than " + type.name + " holds, " +
         std::to_string(type.most) + ": read them in parts, by offset and length");
}

/// Bytes on the host, pinned where the device can pin, because the driver waits for copies of other memory.
class Staging {
 public:
  /// A copy of bytes that will be written.
  static std::unique_ptr<Staging> holding(const Core& core, const char* data, uint64_t length) {
    std::unique_ptr<Staging> staging(new Staging(core, length, false));
    std::copy_n(data, length, staging->data());
    return staging;
  }
  /// Room for bytes that will be read.
  static std::unique_ptr<Staging> to_read(const Core& core, uint64_t length) {
    return std::unique_ptr<Staging>(new Staging(core, length, true));
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  /// The copy is done.
  ~Staging() {
    if (pinned_ != 0) (void)gpupool_free(pool_->handle, pinned_, 0);
  }

  char* data() noexcept { return pinned_ != 0 ? reinterpret_cast<char*>(pinned_) : pageable_.get(); }
  uint64_t size() const noexcept { return size_; }
  gpupool_ptr_t address() noexcept { return reinterpret_cast<uintptr_t>(data()); }
  bool is_read() const noexcept { return is_read_; }

 private:
  Staging(const Core& core, uint64_t size, bool is_read)
      : pool_(core.pinned_pool()), size_(size), is_read_(is_read) {
    if (size_ == 0) return;
    if (!pool_ || gpupool_malloc(pool_->handle, size_, 0, &pinned_) != GPUPOOL_SUCCESS) {
      pinned_ = 0;
      pageable_ = std::make_unique_for_overwrite<char[]>(size_);
    }
  }

  const std::shared_ptr<PinnedPool> pool_;
  const uint64_t size_;
  const bool is_read_;
  gpupool_ptr_t pinned_ = 0;
  std::unique_ptr<char[]> pageable_;
};

}  // namespace binding
