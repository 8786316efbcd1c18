// SPDX-License-Identifier: Apache-2.0
#include "share/member.hpp"

#include <mutex>
#include <vector>

#include "base/lasting.hpp"
#include "os/mutex.hpp"

namespace gpupool::internal::share {
namespace {

constinit Lasting<std::unique_ptr<std::vector<std::weak_ptr<Member>>>> the_members;

/// The member of this process in that region, if there is one.
std::shared_ptr<Member> find(const Place& place) {
  if (the_members.value == nullptr) return nullptr;
  for (const auto& each : *the_members.value) {
    std::shared_ptr<Member> member = each.lock();
    if (member != nullptr && member->is_member() && member->place().path() == place.path()) return member;
  }
  return nullptr;
}

std::shared_ptr<Member> find_locked(const Place& place) {
  const std::lock_guard lock(members_mutex);
  return find(place);
}

}  // namespace

Status join(const Place& place, uint64_t free, std::unique_ptr<Owner> owner,
            std::shared_ptr<Member>& member) {
  BrokerCall call;
  if (!place.socket.empty()) {
    // A broker may be slow, and whoever holds the lock keeps others from forking.
    if ((member = find_locked(place)) != nullptr) return kSuccess;
    if (const Status status = call.ask(place, true); status != kSuccess) return status;
  }
  const std::lock_guard lock(members_mutex);
  auto& members = the_members.value;
  if (members == nullptr) members = std::make_unique<std::vector<std::weak_ptr<Member>>>();
  member = find(place);
  if (member != nullptr) return kSuccess;
  std::erase_if(*members, [](const auto& each) { return each.expired(); });
  members->reserve(members->size() + 1);
  auto made = std::make_shared<Member>(std::move(owner), place);
  if (const Status status = made->begin(free, call); status != kSuccess) return status;
  members->push_back(made);
  member = std::move(made);
  return kSuccess;
}

void forget_members() noexcept {
  if (the_members.value == nullptr) return;
  for (const auto& each : *the_members.value) {
    if (const auto member = each.lock()) member->forget();
  }
}

Status Member::begin(uint64_t free, BrokerCall& call) {
  if (const Status status = enter(free, call); status != kSuccess) return status;
  const Status status = listener_.start(weak_from_this());
  if (status != kSuccess) leave();
  return status;
}

Member::~Member() {
  if (!is_member()) return;
  listener_.stop();
  leave();
}

}  // namespace gpupool::internal::share
