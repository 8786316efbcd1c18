// SPDX-License-Identifier: Apache-2.0
// The regions that a broker has: files in memory that nobody can truncate. It knows how they begin, and
// leaves the rest to the members.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/base/process_files.hpp"

namespace gpupool::cli {

/// The file beside a broker's socket, SOCKET.lock: one broker at a time has it, and so has, in another way,
/// each member of the groups of this broker and of those before it.
class BrokerLock {
 public:
  /// Throws InputError if another broker has it.
  explicit BrokerLock(const std::string& path);
  /// Whether any region has a member.
  bool has_members() const noexcept;
  bool has_members(uint64_t region) const noexcept;
  /// A descriptor for a member of a region: the member is there as long as the descriptor, or a mapping of
  /// it.
  OpenFile sign(uint64_t region) const noexcept;

 private:
  OpenFile file_;
};

/// What somebody asks for who finds no region.
struct RegionWish {
  std::string group;
  std::string device;
  uid_t user = 0;
  uint64_t bytes = 0;
  std::span<const unsigned char> page;  // what it begins with
};

struct Region {
  std::string place;  // GROUP/DEVICE
  uid_t user = 0;     // who asked for it first
  OpenFile file;
  uint64_t number = 0;  // none other has it
  // When it was first seen to have no member; nothing: it had one when last looked at.
  std::optional<std::chrono::steady_clock::time_point> unused_since;
};

/// A region goes when its last member has, but stays for a while, since the device may have yet to show as
/// free what dead members had; or until somebody needs its place.
class Regions {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Takes what a service manager has kept of this broker's predecessor ($LISTEN_FDS). `most`: how many there
  /// may be, and a user may have a part of them.
  Regions(const BrokerLock& lock, size_t most);

  bool empty() const noexcept { return all_.empty(); }
  const Region* find(const std::string& group, const std::string& device) const noexcept;
  /// Makes one, and gives it to the service manager to keep, if there is one. Null, and `why`: it cannot, or
  /// must not.
  const Region* make(const RegionWish& wish, std::string& why);
  void drop_unused(Time now);

 private:
  bool has_place(uid_t user, std::string& why);
  void look(Time now) noexcept;
  bool drop_oldest_unused(std::optional<uid_t> user);
  std::vector<Region>::iterator drop(std::vector<Region>::iterator region);

  const BrokerLock& lock_;
  const size_t most_;
  const size_t most_of_user_;
  std::vector<Region> all_;
};

/// Throws InputError if this process's files may not be as large as a region, and it may not change that.
void allow_regions();

/// Whether this is a word that a group or device may be called by.
bool is_region_word(const std::string& text) noexcept;

/// Sends a packet over a socket, with descriptors unless there are none. Failures are left to the receiver.
void send_with(int socket, msghdr packet, std::span<const int> files, int flags) noexcept;

/// Sends a line to the service manager ($NOTIFY_SOCKET), with a descriptor unless it is -1; does nothing if
/// there is none.
void notify_manager(const std::string& text, int file) noexcept;

}  // namespace gpupool::cli
