// SPDX-License-Identifier: Apache-2.0
// A list through its members' own links: it allocates nothing, and removes a member in one step.
#pragma once

#include <cstddef>

namespace gpupool::internal {

/// A member must not be in two lists that use the same links. The list does not own its members.
template <typename Member, Member* Member::*kPrev, Member* Member::*kNext>
class List {
 public:
  Member* first() const noexcept { return first_; }
  static Member* after(const Member* member) noexcept { return member->*kNext; }
  size_t count() const noexcept { return count_; }
  bool empty() const noexcept { return first_ == nullptr; }

  void push_back(Member* member) noexcept {
    member->*kPrev = last_;
    member->*kNext = nullptr;
    (last_ != nullptr ? last_->*kNext : first_) = member;
    last_ = member;
    ++count_;
  }

  void remove(Member* member) noexcept {
    Member* prev = member->*kPrev;
    Member* next = member->*kNext;
    (prev != nullptr ? prev->*kNext : first_) = next;
    (next != nullptr ? next->*kPrev : last_) = prev;
    member->*kPrev = member->*kNext = nullptr;
    --count_;
  }

  Member* pop_front() noexcept {
    Member* member = first_;
    if (member != nullptr) remove(member);
    return member;
  }

 private:
  Member* first_ = nullptr;
  Member* last_ = nullptr;
  size_t count_ = 0;
};

}  // namespace gpupool::internal
