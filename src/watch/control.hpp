// SPDX-License-Identifier: Apache-2.0
// Commands that other processes of the same user give to this one: a socket, and a thread that waits on it.
// Neither is there unless asked for. docs/inside/control.md has the protocol for those who write to it.
#pragma once

#include "base/status.hpp"
#include "wire/control.hpp"

namespace gpupool::internal::control {

using wire::control::Outcome;
using wire::control::Reply;
using wire::control::Request;

/// Who carries commands out. Called by the thread, with no lock held; one command at a time.
struct Actions {
  /// A request whose form is right. `file` is set to what goes along with the reply.
  void (*carry_out)(const Request& request, Reply& reply, int& file) noexcept;
  /// Ends a recording, if it is still that one.
  Status (*stop_recording)(uint32_t recording) noexcept;
};

/// Writes into a reply why it was not done.
[[gnu::format(printf, 3, 4), gnu::cold]] void refuse(Reply& reply, Outcome outcome, const char* format,
                                                     ...) noexcept;

/// Opens the socket and starts the thread, which stay until the process ends. Once for each process.
Status start(const Actions& actions);

// Around fork: no socket is being made or closed meanwhile, and a child has neither sockets nor the thread.
void lock() noexcept;
void unlock() noexcept;
void forget() noexcept;

}  // namespace gpupool::internal::control
