// SPDX-License-Identifier: Apache-2.0
// The mark on one of many rows, and which of them are in view.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace gpupool::cli {

/// Keys for a page, as `less` has them.
inline constexpr char kPageUp = '\x02';    // ctrl-B
inline constexpr char kPageDown = '\x06';  // ctrl-F

/// `Key` names a row, wherever it is.
template <typename Key>
class Mark {
 public:
  /// Takes the rows as they are shown from now on. The mark stays on its row. False: it went with that.
  bool see(std::vector<Key> rows) {
    rows_ = std::move(rows);
    if (!marked_ || place() < rows_.size()) return true;
    marked_.reset();
    return false;
  }
  const std::optional<Key>& marked() const noexcept { return marked_; }

  /// Which row is to be shown first where so many fit, with so many lines above them: the marked one is in
  /// view.
  size_t first_shown(size_t room, size_t above) {
    room_ = std::max<size_t>(room, 1);
    above_ = above;
    const size_t at = place();
    if (at != rows_.size()) first_ = std::clamp(first_, at + 1 - std::min(at + 1, room_), at);
    return first_ = std::min(first_, rows_.size() - std::min(rows_.size(), room_));
  }

  /// k and j move it up and down, ctrl-B and ctrl-F by as many rows as are shown, g and G to the first row
  /// and the last. Without a mark, j and k begin at the first and the last row, and pages count from the
  /// first. False: another key.
  bool move(char key) {
    if (std::string_view("jkgG\x02\x06").find(key) == std::string_view::npos) return false;
    if (rows_.empty()) return true;
    const size_t last = rows_.size() - 1;
    size_t at = place();
    const bool is_new = at > last;
    if (is_new) at = 0;
    switch (key) {
      case 'j': at += is_new ? 0 : 1; break;
      case 'k': at = is_new ? last : at - std::min<size_t>(at, 1); break;
      case kPageDown: at += room_; break;
      case kPageUp: at -= std::min(at, room_); break;
      default: at = key == 'g' ? 0 : last;
    }
    marked_ = rows_[std::min(at, last)];
    return true;
  }

  /// Marks what is shown in a line of the screen, of which the first is 1. False: no row is.
  bool point(size_t line) {
    if (line <= above_ || line > above_ + room_ || first_ + line - above_ > rows_.size()) return false;
    marked_ = rows_[first_ + line - above_ - 1];
    return true;
  }

  /// Shows other rows: so many further down, or up. The mark comes along if it would be out of view. False:
  /// there is none.
  bool scroll(int rows) {
    const size_t most = rows_.size() - std::min(rows_.size(), room_);
    first_ = static_cast<size_t>(
        std::clamp<int64_t>(static_cast<int64_t>(first_) + rows, 0, static_cast<int64_t>(most)));
    const size_t at = place();
    if (at == rows_.size()) return false;
    marked_ = rows_[std::clamp(at, first_, first_ + room_ - 1)];
    return true;
  }

 private:
  size_t place() const {
    return static_cast<size_t>(std::find(rows_.begin(), rows_.end(), marked_) - rows_.begin());
  }

  std::vector<Key> rows_;  // from the first to the last
  std::optional<Key> marked_;
  size_t first_ = 0;  // that is shown
  size_t room_ = 1;
  size_t above_ = 0;
};

}  // namespace gpupool::cli
