// SPDX-License-Identifier: Apache-2.0
#include "share/broker.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "share/region_linux.hpp"
#include "wire/broker.hpp"

namespace gpupool::internal::share {
namespace {

using wire::broker::Asks;
using wire::broker::Outcome;
using wire::broker::Says;

/// A broker answers in a tenth of a millisecond. This is for a machine that is busy, and for hundreds who
/// come at once.
constexpr uint64_t kPatienceNs = 5'000'000'000;
constexpr int kAgainMs = 5;
constexpr int kFirstKept = 3;  // a program without standard output must not print into what is kept
constexpr size_t kSignBytes = 1;
constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

File open_anew(int file, int flags) noexcept {
  char link[32];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  return File(open(link, flags | O_CLOEXEC));
}

struct SocketName {
  File folder;
  uid_t owner;  // of the folder
  std::string name;
};

/// The socket's folder. Where everybody may write, everybody could put a socket of the same name.
Status find_socket(const Place& place, SocketName& found) {
  const size_t slash = place.socket.rfind('/');
  found.name = place.socket.substr(slash == std::string::npos ? 0 : slash + 1);
  const std::string folder = slash == std::string::npos ? "." : place.socket.substr(0, slash + 1);
  found.folder = File(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat seen {};
  if (!found.folder || fstat(found.folder.get(), &seen) != 0) return failed(place, "the socket's folder");
  if ((seen.st_mode & S_IWOTH) != 0 && (seen.st_mode & S_ISVTX) == 0)
    return unusable(place, "has a socket in a folder that everybody may write to");
  found.owner = seen.st_uid;
  if (fstatat(found.folder.get(), found.name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) != 0)
    return failed(place, "the broker's socket");
  return S_ISSOCK(seen.st_mode) ? kSuccess : unusable(place, "has no socket there");
}

/// Reads numbers from a file of the system's, as many as there are: `use` gets each. False: there are none.
template <typename Use>
bool read_numbers(const char* path, Use use) {
  std::FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return false;
  uint64_t number = 0;
  uint64_t count = 0;
  for (; std::fscanf(file, "%" SCNu64, &number) == 1; ++count) use(number, count);
  std::fclose(file);
  return count != 0;
}

/// In a user namespace, all users whom it does not map have one number, which may also be that of a user whom
/// it maps.
bool may_be_anybody(uid_t user) {
  uint64_t unmapped = 65534;
  (void)read_numbers("/proc/sys/kernel/overflowuid", [&](uint64_t number, uint64_t) { unmapped = number; });
  if (user != unmapped) return false;
  constexpr uint64_t kAllUsers = 0xffff'ffff;
  uint64_t mapped = 0;
  (void)read_numbers("/proc/self/uid_map", [&](uint64_t number, uint64_t at) {
    if (at % 3 == 2) mapped += number;  // lines of three: the first inside, the first outside, how many
  });
  return mapped < kAllUsers;
}

/// Whoever listens decides what this process's figures are compared with, so not every user may.
Status check_broker(const Place& place, const File& connection, uid_t owner) {
  ucred who{};
  socklen_t length = sizeof who;
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) != 0)
    return failed(place, "SO_PEERCRED");
  if (may_be_anybody(who.uid)) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE,
                "%s: user %u serves it, which may be anybody in this user namespace", place.path().c_str(),
                who.uid);
  }
  if (who.uid == 0 || who.uid == geteuid() || who.uid == owner) return kSuccess;
  return fail(GPUPOOL_ERROR_UNAVAILABLE,
              "%s: user %u serves it, neither root, nor this user, nor the folder's", place.path().c_str(),
              who.uid);
}

Status connect_to(const Place& place, uint64_t until, File& connection) {
  SocketName socket_name;
  if (const Status status = find_socket(place, socket_name); status != kSuccess) return status;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Through the folder that was checked; and a path may be longer than an address.
  const int length = std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s",
                                   socket_name.folder.get(), socket_name.name.c_str());
  if (length >= static_cast<int>(sizeof address.sun_path)) return unusable(place, "has too long a name");
  connection = File(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection) return failed(place, "socket");
  while (connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno != EAGAIN && errno != EINTR) return failed(place, "asking its broker");
    if (now_ns() >= until) return unusable(place, "has a broker that does not answer");
    (void)poll(nullptr, 0, kAgainMs);
  }
  return check_broker(place, connection, socket_name.owner);
}

Status wait_for_answer(const Place& place, const File& connection, uint64_t until) {
  for (;;) {
    const uint64_t now = now_ns();
    pollfd ready{connection.get(), POLLIN, 0};
    const int left = now < until ? static_cast<int>((until - now) / 1'000'000) + 1 : 0;
    const int count = poll(&ready, 1, left);
    if (count > 0) return kSuccess;
    if (count < 0 && errno != EINTR) return failed(place, "poll");
    if (now >= until) return unusable(place, "has a broker that does not answer");
  }
}

/// Checks an answer, `bytes` of which have come.
Status check_says(const Place& place, ssize_t bytes, Says& says) {
  if (bytes < 0) return failed(place, "its broker's answer");
  if (bytes == 0) return unusable(place, "has a broker that ends without an answer");
  if (bytes != static_cast<ssize_t>(sizeof says) ||
      std::memcmp(says.magic, wire::broker::kMagic, sizeof wire::broker::kMagic) != 0) {
    return unusable(place, "has a broker whose answer makes no sense");
  }
  if (says.version != wire::broker::kVersion) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "%s has a broker of version %u, and this library knows %u",
                place.path().c_str(), says.version, wire::broker::kVersion);
  }
  if (says.outcome == Outcome::none)
    return unusable(place, "does not exist: nobody has joined the group yet");
  if (says.outcome != Outcome::refused) return kSuccess;
  char* const end = std::find(std::begin(says.message), std::end(says.message), '\0');
  std::replace_if(
      std::begin(says.message), end, [](char c) { return c < ' ' || c > '~'; }, '?');
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "%s: its broker refuses: %.*s", place.path().c_str(),
              static_cast<int>(end - says.message), says.message);
}

void copy_name(const std::string& from, char (&to)[64]) noexcept {
  std::memcpy(to, from.data(), std::min(from.size(), sizeof to - 1));
}

/// The question for a region; what a new one begins with, if there is none yet and `makes` is set.
Asks make_question(const Place& place, bool makes, const Says& says) {
  Asks asks{};
  std::memcpy(asks.magic, wire::broker::kMagic, sizeof wire::broker::kMagic);
  asks.version = wire::broker::kVersion;
  copy_name(place.group, asks.group);
  copy_name(place.device, asks.device);
  if (!makes) return asks;
  Place limited = place;
  const double share = static_cast<double>(std::min(says.limit_share, 1'000'000U)) / 1e6;
  if (share != 0) limited.limit = static_cast<uint64_t>(share * static_cast<double>(place.device_bytes));
  if (says.limit != 0) limited.limit = says.limit;
  Header header{};
  write_header(limited, header);
  static_assert(sizeof header <= sizeof asks.page);
  std::memcpy(asks.page, static_cast<const void*>(&header), sizeof header);
  asks.region_bytes = kRegionBytes;
  return asks;
}

/// A broker may send what it likes: nothing is touched before it is known to be a file in memory whose size
/// stays.
Status check_handed(const Place& place, const File& file) {
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSealed) != kSealed)
    return unusable(place, "is not sealed, so it may be truncated");
  return check_contents(place, file);
}

}  // namespace

Status BrokerCall::ask(const Place& place, bool makes) {
  const uint64_t until = now_ns() + kPatienceNs;
  File connection;
  if (const Status status = connect_to(place, until, connection); status != kSuccess) return status;
  if (const Status status = wait_for_answer(place, connection, until); status != kSuccess) return status;
  Says says{};
  const ssize_t bytes = recv(connection.get(), &says, sizeof says, MSG_TRUNC);
  if (const Status status = check_says(place, bytes, says); status != kSuccess) return status;
  const Asks asks = make_question(place, makes, says);
  if (send(connection.get(), &asks, sizeof asks, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof asks))
    return failed(place, "asking its broker");
  if (const Status status = wait_for_answer(place, connection, until); status != kSuccess) return status;
  connection_ = std::move(connection);
  return kSuccess;
}

Status BrokerCall::receive(const Place& place, File& region, File& sign) {
  Says says{};
  iovec part{&says, sizeof says};
  std::array<int, 2> files{-1, -1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof files)> room{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  const ssize_t bytes = recvmsg(connection_.get(), &message, MSG_CMSG_CLOEXEC | MSG_TRUNC);
  const cmsghdr* const head = bytes < 0 ? nullptr : CMSG_FIRSTHDR(&message);
  if (head != nullptr && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
    std::memcpy(files.data(), CMSG_DATA(head), std::min<size_t>(head->cmsg_len - CMSG_LEN(0), sizeof files));
  const File handed(files[0]);
  File handed_sign(files[1]);
  if (const Status status = check_says(place, bytes, says); status != kSuccess) return status;
  if (says.outcome != Outcome::here || (message.msg_flags & MSG_CTRUNC) != 0 || !handed || !handed_sign)
    return unusable(place, "has a broker whose answer makes no sense");
  if (const Status status = check_handed(place, handed); status != kSuccess) return status;
  // What was handed out shares its locks with all others.
  File own = open_anew(handed.get(), O_RDWR | O_NONBLOCK);
  if (!own) return failed(place, "opening it");
  region = std::move(own);
  sign = std::move(handed_sign);
  return kSuccess;
}

Anchor::~Anchor() {
  if (is_ours()) close(path_);
  if (sign_ != nullptr) munmap(sign_, kSignBytes);
}

bool Anchor::is_ours() const noexcept {
  struct stat seen {};
  return path_ >= 0 && fstat(path_, &seen) == 0 && seen.st_dev == device_ && seen.st_ino == inode_;
}

Status open_existing(const Place& place, File& region) {
  if (place.socket.empty()) return open_region(place, false, region);
  BrokerCall call;
  File sign;
  const Status status = call.ask(place, false);
  return status == kSuccess ? call.receive(place, region, sign) : status;
}

Status Anchor::take(const Place& place, const File& region, const File& sign) {
  const File path = open_anew(region.get(), O_PATH);
  struct stat seen {};
  if (!path || fstat(path.get(), &seen) != 0) return failed(place, "keeping it");
  void* const mapped = mmap(nullptr, kSignBytes, PROT_NONE, MAP_SHARED, sign.get(), 0);
  if (mapped == MAP_FAILED) return failed(place, "keeping the sign of life");
  sign_ = mapped;
  if (madvise(mapped, kSignBytes, MADV_DONTFORK) != 0) return failed(place, "keeping the sign from children");
  device_ = seen.st_dev;
  inode_ = seen.st_ino;
  path_ = fcntl(path.get(), F_DUPFD_CLOEXEC, kFirstKept);
  return path_ >= 0 ? kSuccess : failed(place, "keeping it");
}

Status Anchor::open(const Place& place, File& region) const {
  if (!is_ours()) return unusable(place, "was closed by this program");
  region = open_anew(path_, O_RDWR | O_NONBLOCK);
  return region ? kSuccess : failed(place, "opening it again");
}

void Anchor::forget() noexcept {
  if (is_ours()) close(path_);
  path_ = -1;
  sign_ = nullptr;  // a child does not have the mapping
}

}  // namespace gpupool::internal::share
