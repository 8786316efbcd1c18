// SPDX-License-Identifier: Apache-2.0
#include "cli/base/metrics_server.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/process_files.hpp"
#include "cli/base/signals.hpp"

namespace gpupool::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostRequest = 8192;
/// For the request and the answer together.
constexpr std::chrono::seconds kClientsTime{5};
/// The next one takes the place of the one that has been there for longest.
constexpr size_t kMostClients = 64;
constexpr int kPauseMs = 100;

volatile std::sig_atomic_t must_end = 0;

void note_end(int) {
  must_end = 1;
}

int listen_at(const std::string& address) {
  const size_t colon = address.rfind(':');
  const auto refuse = [&](const std::string& why) {
    return InputError(fmt::format("--listen: '{}': {}", address, why));
  };
  if (colon == std::string::npos) throw refuse("this is no ADDRESS:PORT such as 127.0.0.1:9837");
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty()) host = "127.0.0.1";
  const std::string port = address.substr(colon + 1);
  uint16_t number = 0;  // getaddrinfo() takes 65536 for 0, and so for any port that is free
  if (const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
      error != std::errc() || end != port.data() + port.size())
    throw refuse("there are the ports 0 to 65535, where 0 is any that is free");
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &wanted, &found); error != 0)
    throw refuse(gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const int file = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  if (file >= 0) (void)setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (file >= 0 && bind(file, found->ai_addr, found->ai_addrlen) == 0 && listen(file, 16) == 0) return file;
  const std::string why = std::strerror(errno);
  if (file >= 0) (void)close(file);
  throw refuse(why);
}

uint16_t port_of(int number) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (getsockname(number, reinterpret_cast<sockaddr*>(&bound), &length) != 0) return 0;
  if (bound.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(bound).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

std::string answer_of(std::string_view status, std::string_view type, const std::string& body) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                     status, type, body.size(), body);
}

struct Scraper {
  OpenFile file;
  Clock::time_point until;
  std::string request;
  std::string answer;  // "": the request is not whole
  size_t sent = 0;
};

/// One thread waits in ppoll(), and each client has a time for all that it does, so none that is slow,
/// stopped or hostile can hold up another.
class MetricsServer {
 public:
  MetricsServer(const OpenFile& listener, const std::function<std::string()>& write)
      : listener_(listener), write_(write) {}

  /// Waits once, at most until the next client's time is up, with the signals of `mask` blocked.
  void serve_once(const sigset_t& mask) {
    std::vector<pollfd> ready{{listener_.get(), POLLIN, 0}};
    for (const Scraper& each : clients_) {
      const bool reads = each.answer.empty();
      ready.push_back({each.file.get(), static_cast<short>(reads ? POLLIN : POLLOUT), 0});
    }
    timespec time{};
    if (!clients_.empty()) {  // the first has the least time left
      const auto left = std::max(clients_.front().until - Clock::now(), Clock::duration::zero());
      time.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
      time.tv_nsec = std::chrono::nanoseconds(left % std::chrono::seconds(1)).count();
    }
    if (ppoll(ready.data(), ready.size(), clients_.empty() ? nullptr : &time, &mask) < 0) return;
    const Clock::time_point now = Clock::now();
    std::vector<Scraper> left;
    for (size_t at = 0; at < clients_.size(); ++at) {
      const bool stays = ready[at + 1].revents == 0 || go_on_with(clients_[at]);
      if (stays && now < clients_[at].until) left.push_back(std::move(clients_[at]));
    }
    clients_ = std::move(left);
    if (ready[0].revents != 0) accept_one(now);
  }

 private:
  void accept_one(Clock::time_point now) {
    OpenFile file(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (file.get() < 0) {
      // Without a descriptor to spare, ppoll() would return at once, again and again. Other errors are those
      // of one connection.
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        (void)poll(nullptr, 0, kPauseMs);
      return;
    }
    if (clients_.size() == kMostClients) clients_.erase(clients_.begin());
    clients_.push_back({std::move(file), now + kClientsTime, {}, {}});
  }

  /// False: the client is done with.
  bool go_on_with(Scraper& client) const {
    if (client.answer.empty()) {
      char piece[1024];
      const ssize_t count = recv(client.file.get(), piece, sizeof piece, 0);
      if (count <= 0) return count < 0 && (errno == EAGAIN || errno == EINTR);
      client.request.append(piece, static_cast<size_t>(count));
      const bool is_whole = client.request.find("\r\n\r\n") != std::string::npos;
      if (!is_whole && client.request.size() < kMostRequest) return true;
      client.answer = answer(client.request);
    }
    const std::string_view rest = std::string_view(client.answer).substr(client.sent);
    const ssize_t count = send(client.file.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    client.sent += static_cast<size_t>(count);
    return client.sent < client.answer.size();
  }

  std::string answer(const std::string& request) const {
    if (!request.starts_with("GET /metrics "))
      return answer_of("404 Not Found", "text/plain", "There is /metrics, and nothing else.\n");
    try {
      return answer_of("200 OK", "text/plain; version=0.0.4; charset=utf-8", write_());
    } catch (const std::exception& error) {
      return answer_of("503 Service Unavailable", "text/plain", fmt::format("{}\n", error.what()));
    }
  }

  const OpenFile& listener_;
  const std::function<std::string()>& write_;
  std::vector<Scraper> clients_;  // by arrival
};

}  // namespace

void serve_metrics(const std::string& address, const std::function<std::string()>& write) {
  const OpenFile listener(listen_at(address));
  handle_signals(kEndingSignals, note_end);
  const sigset_t mask = block_signals(kEndingSignals);
  say(fmt::format("listening on port {}, path /metrics", port_of(listener.get())));
  MetricsServer server(listener, write);
  while (must_end == 0) server.serve_once(mask);
}

}  // namespace gpupool::cli
