// SPDX-License-Identifier: Apache-2.0
// Memory between processes: a pool's blocks that others may map, and blocks of others that this pool maps.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/no_copy.hpp"
#include "core/range.hpp"
#include "pool/rules/pool_lock.hpp"
#include "share/handoff.hpp"

namespace gpupool::internal {

struct PoolState;

/// Guarded by the pool's lock.
class Exports : NoCopy {
 public:
  explicit Exports(PoolState& pool) noexcept : pool_(pool) {}

  Status add(Address address, std::string& handle);
  /// The block, if it is exported, else 0; for 0, any that is.
  Address find(Address block) const noexcept {
    const auto found = block == 0 ? offers_.begin() : offers_.find(block);
    return found != offers_.end() ? found->first : 0;
  }

  /// A block is freed: nobody can import it any more.
  void close(Address address) noexcept;
  /// Keeps a freed block that its streams have passed, as a pending one, if another process still uses it.
  bool keep(Range& block) noexcept;
  /// A block that was kept, and that nobody uses any more; null: the next few are still in use. With `all`,
  /// looks at all of them. At the pool's end, every block that is kept.
  Range* take_passed(bool all) noexcept;
  uint64_t kept_bytes() const noexcept;
  bool is_valid() const noexcept;

  /// At the pool's end, when no block is live: the driver keeps the memory for those who have imported it.
  void end() noexcept { has_ended_ = true; }
  /// In a child after fork: they are the parent's.
  void forget() noexcept;

 private:
  struct Exported {
    std::unique_ptr<share::Offer> offer;
    Range* kept = nullptr;  // once it is freed, and others still use it
  };
  using Offers = std::map<Address, Exported>;

  Status make_offer(const Range& block, std::unique_ptr<share::Offer>& offer);
  Range* take(Offers::iterator which) noexcept;

  PoolState& pool_;
  Offers offers_;
  size_t kept_ = 0;
  bool has_ended_ = false;
  Address next_ = 0;  // where take_passed() goes on
};

/// Guarded by the pool's lock.
class Imports : NoCopy {
 public:
  explicit Imports(PoolState& pool) noexcept : pool_(pool) {}

  Status open(std::string_view handle, Address& address, uint64_t& size);
  Status close(PoolLock& lock, Address address);
  bool empty() const noexcept { return imports_.empty(); }
  /// After a peer was added or removed.
  Status set_access();

  /// At the pool's end. What the device does not unmap stays for another try.
  void end(PoolLock& lock) noexcept;
  /// In a child after fork: they are the parent's.
  void forget() noexcept;

 private:
  struct Imported {
    std::string handle;
    std::unique_ptr<share::Taking> taking;
    Address base = 0;
    uint64_t mapped = 0;
    uint64_t count = 0;  // opens without a close
  };

  Status map(Imported& imported);
  Status map_part(const share::HandoffPart& part, Imported& imported);
  Status unmap(const Imported& imported) noexcept;

  PoolState& pool_;
  std::map<Address, Imported> imports_;  // by the block's address here
};

}  // namespace gpupool::internal
