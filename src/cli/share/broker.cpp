// SPDX-License-Identifier: Apache-2.0
// One thread waits in ppoll(). It reads and writes whole packets without waiting, and each asker has a time,
// so no asker that is slow, stopped or hostile can hold up another.
#include "cli/share/broker.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
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
#include "cli/share/regions.hpp"

namespace gpupool::cli {
namespace {

using Clock = std::chrono::steady_clock;

// src/share/broker.hpp has the same.
constexpr char kBrokerMagic[8] = {'g', 'p', 'b', 'r', 'o', 'k', 'e', 'r'};
constexpr uint32_t kBrokerVersion = 1;
enum class Outcome : uint32_t { refused, ask, here, none };

struct Says {
  char magic[8];
  uint32_t version;
  Outcome outcome;
  uint64_t limit;
  uint32_t limit_share;
  uint32_t reserved;
  char message[128];
};
static_assert(sizeof(Says) == 160);

struct Asks {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
  char group[64];
  char device[64];
  uint64_t region_bytes;
  unsigned char page[4096];
};
static_assert(sizeof(Asks) == 4248);

/// An asker sends its question at once. One that does not is in nobody's way for longer.
constexpr std::chrono::seconds kAskersTime{5};
constexpr size_t kMostAskers = 512;
constexpr int kAcceptedAtOnce = 64;
constexpr std::chrono::milliseconds kPauseWithoutFiles{100};
constexpr int kBacklog = 4096;

volatile std::sig_atomic_t broker_must_end = 0;

void note_brokers_end(int) {
  broker_must_end = 1;
}

struct Asker {
  Descriptor file;
  uid_t user = 0;
  Clock::time_point until;
};

/// Reads a name or a number.
template <typename Id, typename Lookup>
Id read_id(const std::string& text, const char* option, Lookup lookup) {
  Id id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error == std::errc{} && end == text.data() + text.size()) return id;
  const std::optional<Id> found = lookup(text.c_str());
  if (!found) throw InputError(fmt::format("{}: there is no '{}'", option, text));
  return *found;
}

uid_t read_user(const std::string& text) {
  return read_id<uid_t>(text, "--allow-uid", [](const char* name) -> std::optional<uid_t> {
    const passwd* const found = getpwnam(name);  // NOLINT(concurrency-mt-unsafe): there is one thread
    return found == nullptr ? std::nullopt : std::optional(found->pw_uid);
  });
}

gid_t read_group(const std::string& text) {
  return read_id<gid_t>(text, "--allow-gid", [](const char* name) -> std::optional<gid_t> {
    const group* const found = getgrnam(name);  // NOLINT(concurrency-mt-unsafe): there is one thread
    return found == nullptr ? std::nullopt : std::optional(found->gr_gid);
  });
}

Size read_limit(const std::string& text) {
  try {
    return parse_size(text);
  } catch (const Error&) {
    throw InputError(fmt::format(
        "--limit: '{}' is neither bytes such as 60GiB nor a share of the device such as 40%", text));
  }
}

/// What is the same for all who ask.
class Rules {
 public:
  explicit Rules(const ShareOptions& options) : group_(options.group) {
    for (const std::string& each : options.allowed_users) users_.push_back(read_user(each));
    for (const std::string& each : options.allowed_groups) groups_.push_back(read_group(each));
    users_.push_back(geteuid());
    users_.push_back(0);  // may do all of this without being asked
    if (!group_.empty() && !is_region_word(group_))
      throw InputError(fmt::format("--group: '{}' is no name of a group", group_));
    if (options.limit.empty()) return;
    const Size limit = read_limit(options.limit);
    limit_ = limit.share == 0 ? limit.bytes : 0;
    limit_share_ = static_cast<uint32_t>(limit.share * 1e6);
  }

  bool admits(int connection, uid_t& user) const {
    ucred who{};
    socklen_t length = sizeof who;
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) return false;
    user = who.uid;
    if (std::find(users_.begin(), users_.end(), who.uid) != users_.end()) return true;
    if (groups_.empty()) return false;
    std::vector<gid_t> theirs(65536);  // the most that a process may be in
    length = static_cast<socklen_t>(theirs.size() * sizeof(gid_t));
    if (getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, theirs.data(), &length) != 0) length = 0;
    theirs.resize(length / sizeof(gid_t));
    theirs.push_back(who.gid);
    return std::find_first_of(theirs.begin(), theirs.end(), groups_.begin(), groups_.end()) != theirs.end();
  }
  bool serves(const std::string& group) const { return group_.empty() || group_ == group; }

  Says answer(Outcome outcome, const std::string& message = "") const {
    Says says{};
    std::memcpy(says.magic, kBrokerMagic, sizeof kBrokerMagic);
    says.version = kBrokerVersion;
    says.outcome = outcome;
    says.limit = limit_;
    says.limit_share = limit_share_;
    message.copy(says.message, sizeof says.message - 1);
    return says;
  }

 private:
  std::string group_;
  std::vector<uid_t> users_;
  std::vector<gid_t> groups_;
  uint64_t limit_ = 0;
  uint32_t limit_share_ = 0;
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
std::string text_of(const char (&field)[Size]) {
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
  Descriptor file_;
  struct stat named_ {};
};

class Broker {
 public:
  Broker(const Rules& rules, const BrokerLock& lock, Regions& regions, const Door& door)
      : rules_(rules), lock_(lock), regions_(regions), door_(door) {}

  /// Waits once, at most until the next asker's time is up, with the signals of `mask` blocked.
  void serve_once(const sigset_t& mask) {
    std::vector<pollfd> ready{{door_.get(), POLLIN, 0}};
    for (const Asker& each : askers_) ready.push_back({each.file.get(), POLLIN, 0});
    timespec time{};
    const timespec* wait = nullptr;
    if (!askers_.empty()) {  // the first has the least time left
      const auto left = std::max(askers_.front().until - Clock::now(), Clock::duration::zero());
      time.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
      time.tv_nsec = std::chrono::nanoseconds(left % std::chrono::seconds(1)).count();
      wait = &time;
    }
    if (ppoll(ready.data(), ready.size(), wait, &mask) < 0) return;
    const Clock::time_point now = Clock::now();
    std::vector<Asker> left;
    for (size_t at = 0; at < askers_.size(); ++at) {
      if (ready[at + 1].revents != 0) {
        serve(askers_[at].file.get());
      } else if (now < askers_[at].until) {
        left.push_back(std::move(askers_[at]));
      }
    }
    askers_ = std::move(left);
    if (ready[0].revents != 0) accept_some(now);
  }

 private:
  void accept_some(Clock::time_point now) {
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      Descriptor file(accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!file) {
        // Without a descriptor to spare, ppoll() would return at once, again and again.
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
          (void)poll(nullptr, 0, static_cast<int>(kPauseWithoutFiles.count()));
        return;
      }
      uid_t user = 0;
      const bool may = rules_.admits(file.get(), user);
      send_says(file.get(),
                may ? rules_.answer(Outcome::ask)
                    : rules_.answer(Outcome::refused, fmt::format("user {} is not allowed", user)));
      if (!may) continue;
      if (askers_.size() == kMostAskers) dismiss_one();
      askers_.push_back({std::move(file), user, now + kAskersTime});
    }
  }

  /// Ends the longest wait of the user with the most askers, so that a user's flood harms no other.
  void dismiss_one() {
    std::map<uid_t, size_t> count;
    for (const Asker& each : askers_) ++count[each.user];
    const auto most = std::max_element(count.begin(), count.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    askers_.erase(std::find_if(askers_.begin(), askers_.end(),
                               [&](const Asker& each) { return each.user == most->first; }));
  }

  void serve(int connection) {
    Asks asks{};
    const ssize_t bytes = recv(connection, &asks, sizeof asks, MSG_DONTWAIT | MSG_TRUNC);
    if (bytes <= 0) return;  // it has left
    const auto refuse = [&](const std::string& why) {
      send_says(connection, rules_.answer(Outcome::refused, why));
    };
    if (bytes < static_cast<ssize_t>(offsetof(Asks, reserved)) ||
        std::memcmp(asks.magic, kBrokerMagic, sizeof kBrokerMagic) != 0) {
      return refuse("this is no question");
    }
    if (asks.version != kBrokerVersion) return refuse(fmt::format("it knows version {}", kBrokerVersion));
    const std::string group = text_of(asks.group);
    const std::string device = text_of(asks.device);
    if (bytes != sizeof asks || !is_region_word(group) || !is_region_word(device))
      return refuse("the question makes no sense");
    if (!rules_.serves(group)) return refuse("it serves another group");
    int region = regions_.find(group, device);
    if (region < 0 && asks.region_bytes == 0) return send_says(connection, rules_.answer(Outcome::none));
    if (region < 0) region = regions_.make(group, device, asks.region_bytes, asks.page);
    if (region < 0) return refuse(fmt::format("it can make no region: {}", std::strerror(errno)));
    const Descriptor sign = lock_.sign();
    if (!sign) return refuse(fmt::format("it has no sign to give: {}", std::strerror(errno)));
    send_says(connection, rules_.answer(Outcome::here), std::array{region, sign.get()});
  }

  const Rules& rules_;
  const BrokerLock& lock_;
  Regions& regions_;
  const Door& door_;
  std::vector<Asker> askers_;  // by arrival
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

/// As many descriptors as the system lets this process have without asking.
void allow_descriptors() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int run_share_broker(const ShareOptions& options) {
  const Rules rules(options);
  check_socket_path(options.serve);
  allow_descriptors();
  const BrokerLock lock(options.serve + ".lock");
  Regions regions;
  if (regions.empty() && lock.has_members()) {
    throw InputError(
        fmt::format("--serve: members of a former broker at {} live on, with regions that are lost "
                    "to others: end them first",
                    options.serve));
  }
  sigset_t ends;
  sigset_t before;
  sigemptyset(&ends);
  for (const int each : {SIGTERM, SIGINT, SIGHUP}) {
    sigaddset(&ends, each);
    struct sigaction action {};
    action.sa_handler = note_brokers_end;
    sigaction(each, &action, nullptr);
  }
  sigprocmask(SIG_BLOCK, &ends, &before);
  const Door door(options.serve);
  fmt::print("serves at {}\n", options.serve);
  std::fflush(stdout);
  notify_manager("READY=1", -1);
  Broker broker(rules, lock, regions, door);
  while (broker_must_end == 0) broker.serve_once(before);
  return 0;
}

}  // namespace gpupool::cli
