// SPDX-License-Identifier: Apache-2.0
// A broker that does not do its part: whatever it is, sends or leaves out, the process learns the reason in
// time and runs alone. tests/cli/test_share_broker.py has the broker itself.
#include "share/broker.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <vector>

#include "share/region_linux.hpp"
#include "share_fixture.hpp"
#include "wire/broker.hpp"

namespace gpupool::internal::share {
namespace {

constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr uid_t kStranger = 65534;

bool can_be_another() {
  struct stat root {};
  return geteuid() == 0 && stat("/", &root) == 0 && (root.st_mode & S_IXOTH) != 0;
}

wire::broker::Says says(wire::broker::Outcome outcome, const char* message = "") {
  wire::broker::Says all{};
  std::memcpy(all.magic, wire::broker::kMagic, sizeof wire::broker::kMagic);
  all.version = wire::broker::kVersion;
  all.outcome = outcome;
  std::strncpy(all.message, message, sizeof all.message - 1);
  return all;
}

void send_with(int connection, const wire::broker::Says& all, const std::vector<int>& files = {}) {
  iovec part{const_cast<wire::broker::Says*>(&all), sizeof all};
  alignas(cmsghdr) char room[256] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    message.msg_control = room;
    message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
    std::memcpy(CMSG_DATA(head), files.data(), files.size() * sizeof(int));
  }
  (void)sendmsg(connection, &message, MSG_NOSIGNAL);
}

wire::broker::Asks receive_question(int connection) {
  wire::broker::Asks asks{};
  (void)recv(connection, &asks, sizeof asks, 0);
  return asks;
}

class BrokerTest : public ShareTest {
 protected:
  BrokerTest() { place_.socket = folder_ + "/team.sock"; }
  ~BrokerTest() override {
    for (const pid_t each : brokers_) {
      kill(each, SIGKILL);
      end_of(each);
    }
  }

  int listen_here(int backlog = 64) const {
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, place_.socket.c_str(), sizeof address.sun_path - 1);
    unlink(place_.socket.c_str());
    if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) abort();
    if (chmod(place_.socket.c_str(), 0666) != 0 || listen(listener, backlog) != 0) abort();
    return listener;
  }

  /// Another process that does this with each who connects.
  template <typename Serve>
  void start_broker(Serve serve) {
    const int listener = listen_here();
    brokers_.push_back(start([&] {
      for (;;) {
        const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        serve(connection);
        close(connection);
      }
      return 0;
    }));
    close(listener);
  }
  /// A broker which greets, reads the question, and then does this.
  template <typename Answer>
  void start_answering(Answer answer) {
    start_broker([answer](int connection) {
      send_with(connection, says(wire::broker::Outcome::ask));
      answer(connection, receive_question(connection));
    });
  }
  void end_brokers() {
    for (const pid_t each : brokers_) {
      kill(each, SIGKILL);
      end_of(each);
    }
    brokers_.clear();
  }

  int region_with(const Header& header, size_t bytes = kRegionBytes, int seals = kSealed) const {
    const int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(ftruncate(file, static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(pwrite(file, static_cast<const void*>(&header), sizeof header, 0),
              static_cast<ssize_t>(sizeof header));
    EXPECT_EQ(fchmod(file, 0666), 0);
    EXPECT_EQ(fcntl(file, F_ADD_SEALS, seals), 0);
    return file;
  }
  void write(Header& header) const { write_header(place_, header); }

  void expect_alone(const char* reason, bool is_slow = false) const {
    std::shared_ptr<Member> member;
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(share::join(place_, ~uint64_t{0}, std::make_unique<TestOwner>(), member),
              GPUPOOL_ERROR_UNAVAILABLE);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
    EXPECT_EQ(member, nullptr);
    EXPECT_NE(std::string(last_error().message).find(reason), std::string::npos) << last_error().message;
    if (is_slow) return;
    View view;
    EXPECT_EQ(view.open(place_), GPUPOOL_ERROR_UNAVAILABLE);
  }
  void expect_refused(const std::vector<int>& files, const char* reason) {
    start_answering([files](int connection, const wire::broker::Asks&) {
      send_with(connection, says(wire::broker::Outcome::here), files);
    });
    expect_alone(reason);
    end_brokers();
    for (const int each : files) close(each);
  }
  static int some_file() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }
  int open_files() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
  }

  std::vector<pid_t> brokers_;
};

TEST_F(BrokerTest, NobodyThere) {
  expect_alone("No such file");
  close(listen_here());
  expect_alone("Connection refused");
  unlink(place_.socket.c_str());
  std::ofstream(place_.socket) << "text";
  expect_alone("has no socket there");
  unlink(place_.socket.c_str());
  std::filesystem::create_symlink("/dev/null", place_.socket);
  expect_alone("has no socket there");
  place_.socket = folder_ + "/none/team.sock";
  expect_alone("the socket's folder");
}

TEST_F(BrokerTest, AFolderOfEverybodyIsRefused) {
  start_broker([](int) {});
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  expect_alone("everybody may write to");
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
}

TEST_F(BrokerTest, AStrangersSocketIsRefused) {
  if (!can_be_another()) GTEST_SKIP() << "only root can become another user, who needs an open /";
  ASSERT_EQ(chmod(folder_.c_str(), 01777), 0);
  ASSERT_EQ(chown(folder_.c_str(), 12345, 12345), 0);
  brokers_.push_back(start([&] {
    // listen() notes who listens.
    if (setresuid(kStranger, kStranger, kStranger) != 0) return 1;
    listen_here();
    return pause();
  }));
  ASSERT_TRUE(soon([&] { return std::filesystem::exists(place_.socket); }));
  usleep(20'000);
  expect_alone("user 65534 serves it");
  ASSERT_EQ(chown(folder_.c_str(), 0, 0), 0);
}

/// In a user namespace a stranger, the folder's owner, and perhaps this user, all have the number of nobody.
TEST_F(BrokerTest, AStrangersSocketIsRefusedWhereAllUsersLookAlike) {
  if (!can_be_another()) GTEST_SKIP() << "only root can become another user, who needs an open /";
  ASSERT_EQ(chmod(folder_.c_str(), 01777), 0);
  ASSERT_EQ(chown(folder_.c_str(), 12345, 12345), 0);
  brokers_.push_back(start([&] {
    if (setresuid(12346, 12346, 12346) != 0) return 1;
    const int listener = listen_here();
    for (;;) {
      const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      send_with(connection, says(wire::broker::Outcome::refused, "but it was asked"));
      close(connection);
    }
    return 0;
  }));
  ASSERT_TRUE(soon([&] { return std::filesystem::exists(place_.socket); }));
  usleep(20'000);
  constexpr int kNoNamespaces = 77;
  for (const bool maps_own : {true, false}) {
    const pid_t child = start([&] {
      constexpr uid_t kOwn = 20088;
      if (setresuid(kOwn, kOwn, kOwn) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0) return 1;
      if (unshare(CLONE_NEWUSER) != 0) return kNoNamespaces;
      if (maps_own) std::ofstream("/proc/self/uid_map") << kOwn << ' ' << kOwn << " 1\n";
      if (geteuid() != (maps_own ? kOwn : kStranger)) return kNoNamespaces;
      std::shared_ptr<Member> member;
      if (share::join(place_, ~uint64_t{0}, std::make_unique<TestOwner>(), member) == kSuccess) return 2;
      return std::strstr(last_error().message, "user 65534 serves it, which may be anybody") != nullptr ? 0
                                                                                                        : 3;
    });
    const int end = end_of(child);
    if (end == kNoNamespaces) {
      (void)chown(folder_.c_str(), 0, 0);
      GTEST_SKIP() << "the system allows no user namespaces";
    }
    EXPECT_EQ(end, 0) << maps_own;
  }
  ASSERT_EQ(chown(folder_.c_str(), 0, 0), 0);
}

TEST_F(BrokerTest, OneThatSaysNothingIsLeftInTime) {
  start_broker([](int) { pause(); });
  expect_alone("does not answer", true);
}

TEST_F(BrokerTest, OneThatForgetsTheQuestionIsLeftInTime) {
  start_answering([](int, const wire::broker::Asks&) { pause(); });
  expect_alone("does not answer", true);
}

TEST_F(BrokerTest, OneThatIsStoppedIsLeftInTime) {
  const int listener = listen_here(0);  // and the one place of its queue is taken
  const int other = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, place_.socket.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(connect(other, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  expect_alone("does not answer", true);
  close(other);
  close(listener);
}

TEST_F(BrokerTest, SenselessAnswersAreRefused) {
  start_broker([](int) {});
  expect_alone("ends without an answer");
  end_brokers();
  start_broker([](int connection) { (void)send(connection, "hello", 5, MSG_NOSIGNAL); });
  expect_alone("makes no sense");
  end_brokers();
  start_broker([](int connection) {
    const std::vector<char> noise(100'000, 'x');
    (void)send(connection, noise.data(), noise.size(), MSG_NOSIGNAL);
  });
  expect_alone("makes no sense");
  end_brokers();
  start_broker([](int connection) {
    wire::broker::Says newer = says(wire::broker::Outcome::ask);
    newer.version = 2;
    send_with(connection, newer);
  });
  expect_alone("has a broker of version 2, and this library knows 1");
  end_brokers();
  start_answering([](int connection, const wire::broker::Asks&) {
    send_with(connection, says(wire::broker::Outcome::ask));
  });
  expect_alone("makes no sense");
  end_brokers();
  start_answering([](int connection, const wire::broker::Asks&) {
    send_with(connection, says(wire::broker::Outcome::none));
  });
  expect_alone("does not exist");
  end_brokers();
  start_broker([](int connection) {
    wire::broker::Says refusal = says(wire::broker::Outcome::refused);
    std::memset(refusal.message, 0x1b, sizeof refusal.message);
    send_with(connection, refusal);
  });
  expect_alone("refuses: ??????");
}

TEST_F(BrokerTest, FilesThatAreNoRegionAreRefused) {
  const int before = open_files();
  Header header{};
  write(header);
  expect_refused({}, "makes no sense");
  expect_refused({region_with(header)}, "makes no sense");
  expect_refused({region_with(header), some_file(), some_file()}, "makes no sense");
  expect_refused({some_file(), some_file()}, "is not sealed");
  int ends[2] = {};
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  expect_refused({ends[0], ends[1]}, "is not sealed");
  expect_refused({region_with(header, kRegionBytes, F_SEAL_SHRINK | F_SEAL_GROW), some_file()},
                 "is not sealed");
  expect_refused({region_with(header, kRegionBytes, F_SEAL_SEAL | F_SEAL_GROW), some_file()},
                 "is not sealed");
  expect_refused({region_with(header, 5000), some_file()}, "has 5000 bytes, not");
  // Sealed against writing as well: there is no opening it to write.
  expect_refused({region_with(header, kRegionBytes, kSealed | F_SEAL_WRITE), some_file()}, "");
  // A sign that cannot be mapped.
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[1]);
  start_answering([&](int connection, const wire::broker::Asks&) {
    send_with(connection, says(wire::broker::Outcome::here), {region_with(header), ends[0]});
  });
  std::shared_ptr<Member> member;
  EXPECT_EQ(share::join(place_, ~uint64_t{0}, std::make_unique<TestOwner>(), member),
            GPUPOOL_ERROR_UNAVAILABLE);
  close(ends[0]);
  EXPECT_EQ(open_files(), before) << "descriptors are left";
}

TEST_F(BrokerTest, RegionsOfOthersAreRefused) {
  const auto refuse = [&](auto change, const char* reason) {
    Header header{};
    write(header);
    change(header);
    expect_refused({region_with(header), some_file()}, reason);
  };
  refuse([](Header& header) { header.begin.magic[0] = 'X'; }, "is no region of gpupool");
  refuse([](Header& header) { header.begin.major = wire::region::kMajor + 1; }, "has layout 2");
  refuse([](Header& header) { header.begin.slot_bytes = 512; }, "another layout than its version says");
  refuse([](Header& header) { header.begin.device[0] = 'X'; }, "is of another device");
}

/// A broker as it should be, for one region.
class GoodBrokerTest : public BrokerTest {
 protected:
  GoodBrokerTest() {
    const std::string sign = folder_ + "/sign";
    close(open(sign.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    int region = -1;
    start_broker([this, sign, region](int connection) mutable {
      wire::broker::Says greeting = says(wire::broker::Outcome::ask);
      greeting.limit = limit_->load();
      send_with(connection, greeting);
      const wire::broker::Asks asks = receive_question(connection);
      if (region < 0 && asks.region_bytes == 0)
        return send_with(connection, says(wire::broker::Outcome::none));
      if (region < 0) {
        region = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (ftruncate(region, static_cast<off_t>(asks.region_bytes)) != 0 || fchmod(region, 0666) != 0 ||
            pwrite(region, asks.page, sizeof asks.page, 0) != sizeof asks.page ||
            fcntl(region, F_ADD_SEALS, kSealed) != 0)
          abort();
      }
      const int own_sign = open(sign.c_str(), O_RDONLY | O_CLOEXEC);
      struct flock lock {};
      lock.l_type = F_RDLCK;
      lock.l_len = 1;
      (void)fcntl(own_sign, F_OFD_SETLK, &lock);
      send_with(connection, says(wire::broker::Outcome::here), {region, own_sign});
      close(own_sign);
    });
  }
  /// Whether anybody has a sign.
  bool has_members() const {
    const int file = open((folder_ + "/sign").c_str(), O_RDWR | O_CLOEXEC);
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_len = 1;
    EXPECT_EQ(fcntl(file, F_OFD_GETLK, &lock), 0);
    close(file);
    return lock.l_type != F_UNLCK;
  }
  pid_t start_member(uint64_t bytes, uid_t user = geteuid()) {
    Common<std::atomic<int>> there;
    const pid_t child = start([&] {
      if (setresuid(user, user, user) != 0) return 2;
      std::shared_ptr<Member> member;
      // With all of the device free, so that what the dead had is.
      if (share::join(place_, kTotal, std::make_unique<TestOwner>(), member) != kSuccess) return 1;
      if (!member->charge(bytes)) return 3;
      there->store(1);
      return pause();
    });
    EXPECT_TRUE(soon([&] { return there->load() == 1; }));
    return child;
  }

  Common<std::atomic<uint64_t>> limit_;
};

TEST_F(GoodBrokerTest, GivesOneRegionToAll) {
  const auto member = join();
  ASSERT_TRUE(member->charge(kGiB));
  const pid_t child = start_member(2 * kGiB);
  EXPECT_EQ(used(), 3 * kGiB);
  EXPECT_EQ(members().size(), 2U);
  EXPECT_TRUE(std::filesystem::exists(place_.socket));
  EXPECT_EQ(path(), folder_ + "/team.sock:team.GPU-0");
  kill(child, SIGKILL);
  end_of(child);
  EXPECT_EQ(used_after_repair(), kGiB);
}

TEST_F(GoodBrokerTest, ItsLimitIsTheGroups) {
  limit_->store(4 * kGiB);
  const auto member = join();
  EXPECT_EQ(member->limit(), 4 * kGiB);
  EXPECT_FALSE(member->charge(5 * kGiB));
}

TEST_F(GoodBrokerTest, UsersShare) {
  if (!can_be_another()) GTEST_SKIP() << "only root can become another user, who needs an open /";
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  const pid_t first = start_member(kGiB, 12345);
  const pid_t second = start_member(2 * kGiB, 12346);
  EXPECT_EQ(used(), 3 * kGiB);
  const auto all = members();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].uid + all[1].uid, 12345U + 12346U);
  kill(first, SIGKILL);
  end_of(first);
  // Another user's member finds it dead, and recovers what it had.
  const pid_t third = start_member(62 * kGiB, 12347);
  EXPECT_EQ(used(), 64 * kGiB);
  for (const pid_t each : {second, third}) {
    kill(each, SIGKILL);
    end_of(each);
  }
  EXPECT_EQ(used_after_repair(), 0U);
}

/// From here on the broker is dead.
TEST_F(GoodBrokerTest, MembersGoOnWithoutIt) {
  auto owner = std::make_unique<TestOwner>();
  owner->free = kTotal;
  const auto member = join(std::move(owner));
  const pid_t other = start_member(60 * kGiB);
  end_brokers();
  ASSERT_TRUE(member->charge(4 * kGiB));
  EXPECT_FALSE(member->charge(kGiB));
  kill(other, SIGKILL);
  end_of(other);
  Turn turn(member->turns(), 40 * kGiB, 5'000 * kMs);
  EXPECT_TRUE(turn.wait()) << "what the dead member had was not recovered";
  EXPECT_TRUE(member->charge(40 * kGiB));
}

TEST_F(GoodBrokerTest, AProgramThatClosesEverythingStaysAMember) {
  const auto member = join();
  const pid_t child = start([&] {
    const auto own = join();
    if (own == nullptr || !own->charge(kGiB)) return 1;
    if (close_range(3, ~0U, 0) != 0) return 2;
    const int reused = open("/dev/null", O_RDONLY);  // where the anchor was
    for (int i = 0; i < 20; ++i) (void)dup(reused);
    const bool is_counted = own->used_by_all() == kGiB;
    Turn turn(own->turns(), 64 * kGiB, 20 * kMs);
    const bool is_refused = !turn.wait();
    return is_counted && is_refused && fcntl(reused, F_GETFD) >= 0 ? 0 : 3;
  });
  EXPECT_EQ(end_of(child), 0);
}

TEST_F(GoodBrokerTest, AChildOfAMemberKeepsNothing) {
  EXPECT_FALSE(has_members());
  const int before = open_files();
  Common<std::atomic<int>> grandchild;
  const pid_t parent = start([&] {
    const auto member = join();
    if (member == nullptr || !member->charge(kGiB)) return 1;
    grandchild->store(start([&] {
      members_mutex.lock();  // as the library's handlers of fork do
      forget_members();
      members_mutex.unlock();
      return pause();
    }));
    return pause();
  });
  ASSERT_TRUE(soon([&] { return grandchild->load() != 0; }));
  EXPECT_TRUE(has_members());
  kill(parent, SIGKILL);
  end_of(parent);
  EXPECT_TRUE(soon([&] { return !has_members(); })) << "the child has the sign of life";
  EXPECT_EQ(used_after_repair(), 0U) << "the child has the place";
  kill(grandchild->load(), SIGKILL);
  EXPECT_EQ(open_files(), before);
}

TEST_F(GoodBrokerTest, NoMemberCanTruncateIt) {
  const auto member = join();
  View view;
  ASSERT_EQ(view.open(place_), kSuccess);
  int found = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string there = std::filesystem::read_symlink(each.path(), error).string();
    if (there.find("memfd:") == std::string::npos) continue;
    ++found;
    const int file = open(each.path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(file, 0);
    EXPECT_EQ(ftruncate(file, 0), -1);
    EXPECT_EQ(ftruncate(file, 1 << 20), -1);
    EXPECT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
    close(file);
  }
  EXPECT_EQ(found, 2);
}

}  // namespace
}  // namespace gpupool::internal::share
