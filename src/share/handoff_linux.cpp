// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "os/clock.hpp"
#include "os/files.hpp"
#include "share/exporter.hpp"
#include "share/handoff.hpp"

// The oldest system that packages are built on has no name for this call.
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

namespace gpupool::internal::share {
namespace {

constexpr char kTicketMagic[8] = {'g', 'p', 'u', 'p', 't', 'k', 't', '1'};
constexpr std::string_view kPrefix = "gpupool2:";
constexpr size_t kHeadBytes = 4096;
constexpr uint32_t kPartsMax = 1U << 20;
/// The file cannot become shorter, so that no mapping of it can fault.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// Where a process was killed, its locks go before its work on the GPU is sure to have ended: up to 1.75 s
/// before, as measured with 60 GiB of memory.
constexpr uint64_t kDeathNs = 3'000'000'000;

/// A part as the ticket has it, behind the head.
struct ListedPart {
  uint64_t size;
  uint64_t offset;
  int32_t descriptor;
  uint32_t reserved;
};

/// What a handle says.
struct Handle {
  ProcessName process;
  int ticket = -1;
  std::string_view device;
  uint64_t number[2] = {};
};

Status cannot(const char* what) {
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "a block cannot be exported: %s: %s", what, std::strerror(errno));
}

// ---- handles

std::string write_handle(const Handle& handle) {
  char text[GPUPOOL_EXPORT_BYTES];
  const int length =
      std::snprintf(text, sizeof text, "%.*s%d:%" PRIu64 ":%d:%.*s:%016" PRIx64 "%016" PRIx64,
                    static_cast<int>(kPrefix.size()), kPrefix.data(), handle.process.pid,
                    handle.process.space, handle.ticket, static_cast<int>(handle.device.size()),
                    handle.device.data(), handle.number[0], handle.number[1]);
  return std::string(text, static_cast<size_t>(length));
}

template <typename Number>
bool read_number(std::string_view text, Number& number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc{} && end == text.data() + text.size();
}

/// Of what may be anything, the beginning that a message can show.
std::string_view beginning(std::string_view text) {
  const auto is_plain = [](char letter) { return letter >= ' ' && letter <= '~'; };
  const auto end = std::find_if_not(text.begin(), text.end(), is_plain);
  return text.substr(0, std::min<size_t>(static_cast<size_t>(end - text.begin()), 60));
}

std::string_view next_word(std::string_view& rest) {
  const std::string_view word = rest.substr(0, rest.find(':'));
  rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  return word;
}

bool read_handle(std::string_view text, Handle& handle) {
  if (!text.starts_with(kPrefix) || text.size() >= GPUPOOL_EXPORT_BYTES) return false;
  std::string_view rest = text.substr(kPrefix.size());
  if (!read_number(next_word(rest), handle.process.pid) ||
      !read_number(next_word(rest), handle.process.space) || !read_number(next_word(rest), handle.ticket)) {
    return false;
  }
  handle.device = next_word(rest);
  return handle.process.pid > 0 && handle.ticket >= 0 && !handle.device.empty() && rest.size() == 32 &&
         read_number(rest.substr(0, 16), handle.number[0], 16) &&
         read_number(rest.substr(16), handle.number[1], 16) && write_handle(handle) == text;
}

// ---- tickets

/// The first page of a ticket. Null, with errno: the system does not map it.
TicketHead* map_ticket(const File& file) {
  void* const mapped = mmap(nullptr, kHeadBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (madvise(mapped, kHeadBytes, MADV_DONTFORK) == 0) return static_cast<TicketHead*>(mapped);
  const int cause = errno;
  munmap(mapped, kHeadBytes);
  errno = cause;
  return nullptr;
}

/// Copies a descriptor of another process.
Status fetch(const File& process, int pid, int descriptor, File& own) {
  own = File(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), descriptor, 0)));
  if (own) return kSuccess;
  switch (errno) {
    case EBADF:
      return fail(GPUPOOL_ERROR_UNAVAILABLE, "process %d has freed the block, or is another one by now", pid);
    case ESRCH:
      return fail(GPUPOOL_ERROR_UNAVAILABLE, "process %d, which exported the block, has ended", pid);
    case EPERM:
      return fail(
          GPUPOOL_ERROR_UNAVAILABLE,
          "the system forbids taking memory of process %d: another user, kernel.yama.ptrace_scope, or "
          "a container's rules",
          pid);
    default:
      return fail(GPUPOOL_ERROR_UNAVAILABLE, "taking memory of process %d: %s", pid, std::strerror(errno));
  }
}

/// Asked in this order, nothing is done to a file that is no ticket.
bool is_ticket(const File& file, const Handle& handle) {
  TicketHead head{};
  return fcntl(file.get(), F_GET_SEALS) == kSeals &&
         pread(file.get(), static_cast<void*>(&head), sizeof head, 0) == static_cast<ssize_t>(sizeof head) &&
         std::memcmp(head.magic, kTicketMagic, sizeof kTicketMagic) == 0 &&
         std::equal(std::begin(head.number), std::end(head.number), std::begin(handle.number));
}

/// Whether the parts, in this order, have room for the block.
bool is_sound(const Handoff& handoff) {
  uint64_t whole = 0;
  for (const HandoffPart& part : handoff.parts) {
    if (part.size == 0 || part.size > (uint64_t{1} << 46) || whole > (uint64_t{1} << 46)) return false;
    whole += part.size;
  }
  return handoff.start < whole && handoff.size != 0 && handoff.size <= whole - handoff.start;
}

/// Fetches what the ticket lists.
Status fetch_parts(const File& ticket, const File& process, int pid, uint32_t count, Handoff& handoff) {
  std::vector<ListedPart> listed(std::min(count, kPartsMax));
  const auto bytes = static_cast<ssize_t>(listed.size() * sizeof(ListedPart));
  if (pread(ticket.get(), listed.data(), static_cast<size_t>(bytes), kHeadBytes) != bytes) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "process %d has a list of chunks that cannot be read", pid);
  }
  handoff.parts.reserve(listed.size());
  for (const ListedPart& each : listed) {
    handoff.parts.push_back({each.size, each.offset, File()});
    const Status status = fetch(process, pid, each.descriptor, handoff.parts.back().file);
    if (status != kSuccess) return status;
  }
  if (is_sound(handoff)) return kSuccess;
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "process %d has a list of chunks that makes no sense", pid);
}

}  // namespace

Status check_handoff() {
  return kSuccess;
}

Ticket::Ticket(Ticket&& other) noexcept : head_(std::exchange(other.head_, nullptr)) {}

Ticket& Ticket::operator=(Ticket&& other) noexcept {
  std::swap(head_, other.head_);
  return *this;
}

Ticket::~Ticket() {
  if (head_ != nullptr) munmap(static_cast<void*>(head_), kHeadBytes);
}

// ---- the exporter

Status Offer::make(Handoff handoff, std::unique_ptr<Offer>& offer) {
  std::unique_ptr<Offer> made(new Offer);
  made->parts_ = std::move(handoff.parts);
  std::vector<ListedPart> listed;
  for (const HandoffPart& part : made->parts_) {
    // CUDA's descriptors would stay open in programs that this one starts.
    (void)fcntl(part.file.get(), F_SETFD, FD_CLOEXEC);
    listed.push_back({part.size, part.offset, part.file.get(), 0});
  }
  const size_t list_bytes = listed.size() * sizeof(ListedPart);
  File file(memfd_create("gpupool-ticket", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return cannot("memfd_create");
  if (!os::may_be_as_large(kHeadBytes + list_bytes) ||
      ftruncate(file.get(), static_cast<off_t>(kHeadBytes + list_bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, kSeals) != 0 ||
      pwrite(file.get(), listed.data(), list_bytes, kHeadBytes) != static_cast<ssize_t>(list_bytes)) {
    return cannot("its ticket");
  }
  TicketHead* const mapped = map_ticket(file);
  if (mapped == nullptr) return cannot("mmap");
  made->ticket_ = Ticket(mapped);
  auto* const head = new (mapped) TicketHead{};
  Handle handle{own_name(), file.get(), handoff.device, {}};
  if (getrandom(handle.number, sizeof handle.number, 0) != static_cast<ssize_t>(sizeof handle.number))
    return cannot("getrandom");
  std::memcpy(head->magic, kTicketMagic, sizeof kTicketMagic);
  std::copy(std::begin(handle.number), std::end(handle.number), std::begin(head->number));
  head->part_count = static_cast<uint32_t>(listed.size());
  head->start = handoff.start;
  head->size = handoff.size;
  made->handle_ = write_handle(handle);
  made->file_ = std::move(file);
  offer = std::move(made);
  return kSuccess;
}

void Offer::close() noexcept {
  if (ticket_) ticket_->closed.store(1);
}

bool Offer::is_over() noexcept {
  if (os::is_held(file_.get(), 0, 1)) {
    died_at_ = 0;
    return false;
  }
  if (ticket_->importers.load() == 0) return true;
  const uint64_t now = os::coarse_ns();
  if (died_at_ == 0) died_at_ = now;
  return now - died_at_ >= kDeathNs;
}

void Offer::forget() noexcept {
  ticket_.forget();
  file_ = File();
  for (HandoffPart& part : parts_) part.file = File();
}

// ---- the importer

Status Taking::take(std::string_view text, const char* device, std::unique_ptr<Taking>& taking) {
  Handle handle;
  if (!read_handle(text, handle)) {
    const std::string_view shown = beginning(text);
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "handle is \"%.*s\", which gpupool_export did not write",
                static_cast<int>(shown.size()), shown.data());
  }
  if (handle.device != device) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the block is on device %.*s, and the pool on %s",
                static_cast<int>(handle.device.size()), handle.device.data(), device);
  }
  File process, fetched;
  if (const Status status = open_process(handle.process, process); status != kSuccess) return status;
  if (const Status status = fetch(process, handle.process.pid, handle.ticket, fetched); status != kSuccess)
    return status;
  const auto is_gone = [&] {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "process %d has freed the block, or is another one by now",
                handle.process.pid);
  };
  if (!is_ticket(fetched, handle)) return is_gone();
  // Opened anew, for a lock of its own: what was fetched shares the exporter's.
  const File ticket(os::open_again(fetched.get()));
  if (!ticket || !os::hold_part(ticket.get(), 0, 1)) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "holding memory of process %d: %s", handle.process.pid,
                std::strerror(errno));
  }
  TicketHead* const mapped = map_ticket(ticket);
  if (mapped == nullptr) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "holding memory of process %d: %s", handle.process.pid,
                std::strerror(errno));
  }
  Ticket head(mapped);
  std::unique_ptr<Taking> made(new Taking);
  made->ticket_ = std::move(head);
  made->ticket_->importers.fetch_add(1);
  if (made->ticket_->closed.load() != 0) return is_gone();
  made->handoff_.device = device;
  made->handoff_.start = made->ticket_->start;
  made->handoff_.size = made->ticket_->size;
  if (const Status status =
          fetch_parts(ticket, process, handle.process.pid, made->ticket_->part_count, made->handoff_);
      status != kSuccess) {
    return status;
  }
  taking = std::move(made);
  return kSuccess;
}

/// First the count, then the lock: an importer that is killed in between has nothing mapped any more.
Taking::~Taking() {
  if (ticket_) ticket_->importers.fetch_sub(1);
}

void Taking::close_descriptors() noexcept {
  for (HandoffPart& part : handoff_.parts) part.file = File();
}

}  // namespace gpupool::internal::share
