// SPDX-License-Identifier: Apache-2.0
// Threads that start together and are timed each on its own, and how often to do what is timed.
#pragma once

#include <cstdint>
#include <functional>

namespace gpupool::cli {

/// One thread's part of a measurement, called with the thread's number.
using Work = std::function<void(int thread)>;

/// Runs `prepare` and then `work` on `threads` new threads; all begin `work` at the same time. Returns the
/// mean over the threads of the nanoseconds that `work` took. Rethrows what one of them threw.
///
/// Even one thread is a new one: a process that never had a second thread gets cheaper locks and malloc
/// from the C library, and programs that use a GPU are not like that.
double time_threads(int threads, const Work& prepare, const Work& work);

/// How often something can be done in `seconds`, at least once. `run` does it `count` times and returns the
/// nanoseconds for one; afterwards it is warm. Takes the least of three runs: one in which a thread got no
/// core would make the work look slow, and a measurement with the result too short.
uint64_t calibrate(const std::function<double(uint64_t count)>& run, double seconds);

}  // namespace gpupool::cli
