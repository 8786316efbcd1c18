// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/exports.hpp"

#include <cinttypes>
#include <utility>

#include "pool/memory/blocks.hpp"
#include "pool/memory/pool_state.hpp"

namespace gpupool::internal {

namespace {

/// How many exports are looked at in one call, when not all are wanted.
constexpr size_t kLooks = 8;

/// A device without an id is taken to be the only one.
std::string id_of(const DeviceInfo& info) {
  return info.id[0] != '\0' ? info.id : "unknown";
}

}  // namespace

// ---- blocks of this pool

Status Exports::add(Address address, std::string& handle) {
  if (const Status status = share::check_handoff(); status != kSuccess) return status;
  if (!pool_.options.vmm) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "only a pool in vmm mode can export and import blocks");
  }
  if (pool_.options.debug.any()) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "a pool with debug modes cannot export its blocks");
  }
  Range* block = pool_.space.map.find(address);
  ThreadCache* owner = block != nullptr ? owner_of(*block) : nullptr;
  if (owner == nullptr || block->address != address || !block->is(State::live)) {
    return not_a_block(pool_.space, address);
  }
  if (const auto known = offers_.find(address); known != offers_.end()) {
    handle = known->second.offer->handle();
    return kSuccess;
  }
  std::unique_ptr<share::Offer> offer;
  if (const Status status = make_offer(*block, offer); status != kSuccess) return status;
  handle = offer->handle();
  const auto entry = offers_.emplace(address, Exported{std::move(offer), nullptr}).first;
  const std::lock_guard owner_lock(owner->lock);
  if (!block->is(State::live)) {
    offers_.erase(entry);
    return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "0x%" PRIx64 " was freed meanwhile", address);
  }
  block->add_marks(kDebugged);  // its free comes to the pool's lock
  return kSuccess;
}

Status Exports::make_offer(const Range& block, std::unique_ptr<share::Offer>& offer) {
  share::Handoff handoff{id_of(pool_.device.info()), 0, block.size, {}};
  Status status = kSuccess;
  for_chunks(*block.region, block.address, block.end(), [&](const Chunk* chunk) {
    if (status != kSuccess) return;
    if (handoff.parts.empty()) handoff.start = block.address - chunk->address;
    SharedChunk shared;
    handoff.parts.reserve(handoff.parts.size() + 1);
    status = pool_.device.export_chunk(chunk->handle, shared);
    if (status == kSuccess)
      handoff.parts.push_back({chunk->size, shared.offset, share::File(shared.descriptor)});
  });
  return status == kSuccess ? share::Offer::make(std::move(handoff), offer) : status;
}

void Exports::close(Address address) noexcept {
  if (offers_.empty()) return;
  if (const auto found = offers_.find(address); found != offers_.end()) found->second.offer->close();
}

bool Exports::keep(Range& block) noexcept {
  const auto found = offers_.empty() ? offers_.end() : offers_.find(block.address);
  if (found == offers_.end()) return false;
  if (has_ended_ || found->second.offer->is_over()) {
    offers_.erase(found);
    return false;
  }
  found->second.kept = &block;
  ++kept_;
  ThreadCache& owner = *owner_of(block);
  const std::lock_guard owner_lock(owner.lock);
  owner.counters.add_pending(group_of(block.size), block.requested(), block.size);
  block.become(State::pending);
  return true;
}

/// Forgets an export, and gives the block that was kept for it.
Range* Exports::take(Offers::iterator which) noexcept {
  Range* block = which->second.kept;
  ThreadCache& owner = *owner_of(*block);
  const std::lock_guard owner_lock(owner.lock);
  owner.counters.remove_pending(group_of(block->size), block->requested(), block->size);
  next_ = which->first;
  offers_.erase(which);
  --kept_;
  return block;
}

Range* Exports::take_passed(bool all) noexcept {
  auto each = offers_.lower_bound(next_);
  for (size_t left = all || has_ended_ ? offers_.size() : kLooks; left != 0 && kept_ != 0; --left) {
    if (each == offers_.end()) each = offers_.begin();
    const Exported& exported = each->second;
    if (exported.kept != nullptr && (has_ended_ || exported.offer->is_over())) return take(each);
    ++each;
  }
  next_ = each == offers_.end() ? 0 : each->first;
  return nullptr;
}

uint64_t Exports::kept_bytes() const noexcept {
  uint64_t bytes = 0;
  for (const auto& [address, exported] : offers_) {
    if (exported.kept != nullptr) bytes += exported.kept->size;
  }
  return bytes;
}

bool Exports::is_valid() const noexcept {
  size_t kept = 0;
  for (const auto& [address, exported] : offers_) {
    if (exported.kept == nullptr) continue;
    ++kept;
    if (exported.kept->address != address || !exported.kept->is(State::pending)) return false;
  }
  return kept == kept_;
}

void Exports::forget() noexcept {
  for (auto& [address, exported] : offers_) exported.offer->forget();
}

// ---- blocks of others

Status Imports::open(std::string_view handle, Address& address, uint64_t& size) {
  if (const Status status = share::check_handoff(); status != kSuccess) return status;
  if (!pool_.options.vmm) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "only a pool in vmm mode can export and import blocks");
  }
  for (auto& [known, imported] : imports_) {
    if (imported.handle != handle) continue;
    ++imported.count;
    address = known;
    size = imported.taking->handoff().size;
    return kSuccess;
  }
  Imported imported{std::string(handle), nullptr, 0, 0, 1};
  const std::string id = id_of(pool_.device.info());
  if (const Status status = share::Taking::take(handle, id.c_str(), imported.taking); status != kSuccess)
    return status;
  std::map<Address, Imported> entry;
  entry.emplace(0, std::move(imported));
  auto node = entry.extract(entry.begin());
  if (const Status status = map(node.mapped()); status != kSuccess) return status;
  const share::Handoff& handoff = node.mapped().taking->handoff();
  node.key() = node.mapped().base + handoff.start;
  address = node.key();
  size = handoff.size;
  imports_.insert(std::move(node));
  return kSuccess;
}

/// On failure nothing is left.
Status Imports::map(Imported& imported) {
  const share::Handoff& handoff = imported.taking->handoff();
  uint64_t whole = 0;
  for (const share::HandoffPart& part : handoff.parts) {
    if (part.size % kGranule != 0) {
      return fail(GPUPOOL_ERROR_UNAVAILABLE, "the block has a chunk of %" PRIu64 " bytes", part.size);
    }
    whole += part.size;
  }
  MeteredDevice& device = pool_.device;
  Status status = device.reserve_addresses(whole, imported.base);
  if (status != kSuccess) return status;
  for (const share::HandoffPart& part : handoff.parts) {
    status = map_part(part, imported);
    if (status != kSuccess) break;
  }
  if (status == kSuccess) status = device.set_access(imported.base, whole);
  if (status == kSuccess) {
    imported.taking->close_descriptors();
    return kSuccess;
  }
  const KeepError keep_error;
  if (imported.mapped != 0) (void)device.unmap(Retention::of_unused(), imported.base, imported.mapped);
  (void)device.release_addresses(imported.base, whole);
  return status;
}

/// The mapping keeps the memory, so nothing else has to.
Status Imports::map_part(const share::HandoffPart& part, Imported& imported) {
  MeteredDevice& device = pool_.device;
  ChunkHandle chunk = 0;
  if (const Status status = device.import_chunk({part.file.get(), part.offset}, part.size, chunk);
      status != kSuccess) {
    return status;
  }
  const Status status = device.map(imported.base + imported.mapped, part.size, chunk);
  const KeepError keep_error;
  (void)device.release_chunk(Retention::of_unused(), chunk);
  if (status == kSuccess) imported.mapped += part.size;
  return status;
}

Status Imports::unmap(const Imported& imported) noexcept {
  const Status status = pool_.device.unmap(Retention::of_end(), imported.base, imported.mapped);
  if (status == kSuccess) (void)pool_.device.release_addresses(imported.base, imported.mapped);
  return status;
}

Status Imports::close(PoolLock& lock, Address address) {
  for (bool has_waited = false;; has_waited = true) {
    const auto found = imports_.find(address);
    if (found == imports_.end()) {
      return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "nothing is imported at 0x%" PRIx64, address);
    }
    if (found->second.count > 1) {
      --found->second.count;
      return kSuccess;
    }
    if (has_waited) {
      const Status status = unmap(found->second);
      if (status == kSuccess) imports_.erase(found);
      return status;
    }
    const Status status = lock.give_up_for([&] { return pool_.device.synchronize_all(0); });
    if (status != kSuccess) return status;
  }
}

Status Imports::set_access() {
  Status status = kSuccess;
  for (const auto& [address, imported] : imports_) {
    const Status done = pool_.device.set_access(imported.base, imported.mapped);
    if (status == kSuccess) status = done;
  }
  return status;
}

void Imports::end(PoolLock& lock) noexcept {
  if (imports_.empty()) return;
  const Status status = lock.give_up_for([&] { return pool_.device.synchronize_all(0); });
  if (status != kSuccess) return;
  std::erase_if(imports_, [&](const auto& each) { return unmap(each.second) == kSuccess; });
}

void Imports::forget() noexcept {
  for (auto& [address, imported] : imports_) imported.taking->forget();
}

}  // namespace gpupool::internal
