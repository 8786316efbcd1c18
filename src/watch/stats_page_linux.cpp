// SPDX-License-Identifier: Apache-2.0
#include "watch/stats_page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>

#include "base/parse.hpp"
#include "gpupool/gpupool.h"
#include "os/files.hpp"

namespace gpupool::internal::shown {
namespace {

using wire::stats::Header;
using wire::stats::Page;

/// The page of this process.
struct Mapped {
  Page* page = nullptr;
  os::KeptFile file;
  bool is_refused = false;  // once is enough
};
constinit Mapped mapped;
constinit std::atomic<bool> is_wanted{true};

/// Makes a file for the page. Its size cannot change, so no reader is cut off.
bool make_file(os::KeptFile& file) noexcept {
  if (!os::may_be_as_large(sizeof(Page))) return false;
  if (!os::keep_file(memfd_create(wire::stats::kFileName, MFD_CLOEXEC | MFD_ALLOW_SEALING), file))
    return false;
  const bool is_whole = ftruncate(file.number, sizeof(Page)) == 0 &&
                        fcntl(file.number, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  if (!is_whole) os::close_kept(file);
  return is_whole;
}

/// Maps the file so that no child after fork has the mapping.
Page* map_file(int file) noexcept {
  void* const address = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (address == MAP_FAILED) return nullptr;
  if (madvise(address, sizeof(Page), MADV_DONTFORK) == 0) return static_cast<Page*>(address);
  (void)munmap(address, sizeof(Page));
  return nullptr;
}

void write_header(Header& header) noexcept {
  header.layout = wire::stats::kLayout;
  header.header_bytes = sizeof(Header);
  header.slot_bytes = sizeof(Slot);
  header.slots = wire::stats::kSlots;
  header.process = static_cast<uint64_t>(getpid());
  set_text(header.version, gpupool_version_string());
  std::atomic_ref(header.magic).store(wire::stats::kMagic, std::memory_order_release);
}

/// Fresh memory of a memfd is zero; so is all of the page but its header at first.
Page* make_page() noexcept {
  os::KeptFile file;
  if (!make_file(file)) return nullptr;
  Page* const page = map_file(file.number);
  if (page == nullptr) {
    os::close_kept(file);
    return nullptr;
  }
  write_header(page->header);
  mapped = {page, file, false};
  return page;
}

}  // namespace

void write(Slot& slot, SlotState state, const Figures& figures) noexcept {
  const auto words = std::bit_cast<decltype(Slot::words)>(figures);
  const std::atomic_ref now(slot.sequence);
  const uint32_t sequence = now.load(std::memory_order_relaxed);
  now.store(sequence + 1, std::memory_order_relaxed);
  // Each store is a release, so nobody can see one of them without the odd sequence.
  std::atomic_ref(slot.state).store(state, std::memory_order_release);
  for (size_t at = 0; at < words.size(); ++at)
    std::atomic_ref(slot.words[at]).store(words[at], std::memory_order_release);
  now.store(sequence + 2, std::memory_order_release);
}

Status read_switch() {
  bool is_on = true;
  const Status status = internal::read_switch("GPUPOOL_STATS", is_on);
  is_wanted.store(is_on);
  return status;
}

Slot* open_slot() noexcept {
  if (!is_wanted.load() || mapped.is_refused) return nullptr;
  Page* const page = mapped.page != nullptr ? mapped.page : make_page();
  if (page == nullptr) {
    mapped.is_refused = true;
    return nullptr;
  }
  for (size_t at = 0; at < wire::stats::kSlots; ++at) {
    Slot& slot = page->slots[at];
    // Other pools write what is in theirs meanwhile.
    if (std::atomic_ref(slot.state).load(std::memory_order_relaxed) != SlotState::free) continue;
    const auto used = static_cast<uint32_t>(at + 1);
    if (page->header.slots_used < used)
      std::atomic_ref(page->header.slots_used).store(used, std::memory_order_release);
    return &slot;
  }
  std::atomic_ref(page->header.not_shown).fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

void close_slot(Slot* slot) noexcept {
  if (slot != nullptr) {
    write(*slot, SlotState::free, Figures{});
  } else if (mapped.page != nullptr) {
    std::atomic_ref(mapped.page->header.not_shown).fetch_sub(1, std::memory_order_relaxed);
  }
}

void forget_page() noexcept {
  os::close_kept(mapped.file);
  mapped = {};
}

}  // namespace gpupool::internal::shown
