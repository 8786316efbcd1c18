// SPDX-License-Identifier: Apache-2.0
// Systems without pidfd_getfd: no process can hand memory to another.
#include "share/handoff.hpp"

namespace gpupool::internal::share {

Status check_handoff() {
  return fail(GPUPOOL_ERROR_UNSUPPORTED, "memory can be shared between processes only on Linux");
}

Ticket::Ticket(Ticket&&) noexcept {}
Ticket& Ticket::operator=(Ticket&&) noexcept {
  return *this;
}
Ticket::~Ticket() = default;

Status Offer::make(Handoff, std::unique_ptr<Offer>&) {
  return check_handoff();
}
void Offer::close() noexcept {}
bool Offer::is_over() noexcept {
  return true;
}
void Offer::forget() noexcept {}

Status Taking::take(std::string_view, const char*, std::unique_ptr<Taking>&) {
  return check_handoff();
}
Taking::~Taking() = default;
void Taking::close_descriptors() noexcept {}

}  // namespace gpupool::internal::share
