// SPDX-License-Identifier: Apache-2.0
#include "cli/metrics_server.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "cli/library.hpp"

namespace gpupool::cli {
namespace {

constexpr size_t kMostRequest = 8192;
constexpr int kPatienceSeconds = 5;

volatile std::sig_atomic_t must_end = 0;

void note_end(int) {
  must_end = 1;
}

class Socket {
 public:
  explicit Socket(int number) : number_(number) {}
  ~Socket() {
    if (number_ >= 0) (void)close(number_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const noexcept { return number_; }

 private:
  int number_;
};

int listen_at(const std::string& address) {
  const size_t colon = address.rfind(':');
  const auto refuse = [&](const std::string& why) {
    return InputError(fmt::format("--listen: '{}': {}", address, why));
  };
  if (colon == std::string::npos) throw refuse("this is no ADDRESS:PORT such as 127.0.0.1:9837");
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty()) host = "127.0.0.1";
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &wanted, &found);
      error != 0)
    throw refuse(gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const int number = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  if (number >= 0) (void)setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (number >= 0 && bind(number, found->ai_addr, found->ai_addrlen) == 0 && listen(number, 16) == 0)
    return number;
  const std::string why = std::strerror(errno);
  if (number >= 0) (void)close(number);
  throw refuse(why);
}

uint16_t port_of(int number) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (getsockname(number, reinterpret_cast<sockaddr*>(&bound), &length) != 0) return 0;
  if (bound.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(bound).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

/// The first line of a request; "" if none comes.
std::string read_request(int number) {
  std::string request;
  while (request.find("\r\n\r\n") == std::string::npos && request.size() < kMostRequest) {
    char piece[1024];
    const ssize_t count = recv(number, piece, sizeof piece, 0);
    if (count <= 0) return "";
    request.append(piece, static_cast<size_t>(count));
  }
  return request.substr(0, request.find("\r\n"));
}

void answer(int number, std::string_view status, std::string_view type, const std::string& body) {
  const std::string text =
      fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                  status, type, body.size(), body);
  for (size_t at = 0; at < text.size();) {
    const ssize_t count = send(number, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (count <= 0) return;
    at += static_cast<size_t>(count);
  }
}

void serve_one(int number, const std::function<std::string()>& write) {
  const timeval patience{kPatienceSeconds, 0};
  (void)setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  (void)setsockopt(number, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const std::string request = read_request(number);
  if (request.empty()) return;
  if (!request.starts_with("GET /metrics ")) {
    return answer(number, "404 Not Found", "text/plain", "There is /metrics, and nothing else.\n");
  }
  try {
    answer(number, "200 OK", "text/plain; version=0.0.4; charset=utf-8", write());
  } catch (const std::exception& error) {
    answer(number, "503 Service Unavailable", "text/plain", fmt::format("{}\n", error.what()));
  }
}

}  // namespace

void serve_metrics(const std::string& address, const std::function<std::string()>& write) {
  const Socket listener(listen_at(address));
  struct sigaction end {};
  end.sa_handler = note_end;  // and no SA_RESTART, so that accept ends
  (void)sigaction(SIGINT, &end, nullptr);
  (void)sigaction(SIGTERM, &end, nullptr);
  fmt::print(stderr, "gpupool: listening on port {}, path /metrics\n", port_of(listener.get()));
  while (must_end == 0) {
    const Socket client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.get() >= 0) {
      serve_one(client.get(), write);
    } else if (errno != EINTR && errno != ECONNABORTED) {
      throw std::runtime_error(fmt::format("waiting for a request: {}", std::strerror(errno)));
    }
  }
}

}  // namespace gpupool::cli
