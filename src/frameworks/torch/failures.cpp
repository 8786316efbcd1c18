// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/failures.hpp"

namespace gpupool::torch {

const std::runtime_error no_host_memory("gpupool: the host has no memory for the pools' records");

}  // namespace gpupool::torch
