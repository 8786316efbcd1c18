// SPDX-License-Identifier: Apache-2.0
// What is at an address, or was, in words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "device/device.hpp"
#include "pool/debug/block_history.hpp"

namespace gpupool::internal {

class Debugger;
class Sampler;
struct Space;

/// Lives for one question. What is found under the pool's lock is told without it, since stacks ask the
/// loader for names.
class Explanation {
 public:
  explicit Explanation(Address address) noexcept : address_(address) {}

  /// With the pool's lock. Without debug modes there is no debugger.
  void find(const Space& space, const Debugger* debugger);

  /// With no lock held: adds what was found. Returns how sure that is, 0: nothing is known. Throws
  /// std::bad_alloc.
  int tell(uint64_t pool, const DeviceInfo& info, const Sampler& sampler, std::string& text);

 private:
  enum Sureness : int { kUnheardOf, kNear, kFreeMemory, kGone, kInUse };

  void find_in_book(const BlockHistory& book);
  void find_in_samples(const Sampler& sampler);
  void tell_block(const BlockRecord& block, std::string& text) const;

  const Address address_;
  Sureness sureness_ = kUnheardOf;
  bool has_book_ = false;
  std::optional<BlockRecord> block_;  // the block that holds the address
  std::optional<BlockRecord> below_;
  std::optional<BlockRecord> above_;
};

}  // namespace gpupool::internal
