// SPDX-License-Identifier: Apache-2.0
// Whether what a part of a program holds grows, up to the end of its work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/recording/recording.hpp"

namespace gpupool::cli {

/// Memory that a part of a program has gained and not given back.
struct Growth {
  uint64_t bytes = 0;             // since it began to grow; 0: it does not
  uint64_t bytes_per_mark = 0;    // 0: nobody marks
  uint64_t bytes_per_second = 0;  // where nobody marks
  uint64_t rise = 0;              // "4 MiB ...
  uint64_t each = 0;              // ... each 5 marks ...
  uint64_t since_mark = 0;        // ... since mark 20", counted from 1
  uint64_t since_ns = 0;
  bool is_even = false;  // by the same amount each time, at even distances

  explicit operator bool() const noexcept { return bytes != 0; }
  /// "4 MiB each 5 marks since mark 20", or "80 MiB a second since 0.300 s".
  std::string words() const;
};

/// The moments at which what is live is compared. They end with the program's work, at the last malloc: what
/// is freed behind it says nothing of growth.
struct Moments {
  enum class By { marks, frees, time };

  By by;
  std::vector<size_t> at;    // how many events have happened by then
  std::vector<uint64_t> ns;  // when

  /// Moments are compared in windows of so many, which bounds what a long recording takes.
  size_t in_window() const noexcept;
  size_t windows() const noexcept;
};

/// Each mark, up to the first one behind the last malloc; or some thousand moments, as far from each other in
/// frees or in time, of which a rest counts as a few usual gaps. Of one pool's mallocs or of all. None if
/// there are too few.
Moments moments_of(const Recording& recording, std::optional<uint64_t> pool, Moments::By by);

/// With fewer marks nobody knows what grows from mark to mark.
inline constexpr size_t kLeastMarks = 7;

/// What is live of one part of the program, as its least in each window. It takes 16 bytes for each window in
/// which that has changed.
class Floor {
 public:
  /// Before it becomes `bytes`, with `moment` moments behind.
  void change(const Moments& moments, size_t moment, uint64_t bytes);
  uint64_t bytes() const noexcept { return bytes_; }

  /// After the last moment.
  Growth growth(const Moments& moments);

 private:
  struct Run {
    size_t window;  // the first with this floor
    uint64_t bytes;
  };
  std::vector<Run> runs_;
  size_t next_ = 0;  // the first moment that is not in them
  uint64_t bytes_ = 0;
};

}  // namespace gpupool::cli
