// SPDX-License-Identifier: Apache-2.0
#include "cli/share/regions.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "cli/base/library.hpp"

namespace gpupool::cli {
namespace {

constexpr size_t kMostRegions = 256;
constexpr uint64_t kMostRegionBytes = 16 << 20;
constexpr int kRegionSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr int kFirstInherited = 3;  // of the service manager's descriptors
constexpr size_t kMostFiles = 2;    // with one packet
constexpr off_t kBrokersByte = 0;
constexpr off_t kMembersByte = 1;

bool lock_byte(int file, int command, short type, off_t byte, struct flock& lock) noexcept {
  lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return fcntl(file, command, &lock) == 0;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts{""};
  for (const char c : text) c == at ? void(parts.emplace_back()) : parts.back().push_back(c);
  return parts;
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) (void)close(number_);
}

BrokerLock::BrokerLock(const std::string& path)
    : file_(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600)) {
  struct stat found {};
  if (!file_ || fstat(file_.get(), &found) != 0)
    throw InputError(fmt::format("--serve: {}: {}", path, std::strerror(errno)));
  if (found.st_uid != geteuid() || !S_ISREG(found.st_mode))
    throw InputError(fmt::format("--serve: {} is no file of this user", path));
  struct flock lock {};
  if (!lock_byte(file_.get(), F_OFD_SETLK, F_WRLCK, kBrokersByte, lock))
    throw InputError(fmt::format("--serve: another broker has {}", path));
}

bool BrokerLock::has_members() const noexcept {
  struct flock lock {};
  return !lock_byte(file_.get(), F_OFD_GETLK, F_WRLCK, kMembersByte, lock) || lock.l_type != F_UNLCK;
}

Descriptor BrokerLock::sign() const noexcept {
  const std::string link = fmt::format("/proc/self/fd/{}", file_.get());
  Descriptor own(open(link.c_str(), O_RDONLY | O_CLOEXEC));
  struct flock lock {};
  return own && lock_byte(own.get(), F_OFD_SETLK, F_RDLCK, kMembersByte, lock) ? std::move(own)
                                                                               : Descriptor();
}

Regions::Regions() {
  const char* const process = std::getenv("LISTEN_PID");
  const char* const count = std::getenv("LISTEN_FDS");
  const char* const names = std::getenv("LISTEN_FDNAMES");
  if (process == nullptr || count == nullptr || names == nullptr || process != std::to_string(getpid()))
    return;
  const std::vector<std::string> all = split(names, ':');
  const size_t there = std::min<size_t>(std::strtoul(count, nullptr, 10), all.size());
  for (size_t at = 0; at < there; ++at) {
    Descriptor file(kFirstInherited + static_cast<int>(at));
    const int seals = fcntl(file.get(), F_GET_SEALS);
    const bool is_region = seals >= 0 && (seals & kRegionSeals) == kRegionSeals;
    if (!is_region || all[at].find('/') == std::string::npos) continue;
    (void)fcntl(file.get(), F_SETFD, FD_CLOEXEC);
    all_.push_back({all[at], std::move(file)});
  }
}

int Regions::find(const std::string& group, const std::string& device) const noexcept {
  const auto found = std::find_if(all_.begin(), all_.end(),
                                  [&](const Region& each) { return each.name == group + "/" + device; });
  return found == all_.end() ? -1 : found->file.get();
}

int Regions::make(const std::string& group, const std::string& device, uint64_t bytes,
                  std::span<const unsigned char> page) {
  if (all_.size() == kMostRegions || bytes < page.size() || bytes > kMostRegionBytes) {
    errno = all_.size() == kMostRegions ? ENOSPC : EINVAL;
    return -1;
  }
  Descriptor file(memfd_create("gpupool-share", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return -1;
  do {
    errno = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  } while (errno == EINTR);
  if (errno != 0) return -1;
  // Members of other users open it anew, and nobody comes to it without having been given a descriptor.
  if (pwrite(file.get(), page.data(), page.size(), 0) != static_cast<ssize_t>(page.size()) ||
      fchmod(file.get(), 0666) != 0 || fcntl(file.get(), F_ADD_SEALS, kRegionSeals) != 0) {
    return -1;
  }
  all_.push_back({group + "/" + device, std::move(file)});
  const Region& made = all_.back();
  notify_manager("FDSTORE=1\nFDNAME=" + made.name, made.file.get());
  return made.file.get();
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
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  iovec part{const_cast<char*>(text.data()), text.size()};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  send_with(socket.get(), message, {&file, file >= 0 ? size_t{1} : 0}, MSG_NOSIGNAL);
}

}  // namespace gpupool::cli
