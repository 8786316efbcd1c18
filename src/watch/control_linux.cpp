// SPDX-License-Identifier: Apache-2.0
// The thread waits in poll() without an end: it wakes for those who connect, write or leave, and for nobody
// else. A packet is a whole request and an answer fits into the socket, so no asker that is slow, stopped or
// dead can hold it up.
#include "watch/control.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "base/interrupts.hpp"
#include "os/files.hpp"
#include "os/thread.hpp"

namespace gpupool::internal::control {
namespace {

using wire::control::Command;
using wire::control::Notice;

constexpr size_t kConnections = 16;
constexpr uint64_t kLongestWait = 3'600'000'000'000;  // an hour, for a wake
constexpr timespec kPause{0, 100'000'000};

struct Connection {
  os::KeptFile file;
  uint64_t order = 0;      // when it came
  uint32_t recording = 0;  // that it has started
};

/// All that a child has to close. Changed by the thread alone, under the lock.
struct Served {
  os::KeptFile notice;
  os::KeptFile listener;
  std::array<Connection, kConnections> connections;
  unsigned char key[wire::control::kKeyBytes];
  Actions actions;
  uint64_t count = 0;  // of those that came
};
constinit std::mutex served_mutex;
constinit Served served{};
/// Whose command the thread carries out.
constinit thread_local const Connection* asker = nullptr;

Status cannot(const char* what) {
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "GPUPOOL_CONTROL is set, and %s: %s", what, std::strerror(errno));
}

/// A socket whose name the system chooses, among those that no file stands for.
Status open_listener(os::KeptFile& listener, Notice& notice) {
  if (!os::keep_file(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), listener))
    return cannot("there is no socket");
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  socklen_t length = sizeof name.sun_family;
  if (bind(listener.number, reinterpret_cast<sockaddr*>(&name), length) != 0)
    return cannot("its socket gets no name");
  length = sizeof name;
  if (getsockname(listener.number, reinterpret_cast<sockaddr*>(&name), &length) != 0 ||
      length <= sizeof name.sun_family || length - sizeof name.sun_family > sizeof notice.name)
    return cannot("its socket has no name");
  if (listen(listener.number, kConnections) != 0) return cannot("nobody can connect");
  notice.name_bytes = static_cast<uint32_t>(length - sizeof name.sun_family);
  std::memcpy(notice.name, name.sun_path, notice.name_bytes);
  return kSuccess;
}

Status write_notice(const Notice& notice, os::KeptFile& file) {
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (!os::may_be_as_large(sizeof notice) ||
      !os::keep_file(memfd_create(wire::control::kFileName, MFD_CLOEXEC | MFD_ALLOW_SEALING), file) ||
      write(file.number, &notice, sizeof notice) != static_cast<ssize_t>(sizeof notice) ||
      fcntl(file.number, F_ADD_SEALS, kSeals) != 0)
    return cannot("it cannot be announced");
  return kSuccess;
}

// ---- the thread

void answer(Connection& connection, const Reply& reply, int file) noexcept;

uint64_t now() noexcept {
  timespec time{};
  (void)clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

void leave(Connection& connection) noexcept {
  // Whoever has started a recording and goes, whatever ends it, must not leave it behind.
  if (connection.recording != 0) (void)served.actions.stop_recording(connection.recording);
  const std::lock_guard lock(served_mutex);
  os::close_kept(connection.file);
  connection = {};
}

/// A place for one more: a free one, or that of the one which has waited longest and records nothing.
Connection& make_room() noexcept {
  Connection* oldest = nullptr;
  for (Connection& each : served.connections) {
    if (each.file.number < 0) return each;
    if (each.recording == 0 && (oldest == nullptr || each.order < oldest->order)) oldest = &each;
  }
  Reply reply{};  // there is one: a process has at most one recording
  refuse(reply, Outcome::refused, "%zu others have connected since this connection did: connect again",
         kConnections);
  answer(*oldest, reply, -1);
  leave(*oldest);
  return *oldest;
}

bool is_of_this_user(int file) noexcept {
  ucred who{};
  socklen_t length = sizeof who;
  return getsockopt(file, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid();
}

void accept_one() noexcept {
  Connection& place = make_room();
  bool is_there = false;
  int cause = 0;
  {
    const std::lock_guard lock(served_mutex);
    const int file = accept4(served.listener.number, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (file < 0) cause = errno;
    is_there = file >= 0 && os::keep_file(file, place.file);
    if (is_there) place.order = ++served.count;
  }
  // The process has no descriptor to spare: poll() would return at once, again and again. Without the lock,
  // for which a fork would wait.
  if (cause != 0 && cause != EAGAIN && cause != ECONNABORTED && cause != EINTR)
    (void)nanosleep(&kPause, nullptr);
  if (!is_there || is_of_this_user(place.file.number)) return;
  Reply reply{};
  refuse(reply, Outcome::refused, "this process belongs to user %u, who alone may control it", geteuid());
  answer(place, reply, -1);
  leave(place);
}

template <size_t Size>
bool is_text(const char (&field)[Size]) noexcept {
  const size_t length = strnlen(field, Size);
  return length < Size && std::all_of(field + length, field + Size, [](char each) { return each == 0; });
}

/// Whether a request is one, as far as its form goes; else why not.
bool is_sound(const Request& request, size_t bytes, const Connection& connection, Reply& reply) noexcept {
  const auto refused = [&](const char* why) {
    refuse(reply, Outcome::refused, "%s", why);
    return false;
  };
  if (bytes < offsetof(Request, key) || request.magic != wire::control::kMagic)
    return refused("this is no request");
  if (request.version != wire::control::kVersion) {
    refuse(reply, Outcome::refused, "the request is of version %u, and this library (%s) knows %u",
           request.version, gpupool_version_string(), wire::control::kVersion);
    return false;
  }
  if (bytes != sizeof request) return refused("the request has another size than its version");
  if (std::memcmp(request.key, served.key, wire::control::kKeyBytes) != 0)
    return refused("the request has another key");
  if (!is_text(request.tag) || !is_text(request.path)) return refused("a text of the request has no end");
  for (const uint64_t each : request.reserved)
    if (each != 0) return refused("a reserved field of the request is not 0");
  if (request.pool != 0 && request.tag[0] != '\0') return refused("the request has both a pool and a tag");
  const bool records = request.command == Command::record_start || request.command == Command::record_stop;
  const bool sleeps = request.command == Command::sleep;
  const bool wakes = request.command == Command::wake;
  if (request.command < Command::trim || request.command > Command::holders)
    return refused("the request has an unknown command");
  if ((records && (request.pool != 0 || request.tag[0] != '\0')) ||
      (request.bytes != 0 && request.command != Command::trim && !sleeps) ||
      (request.timeout_ns != 0 && !wakes) || (request.mode != 0 && !sleeps) ||
      (request.flags != 0 && !sleeps && !wakes && request.command != Command::record_start) ||
      (request.command == Command::record_start) != (request.path[0] != '\0'))
    return refused("the request has a field that its command does not use, or lacks one");
  if (request.timeout_ns > kLongestWait) return refused("the request waits for more than an hour");
  if (request.command == Command::record_stop && connection.recording == 0)
    return refused("this connection has started no recording");
  return true;
}

void stop_recording(Connection& connection, Reply& reply) noexcept {
  const uint32_t recording = connection.recording;
  connection.recording = 0;
  const Status status = served.actions.stop_recording(recording);
  if (status == kSuccess) return;
  reply.status = status;
  refuse(reply, Outcome::failed, "%s", last_error().message);
}

void answer(Connection& connection, const Reply& reply, int file) noexcept {
  Reply whole = reply;
  whole.magic = wire::control::kMagic;
  whole.version = wire::control::kVersion;
  iovec part{&whole, sizeof whole};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
  }
  // An asker that is gone, or does not read, is no concern of this process.
  (void)sendmsg(connection.file.number, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/// Whether the asker has left meanwhile: then nobody wants what it has asked for.
bool has_left(const Connection& connection) noexcept {
  pollfd now{connection.file.number, POLLRDHUP, 0};
  return poll(&now, 1, 0) > 0 && (now.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/// Ends what an asker who has left still has the thread wait for. Other threads' waits are not its concern.
int32_t end_for_nobody(void*, int32_t) noexcept {
  return asker != nullptr && has_left(*asker) ? 1 : 0;
}

/// Takes one request, carries it out and answers it. False: the connection is to end.
bool serve_one(Connection& connection) noexcept {
  Request request{};
  const ssize_t count = recv(connection.file.number, &request, sizeof request, MSG_DONTWAIT | MSG_TRUNC);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count <= 0 || has_left(connection)) return false;
  Reply reply{};
  int file = -1;
  if (is_sound(request, static_cast<size_t>(count), connection, reply)) {
    const uint64_t start = now();
    if (request.command == Command::record_stop) {
      stop_recording(connection, reply);
    } else {
      asker = &connection;
      served.actions.carry_out(request, reply, file);
      asker = nullptr;
      if (reply.recording != 0) connection.recording = reply.recording;
    }
    reply.nanoseconds = now() - start;
  }
  answer(connection, reply, file);
  if (file >= 0) (void)close(file);
  return reply.outcome != Outcome::refused;
}

void serve_all(const std::array<pollfd, kConnections + 1>& ready) noexcept {
  for (size_t at = 0; at < kConnections; ++at) {
    Connection& connection = served.connections[at];
    if (ready[at].fd < 0 || ready[at].revents == 0) continue;
    if (!os::is_kept(connection.file)) {
      leave(connection);
    } else if ((ready[at].revents & POLLIN) == 0 || !serve_one(connection)) {
      leave(connection);
    }
  }
}

void* serve(void*) {
  { const std::lock_guard wait_for_start(served_mutex); }
  for (;;) {
    std::array<pollfd, kConnections + 1> ready{};
    for (size_t at = 0; at < kConnections; ++at)
      ready[at] = {served.connections[at].file.number, POLLIN | POLLRDHUP, 0};
    ready[kConnections] = {served.listener.number, POLLIN, 0};
    const bool is_refused = poll(ready.data(), ready.size(), -1) < 0;
    // For want of memory, or by a limit of descriptors below their number: either may pass.
    if (is_refused && errno != EINTR) (void)nanosleep(&kPause, nullptr);
    // A program that closes all descriptors may have files of its own there by now.
    if (!os::is_kept(served.listener)) return nullptr;
    if (is_refused) continue;
    serve_all(ready);
    if (ready[kConnections].revents != 0) accept_one();
  }
}

Status start_thread() {
  os::HelperThread thread;
  if (!thread.start("gpupool-control", serve, nullptr)) return cannot("there is no thread");
  thread.detach();
  return kSuccess;
}

}  // namespace

void refuse(Reply& reply, Outcome outcome, const char* format, ...) noexcept {
  reply.outcome = outcome;
  va_list values;
  va_start(values, format);
  (void)std::vsnprintf(reply.message, sizeof reply.message, format, values);
  va_end(values);
}

Status start(const Actions& actions) {
  const std::lock_guard lock(served_mutex);
  Notice notice{};
  notice.magic = wire::control::kMagic;
  notice.version = wire::control::kVersion;
  notice.process = static_cast<uint64_t>(getpid());
  served.actions = actions;
  Status status =
      getrandom(served.key, wire::control::kKeyBytes, 0) == static_cast<ssize_t>(wire::control::kKeyBytes)
          ? kSuccess
          : cannot("there is no key");
  std::memcpy(notice.key, served.key, wire::control::kKeyBytes);
  if (status == kSuccess) status = open_listener(served.listener, notice);
  if (status == kSuccess) status = write_notice(notice, served.notice);
  if (status == kSuccess) status = interrupts::set_check(end_for_nobody, nullptr, true);
  if (status == kSuccess) status = start_thread();
  if (status == kSuccess) return kSuccess;
  os::close_kept(served.notice);
  os::close_kept(served.listener);
  return status;
}

void lock() noexcept {
  served_mutex.lock();
}

void unlock() noexcept {
  served_mutex.unlock();
}

void forget() noexcept {
  os::close_kept(served.notice);
  os::close_kept(served.listener);
  for (Connection& each : served.connections) {
    os::close_kept(each.file);
    each = {};
  }
}

}  // namespace gpupool::internal::control
