// SPDX-License-Identifier: Apache-2.0
// The driver's functions that give memory and take it back, as CUPTI tells of them: what each of them means
// for the ledger. Callbacks and not CUPTI's activity records: they come while the caller's stack is there, in
// the order of the calls, and before a process can be killed with them in a buffer.
#pragma once

#include <string>

#include "frameworks/inject/device_words.hpp"
#include "frameworks/inject/ledger.hpp"

namespace gpupool::inject {

/// Has every call of the driver told to the ledger, but those of gpupool's pools, which are recorded already.
/// Returns why that cannot be; "": it is.
std::string watch_calls(Ledger& ledger, const DeviceFunctions& driver);

}  // namespace gpupool::inject
