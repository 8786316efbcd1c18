// SPDX-License-Identifier: Apache-2.0
// gpupool share --serve. One thread waits in ppoll(). It reads and writes whole packets without waiting, and
// each asker has a time, so no asker that is slow, stopped or hostile can hold up another.

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <span>

#include "cli/base/library.hpp"
#include "cli/base/signals.hpp"
#include "cli/share/options.hpp"
#include "cli/share/regions.hpp"
#include "cli/share/rules.hpp"

namespace gpupool::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// An asker sends its question at once. One that does not is in nobody's way for longer.
constexpr std::chrono::seconds kAskersTime{5};
constexpr size_t kMostAskers = 512;
constexpr size_t kMostRegions = 1024;
/// Descriptors that the broker needs beside those of askers and regions: for the one that asks, for what it
/// is handed, and for the service manager.
constexpr size_t kFilesInHand = 8;
/// How often it looks for regions without members.
constexpr std::chrono::seconds kBetweenLooks{5};
constexpr int kAcceptedAtOnce = 64;
constexpr std::chrono::milliseconds kPauseWithoutFiles{100};
constexpr int kBacklog = 4096;

volatile std::sig_atomic_t broker_must_end = 0;

void note_brokers_end(int) {
  broker_must_end = 1;
}

struct Asker {
  OpenFile file;
  uid_t user = 0;
  Clock::time_point until;
};

/// Never waits: an asker that does not read gets nothing.
void send_says(int connection, Says says, std::span<const int> files = {}) noexcept {
  iovec part{&says, sizeof says};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  send_with(connection, message, files, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/// What a field says; "" if it has no end.
template <size_t Size>
std::string whole_text(const char (&field)[Size]) {
  const size_t length = strnlen(field, Size);
  return {field, length == Size ? 0 : length};
}

/// The socket. Its name goes with it, unless somebody else has it by then.
class Door {
 public:
  explicit Door(const std::string& path)
      : path_(path), file_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    struct stat found {};
    // What a broker that was killed has left. The lock says that there is no other.
    if (lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode)) (void)unlink(path.c_str());
    if (!file_ || bind(file_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw InputError(fmt::format("--serve: {}: {}", path, std::strerror(errno)));
    // Who may connect is for the folder to say; who is served, for the rules.
    if (chmod(path.c_str(), 0666) != 0 || listen(file_.get(), kBacklog) != 0)
      throw InputError(fmt::format("--serve: {}: {}", path, std::strerror(errno)));
    (void)lstat(path.c_str(), &named_);
  }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  ~Door() {
    struct stat found {};
    if (lstat(path_.c_str(), &found) == 0 && found.st_ino == named_.st_ino && found.st_dev == named_.st_dev)
      (void)unlink(path_.c_str());
  }
  int get() const noexcept { return file_.get(); }

 private:
  std::string path_;
  OpenFile file_;
  struct stat named_ {};
};

class Broker {
 public:
  Broker(const Rules& rules, const BrokerLock& lock, Regions& regions, const Door& door, size_t most_askers)
      : rules_(rules), lock_(lock), regions_(regions), door_(door), most_askers_(most_askers) {}

  /// Waits once, at most until the next asker's time is up or regions are to be looked at, with the signals
  /// of `mask` blocked.
  void serve_once(const sigset_t& mask) {
    std::vector<pollfd> ready{{door_.get(), POLLIN, 0}};
    for (const Asker& each : askers_) ready.push_back({each.file.get(), POLLIN, 0});
    // The first asker has the least time left.
    std::optional<Clock::time_point> until;
    if (!regions_.empty()) until = looked_ + kBetweenLooks;
    if (!askers_.empty()) until = std::min(until.value_or(askers_.front().until), askers_.front().until);
    const auto left_ns = std::max(until.value_or(Clock::now()) - Clock::now(), Clock::duration::zero());
    timespec time{};
    time.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left_ns).count();
    time.tv_nsec = std::chrono::nanoseconds(left_ns % std::chrono::seconds(1)).count();
    if (ppoll(ready.data(), ready.size(), until ? &time : nullptr, &mask) < 0) return;
    const Clock::time_point now = Clock::now();
    std::vector<Asker> left;
    for (size_t at = 0; at < askers_.size(); ++at) {
      if (ready[at + 1].revents != 0) {
        serve(askers_[at]);
      } else if (now < askers_[at].until) {
        left.push_back(std::move(askers_[at]));
      }
    }
    askers_ = std::move(left);
    if (ready[0].revents != 0) accept_some(now);
    if (now - looked_ < kBetweenLooks) return;
    looked_ = now;
    regions_.drop_unused(now);
  }

 private:
  void accept_some(Clock::time_point now) {
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      OpenFile file(accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!file) {
        const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
        if (is_short && dismiss_one()) continue;
        // ppoll() would return at once, again and again.
        if (is_short) (void)poll(nullptr, 0, static_cast<int>(kPauseWithoutFiles.count()));
        return;
      }
      uid_t user = 0;
      const bool may = rules_.admits(file.get(), user);
      send_says(file.get(),
                may ? rules_.answer(Outcome::ask)
                    : rules_.answer(Outcome::refused, fmt::format("user {} is not allowed", user)));
      if (!may) continue;
      if (askers_.size() >= most_askers_) dismiss_one();
      askers_.push_back({std::move(file), user, now + kAskersTime});
    }
  }

  /// Ends the longest wait of the user with the most askers, so that a user's flood harms no other. False:
  /// there is no asker.
  bool dismiss_one() {
    if (askers_.empty()) return false;
    std::map<uid_t, size_t> count;
    for (const Asker& each : askers_) ++count[each.user];
    const auto most = std::max_element(count.begin(), count.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    askers_.erase(std::find_if(askers_.begin(), askers_.end(),
                               [&](const Asker& each) { return each.user == most->first; }));
    return true;
  }

  void serve(const Asker& asker) {
    const int connection = asker.file.get();
    Asks asks{};
    const ssize_t bytes = recv(connection, &asks, sizeof asks, MSG_DONTWAIT | MSG_TRUNC);
    if (bytes <= 0) return;  // it has left
    const auto refuse = [&](const std::string& why) {
      send_says(connection, rules_.answer(Outcome::refused, why));
    };
    if (bytes < static_cast<ssize_t>(offsetof(Asks, reserved)) ||
        std::memcmp(asks.magic, wire::broker::kMagic, sizeof wire::broker::kMagic) != 0) {
      return refuse("this is no question");
    }
    if (asks.version != wire::broker::kVersion)
      return refuse(fmt::format("it knows version {}", wire::broker::kVersion));
    const std::string group = whole_text(asks.group);
    const std::string device = whole_text(asks.device);
    if (bytes != sizeof asks || !is_region_word(group) || !is_region_word(device))
      return refuse("the question makes no sense");
    if (!rules_.serves(group)) return refuse("it serves another group");
    const Region* region = regions_.find(group, device);
    if (region == nullptr && asks.region_bytes == 0)
      return send_says(connection, rules_.answer(Outcome::none));
    std::string why;
    if (region == nullptr)
      region = regions_.make({group, device, asker.user, asks.region_bytes, asks.page}, why);
    if (region == nullptr) return refuse(why);
    const OpenFile sign = lock_.sign(region->number);
    if (!sign) return refuse(fmt::format("it has no sign to give: {}", std::strerror(errno)));
    send_says(connection, rules_.answer(Outcome::here), std::array{region->file.get(), sign.get()});
  }

  const Rules& rules_;
  const BrokerLock& lock_;
  Regions& regions_;
  const Door& door_;
  const size_t most_askers_;
  std::vector<Asker> askers_;  // by arrival
  Clock::time_point looked_ = Clock::now();
};

void check_socket_path(const std::string& path) {
  if (path.size() >= sizeof(sockaddr_un::sun_path))
    throw InputError(
        fmt::format("--serve: '{}' is longer than {} bytes", path, sizeof(sockaddr_un::sun_path) - 1));
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  struct stat found {};
  if (stat(folder.empty() ? "." : folder.c_str(), &found) != 0)
    throw InputError(fmt::format("--serve: {}: {}", folder.string(), std::strerror(errno)));
  if ((found.st_mode & S_IWOTH) != 0 && (found.st_mode & S_ISVTX) == 0)
    throw InputError(
        fmt::format("--serve: everybody may write to {}, so members refuse it", folder.string()));
}

/// How many descriptors there are for askers and regions, once the system has let this process have as many
/// as it may without asking.
size_t allow_descriptors() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) (void)getrlimit(RLIMIT_NOFILE, &limit);
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  const auto taken = static_cast<size_t>(std::distance(open, {})) + kFilesInHand;
  return limit.rlim_cur > taken ? static_cast<size_t>(limit.rlim_cur) - taken : 0;
}

}  // namespace

int run_share_broker(const ShareOptions& options) {
  const Rules rules(options);
  check_socket_path(options.serve);
  allow_regions();
  const size_t files = allow_descriptors();
  const size_t most_askers = std::clamp<size_t>(files / 2, 1, kMostAskers);
  const size_t most_regions = std::clamp<size_t>(files - std::min(files, most_askers), 1, kMostRegions);
  const BrokerLock lock(options.serve + ".lock");
  Regions regions(lock, most_regions);
  if (regions.empty() && lock.has_members()) {
    throw InputError(
        fmt::format("--serve: members of a former broker at {} live on, with regions that are lost "
                    "to others: end them first",
                    options.serve));
  }
  handle_signals(kEndingSignals, note_brokers_end);
  const sigset_t before = block_signals(kEndingSignals);
  const Door door(options.serve);
  fmt::print("serves at {}\n", options.serve);
  std::fflush(stdout);
  notify_manager("READY=1", -1);
  Broker broker(rules, lock, regions, door, most_askers);
  while (broker_must_end == 0) broker.serve_once(before);
  return 0;
}

}  // namespace gpupool::cli
