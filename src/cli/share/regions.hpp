// SPDX-License-Identifier: Apache-2.0
// The regions that a broker has: files in memory that nobody can truncate. It does not know what is in them;
// members do.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpupool::cli {

/// A descriptor, closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }

 private:
  int number_;
};

/// The file beside a broker's socket, SOCKET.lock: one broker at a time has it, and so has, in another way,
/// each member of the groups of this broker and of those before it.
class BrokerLock {
 public:
  /// Throws InputError if another broker has it.
  explicit BrokerLock(const std::string& path);
  bool has_members() const noexcept;
  /// A descriptor for a member: the member is there as long as the descriptor, or a mapping of it.
  Descriptor sign() const noexcept;

 private:
  Descriptor file_;
};

class Regions {
 public:
  /// Takes what a service manager has kept of this broker's predecessor ($LISTEN_FDS).
  Regions();

  bool empty() const noexcept { return all_.empty(); }
  /// The descriptor of a region; -1: there is none.
  int find(const std::string& group, const std::string& device) const noexcept;
  /// Makes one that begins with `page`, and gives it to the service manager to keep, if there is one. -1,
  /// with errno: it cannot, or has too many.
  int make(const std::string& group, const std::string& device, uint64_t bytes,
           std::span<const unsigned char> page);

 private:
  struct Region {
    std::string name;  // GROUP/DEVICE
    Descriptor file;
  };
  std::vector<Region> all_;
};

/// Whether this is a word that a group or device may be called by.
bool is_region_word(const std::string& text) noexcept;

/// Sends a packet over a socket, with descriptors unless there are none. Failures are left to the receiver.
void send_with(int socket, msghdr packet, std::span<const int> files, int flags) noexcept;

/// Sends a line to the service manager ($NOTIFY_SOCKET), with a descriptor unless it is -1; does nothing if
/// there is none.
void notify_manager(const std::string& text, int file) noexcept;

}  // namespace gpupool::cli
