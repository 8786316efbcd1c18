// SPDX-License-Identifier: Apache-2.0
#include "cli/share/regions.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cli/base/library.hpp"
#include "wire/region.hpp"

namespace gpupool::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Eight groups on eight GPUs, where there are descriptors for that; else an eighth of all.
constexpr size_t kMostOfUser = 64;
/// A dead member's memory is in limbo for no longer (src/share/member.cpp).
constexpr std::chrono::seconds kKeptUnused{10};
constexpr int kRegionSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr int kFirstInherited = 3;  // of the service manager's descriptors
constexpr size_t kMostFiles = 2;    // with one packet
constexpr off_t kBrokersByte = 0;
constexpr off_t kMembersBytes = 1;  // one for each region, by its number
constexpr off_t kToTheEnd = 0;
constexpr uint64_t kNumbers = uint64_t{1} << 62;

/// What a region begins with, before the members' part.
struct Page {
  wire::region::Begin begin;
  uint64_t reserved = 0;
  uint64_t limit = 0;
};
using wire::region::kRegionBytes;

/// Whether it is of this layout, in which later minor versions use what is zero here; and of the device.
bool is_right(const wire::region::Begin& begin, const std::string& device) noexcept {
  wire::region::Begin right;
  right.minor = begin.minor;
  device.copy(right.device, sizeof right.device);
  return std::memcmp(&begin, &right, offsetof(wire::region::Begin, device_bytes)) == 0 &&
         std::memcmp(begin.device, right.device, sizeof right.device) == 0;
}

bool lock_bytes(int file, int command, short type, off_t first, off_t count, struct flock& lock) noexcept {
  lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = count;
  return fcntl(file, command, &lock) == 0;
}

bool is_locked(int file, off_t first, off_t count) noexcept {
  struct flock lock {};
  return !lock_bytes(file, F_OFD_GETLK, F_WRLCK, first, count, lock) || lock.l_type != F_UNLCK;
}

/// Of the file that a region is, for as long as that is open anywhere.
uint64_t number_of(const OpenFile& file) noexcept {
  struct stat found {};
  return fstat(file.get(), &found) == 0 ? found.st_ino % kNumbers : 0;
}

/// A file in memory of a region's size, which begins as said; none, with errno.
OpenFile make_file(const Page& page) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < kRegionBytes) {
    errno = EFBIG;  // with more than that comes a signal, which ends the broker
    return OpenFile();
  }
  OpenFile file(memfd_create("gpupool-share", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return file;
  do {
    errno = posix_fallocate(file.get(), 0, static_cast<off_t>(kRegionBytes));
  } while (errno == EINTR);
  if (errno != 0) return OpenFile();
  // Members of other users open it anew, and nobody comes to it without having been given a descriptor.
  const bool is_made = pwrite(file.get(), &page, sizeof page, 0) == static_cast<ssize_t>(sizeof page) &&
                       fchmod(file.get(), 0666) == 0 && fcntl(file.get(), F_ADD_SEALS, kRegionSeals) == 0;
  return is_made ? std::move(file) : OpenFile();
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts{""};
  for (const char c : text) c == at ? void(parts.emplace_back()) : parts.back().push_back(c);
  return parts;
}

/// What the service manager calls it.
std::string kept_name(const Region& region) {
  return fmt::format("{}/{}", region.place, region.user);
}

}  // namespace

BrokerLock::BrokerLock(const std::string& path)
    : file_(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600)) {
  struct stat found {};
  if (!file_ || fstat(file_.get(), &found) != 0)
    throw InputError(fmt::format("--serve: {}: {}", path, std::strerror(errno)));
  if (found.st_uid != geteuid() || !S_ISREG(found.st_mode))
    throw InputError(fmt::format("--serve: {} is no file of this user", path));
  struct flock lock {};
  if (!lock_bytes(file_.get(), F_OFD_SETLK, F_WRLCK, kBrokersByte, 1, lock))
    throw InputError(fmt::format("--serve: another broker has {}", path));
}

bool BrokerLock::has_members() const noexcept {
  return is_locked(file_.get(), kMembersBytes, kToTheEnd);
}

bool BrokerLock::has_members(uint64_t region) const noexcept {
  return is_locked(file_.get(), kMembersBytes + static_cast<off_t>(region), 1);
}

OpenFile BrokerLock::sign(uint64_t region) const noexcept {
  const std::string link = fmt::format("/proc/self/fd/{}", file_.get());
  OpenFile own(open(link.c_str(), O_RDONLY | O_CLOEXEC));
  struct flock lock {};
  const off_t byte = kMembersBytes + static_cast<off_t>(region);
  return own && lock_bytes(own.get(), F_OFD_SETLK, F_RDLCK, byte, 1, lock) ? std::move(own) : OpenFile();
}

void allow_regions() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= kRegionBytes) return;
  limit.rlim_cur = limit.rlim_max;
  if (limit.rlim_max >= kRegionBytes && setrlimit(RLIMIT_FSIZE, &limit) == 0) return;
  throw InputError(fmt::format("--serve: a file may have {} bytes (ulimit -f), and a region has {}",
                               limit.rlim_max, kRegionBytes));
}

Regions::Regions(const BrokerLock& lock, size_t most)
    : lock_(lock), most_(most), most_of_user_(std::clamp<size_t>(most / 8, 1, kMostOfUser)) {
  const char* const process = std::getenv("LISTEN_PID");
  const char* const count = std::getenv("LISTEN_FDS");
  const char* const names = std::getenv("LISTEN_FDNAMES");
  if (process == nullptr || count == nullptr || names == nullptr || process != std::to_string(getpid()))
    return;
  const std::vector<std::string> all = split(names, ':');
  const size_t there = std::min<size_t>(std::strtoul(count, nullptr, 10), all.size());
  for (size_t at = 0; at < there; ++at) {
    OpenFile file(kFirstInherited + static_cast<int>(at));
    const int seals = fcntl(file.get(), F_GET_SEALS);
    const std::vector<std::string> parts = split(all[at], '/');
    if (seals < 0 || (seals & kRegionSeals) != kRegionSeals || parts.size() != 3) continue;
    (void)fcntl(file.get(), F_SETFD, FD_CLOEXEC);
    const uint64_t number = number_of(file);
    uid_t user = 0;
    (void)std::from_chars(parts[2].data(), parts[2].data() + parts[2].size(), user);
    all_.push_back({parts[0] + "/" + parts[1], user, std::move(file), number, {}});
  }
}

const Region* Regions::find(const std::string& group, const std::string& device) const noexcept {
  const auto found = std::find_if(all_.begin(), all_.end(),
                                  [&](const Region& each) { return each.place == group + "/" + device; });
  return found == all_.end() ? nullptr : &*found;
}

const Region* Regions::make(const RegionWish& wish, std::string& why) {
  Page page;
  std::memcpy(&page, wish.page.data(), std::min(wish.page.size(), sizeof page));
  if (wish.bytes != kRegionBytes) {
    why = fmt::format("a region has {} bytes, not {}: use one version of gpupool", kRegionBytes, wish.bytes);
    return nullptr;
  }
  if (!is_right(page.begin, wish.device)) {
    why = "a region begins with another layout: use one version of gpupool";
    return nullptr;
  }
  page.reserved = 0;
  if (!has_place(wish.user, why)) return nullptr;
  OpenFile file = make_file(page);
  if (!file) {
    why = fmt::format("it can make no region: {}", std::strerror(errno));
    return nullptr;
  }
  const uint64_t number = number_of(file);
  all_.push_back({wish.group + "/" + wish.device, wish.user, std::move(file), number, {}});
  const Region& made = all_.back();
  notify_manager("FDSTORE=1\nFDNAME=" + kept_name(made), made.file.get());
  return &made;
}

bool Regions::has_place(uid_t user, std::string& why) {
  const auto count = [&] {
    return static_cast<size_t>(
        std::count_if(all_.begin(), all_.end(), [&](const Region& each) { return each.user == user; }));
  };
  look(Clock::now());
  if (count() >= most_of_user_ && !drop_oldest_unused(user)) {
    why = fmt::format("user {} has {} regions, as many as a user may", user, count());
    return false;
  }
  if (all_.size() < most_ || drop_oldest_unused({})) return true;
  why = fmt::format("it has {} regions, as many as it may", all_.size());
  return false;
}

void Regions::look(Time now) noexcept {
  for (Region& each : all_) {
    if (lock_.has_members(each.number)) {
      each.unused_since.reset();
    } else if (!each.unused_since) {
      each.unused_since = now;
    }
  }
}

void Regions::drop_unused(Time now) {
  look(now);
  for (auto at = all_.begin(); at != all_.end();) {
    const bool is_over = at->unused_since && now - *at->unused_since >= kKeptUnused;
    at = is_over ? drop(at) : at + 1;
  }
}

/// Among those of a user, or of all. False: each has a member.
bool Regions::drop_oldest_unused(std::optional<uid_t> user) {
  auto oldest = all_.end();
  for (auto at = all_.begin(); at != all_.end(); ++at) {
    if (!at->unused_since || (user && at->user != *user)) continue;
    if (oldest == all_.end() || *at->unused_since < *oldest->unused_since) oldest = at;
  }
  if (oldest == all_.end()) return false;
  drop(oldest);
  return true;
}

std::vector<Region>::iterator Regions::drop(std::vector<Region>::iterator region) {
  notify_manager("FDSTOREREMOVE=1\nFDNAME=" + kept_name(*region), -1);
  return all_.erase(region);
}

bool is_region_word(const std::string& text) noexcept {
  return !text.empty() && text.front() != '.' && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

void send_with(int socket, msghdr packet, std::span<const int> files, int flags) noexcept {
  alignas(cmsghdr) char room[CMSG_SPACE(kMostFiles * sizeof(int))] = {};
  if (!files.empty()) {
    packet.msg_control = room;
    packet.msg_controllen = CMSG_SPACE(files.size_bytes());
    cmsghdr* const head = CMSG_FIRSTHDR(&packet);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(head), files.data(), files.size_bytes());
  }
  (void)sendmsg(socket, &packet, flags);
}

void notify_manager(const std::string& text, int file) noexcept {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path == nullptr || *path == '\0' || std::strlen(path) >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, std::strlen(path));
  if (*path == '@') address.sun_path[0] = '\0';  // a name that no file stands for
  const OpenFile socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  iovec part{const_cast<char*>(text.data()), text.size()};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  send_with(socket.get(), message, {&file, file >= 0 ? size_t{1} : 0}, MSG_NOSIGNAL);
}

}  // namespace gpupool::cli
