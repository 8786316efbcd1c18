// SPDX-License-Identifier: Apache-2.0
#include "cli/processes/control.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

#include "cli/base/bytes.hpp"
#include "cli/base/library.hpp"
#include "cli/base/system.hpp"
#include "cli/base/utf8.hpp"
#include "wire/stats_page.hpp"

namespace gpupool::cli {
namespace {

using wire::control::Notice;
using wire::control::Reply;
using wire::control::Request;

/// A sleep may copy for half a minute, and who sits in front of it should not think that nothing happens.
constexpr double kQuiet = 3;

double steady_seconds() {
  timespec now{};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

template <size_t Size>
void put_whole(char (&field)[Size], const std::string& text, const char* what) {
  if (text.size() >= Size) throw InputError(fmt::format("the {} is longer than {} bytes", what, Size - 1));
  (void)text.copy(field, Size - 1);
}

/// Opens the folder of a process, which must exist and be one of this user's.
Folder open_process(uint64_t pid) {
  Folder folder = open_folder(AT_FDCWD, fmt::format("/proc/{}", pid).c_str());
  if (folder == nullptr) throw InputError(fmt::format("there is no process {}", pid));
  struct stat about {};
  if (fstat(dirfd(folder.get()), &about) != 0) throw InputError(fmt::format("process {} has ended", pid));
  // A process that nobody may look into looks as if it were root's.
  if (about.st_uid != geteuid() && about.st_uid != 0)
    throw InputError(
        fmt::format("process {} belongs to user {}, who alone may control it", pid, about.st_uid));
  return folder;
}

std::optional<Notice> read_notice(int files, const char* name) {
  const OpenFile file(openat(files, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  Notice notice{};
  if (file.get() < 0 || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  if (pread(file.get(), &notice, sizeof notice, 0) < static_cast<ssize_t>(offsetof(Notice, name_bytes)) ||
      notice.magic != wire::control::kMagic)
    return std::nullopt;
  return notice;
}

/// Where a process takes commands: what it announces itself, not what it has inherited from another one.
Notice find_notice(uint64_t pid) {
  const Folder process = open_process(pid);
  const Folder files = open_folder(dirfd(process.get()), "fd");
  if (files == nullptr) {
    throw InputError(errno == EACCES || errno == EPERM
                         ? fmt::format("process {} is not for this user to look into", pid)
                         : fmt::format("process {} has ended", pid));
  }
  const uint64_t inner = inner_number(dirfd(process.get()), pid);
  std::vector<Notice> found;
  bool has_page = false;
  while (const dirent* entry = readdir(files.get())) {
    has_page = has_page || is_memfd(dirfd(files.get()), entry->d_name, wire::stats::kFileName);
    if (!is_memfd(dirfd(files.get()), entry->d_name, wire::control::kFileName)) continue;
    const std::optional<Notice> notice = read_notice(dirfd(files.get()), entry->d_name);
    if (notice && (notice->version != wire::control::kVersion || notice->process == inner))
      found.push_back(*notice);
  }
  if (found.empty() && has_page) {
    throw InputError(
        fmt::format("process {} takes no commands: start it with GPUPOOL_CONTROL=1 in its environment", pid));
  }
  if (found.empty()) throw InputError(fmt::format("process {} has no pool of gpupool that it shows", pid));
  if (found.size() > 1)
    throw InputError(
        fmt::format("process {} has {} copies of gpupool that take commands, and this command "
                    "cannot tell them apart",
                    pid, found.size()));
  if (found[0].version != wire::control::kVersion) {
    throw InputError(
        fmt::format("process {} takes commands of version {}, and this is version {}: use the "
                    "command of its own gpupool",
                    pid, found[0].version, wire::control::kVersion));
  }
  if (found[0].name_bytes == 0 || found[0].name_bytes > sizeof found[0].name)
    throw InputError(fmt::format("what process {} announces is damaged", pid));
  return found[0];
}

/// Takes the descriptor that came along, and closes those that should not have.
OpenFile file_of(msghdr& message) {
  OpenFile first;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t at = 0; at < count; ++at) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + at * sizeof number, sizeof number);
      OpenFile file(number);
      if (first.get() < 0) first = std::move(file);
    }
  }
  return first;
}

}  // namespace

Control::Control(uint64_t pid, double wait) : pid_(pid), wait_(wait) {
  const Notice notice = find_notice(pid);
  std::copy(std::begin(notice.key), std::end(notice.key), key_.begin());
  connect_to(std::string(notice.name, notice.name_bytes));
}

void Control::connect_to(const std::string& name) {
  socket_ = OpenFile(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  timeval most{};
  most.tv_sec = static_cast<time_t>(wait_);
  most.tv_usec = static_cast<suseconds_t>(std::fmod(wait_, 1.0) * 1e6);
  if (most.tv_sec == 0 && most.tv_usec == 0) most.tv_usec = 1;  // 0 would mean for ever
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (void)name.copy(address.sun_path, sizeof address.sun_path);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (socket_.get() < 0 || setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most) != 0)
    throw std::runtime_error(fmt::format("no socket can be opened: {}", std::strerror(errno)));
  if (connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (errno == EAGAIN)
      throw std::runtime_error(fmt::format("process {} does not answer: others are waiting too", pid_));
    throw InputError(
        fmt::format("process {} cannot be reached: {} (it must be in the same network namespace, and alive)",
                    pid_, std::strerror(errno)));
  }
  ucred who{};
  socklen_t size = sizeof who;
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 ||
      static_cast<uint64_t>(who.pid) != pid_)
    throw InputError(fmt::format("the socket that process {} announces is of process {}", pid_, who.pid));
}

ControlReply Control::ask(const ControlRequest& request) {
  Request packet{};
  packet.magic = wire::control::kMagic;
  packet.version = wire::control::kVersion;
  packet.command = request.command;
  std::copy(key_.begin(), key_.end(), packet.key);
  packet.pool = request.pool;
  packet.bytes = request.bytes;
  packet.timeout_ns = static_cast<uint64_t>(request.timeout * 1e9);
  packet.mode = request.mode;
  packet.flags = request.flags;
  put_whole(packet.tag, request.tag, "tag");
  put_whole(packet.path, request.path, "path");
  // If this fails, an answer may be there all the same, and says why.
  (void)send(socket_.get(), &packet, sizeof packet, MSG_NOSIGNAL);
  return receive(wait_ + request.timeout);
}

/// Receives the next answer, and what came along with it.
ControlReply Control::receive(double seconds) {
  const double start = steady_seconds();
  const double until = start + seconds;
  double next_word = start + kQuiet;
  Reply reply{};
  iovec part{&reply, sizeof reply};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(8 * sizeof(int))> room{};
  msghdr message{};
  ssize_t count = -1;
  while (count < 0) {
    const double now = steady_seconds();
    if (now >= until) {
      throw std::runtime_error(
          fmt::format("process {} has not answered within {:g} s: it is stopped or busy", pid_, seconds));
    }
    if (now >= next_word && is_terminal(stderr)) {
      fmt::print(stderr, "gpupool: process {} is still at it after {:.0f} s\n", pid_, now - start);
    }
    if (now >= next_word) next_word += kQuiet;
    pollfd ready{socket_.get(), POLLIN, 0};
    (void)poll(&ready, 1, static_cast<int>(std::ceil((std::min(until, next_word) - now) * 1000)));
    message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    count = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // The other end may have closed without reading our packet. Its answer then waits behind that error.
    const bool is_to_come = errno == EAGAIN || errno == EINTR || errno == ECONNRESET;
    if (count < 0 && !is_to_come) break;
  }
  if (count <= 0) throw std::runtime_error(fmt::format("process {} has ended", pid_));
  ControlReply result;
  result.file = file_of(message);
  if (count != sizeof reply || reply.magic != wire::control::kMagic ||
      reply.version != wire::control::kVersion)
    throw std::runtime_error(fmt::format("process {} has not kept to the protocol in its answer", pid_));
  const std::string words = harmless(text_of(reply.message));
  if (reply.outcome == wire::control::Outcome::refused)
    throw InputError(fmt::format("process {} has refused: {}", pid_, words));
  result.status = static_cast<gpupool_status_t>(reply.status);
  if (reply.outcome != wire::control::Outcome::done)
    result.message = words.empty() ? "it gave no reason" : words;
  result.pools = reply.pools;
  result.changed_pools = reply.changed_pools;
  result.released = reply.released_bytes;
  result.saved = reply.saved_bytes;
  result.dropped = reply.dropped_bytes;
  result.retained = reply.retained_bytes;
  result.created = reply.created_bytes;
  result.seconds = static_cast<double>(reply.nanoseconds) / 1e9;
  return result;
}

bool Control::wait_for_end(double seconds, const sigset_t& mask) const {
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>(std::fmod(seconds, 1.0) * 1e9);
  pollfd end{socket_.get(), POLLRDHUP, 0};
  return ppoll(&end, 1, seconds < 0 ? nullptr : &time, &mask) > 0;
}

}  // namespace gpupool::cli
