// SPDX-License-Identifier: Apache-2.0
// The driver's functions that act on other processes, since CUDA 12.8 (driver 570), under its own names.
// tests/device/cuda_header_check.cpp compares every line with a real cuda.h.
#pragma once

#include <cstdint>

namespace gpupool::cli::driver {

enum CUprocessState : unsigned {
  CU_PROCESS_STATE_RUNNING = 0,
  CU_PROCESS_STATE_LOCKED = 1,
  CU_PROCESS_STATE_CHECKPOINTED = 2,
  CU_PROCESS_STATE_FAILED = 3,
};

struct CUcheckpointLockArgs {
  unsigned timeoutMs;  // 0: none
  unsigned reserved0;
  uint64_t reserved1[7];
};

// Of these only the null pointer is used.
struct CUcheckpointCheckpointArgs_st;
struct CUcheckpointRestoreArgs_st;
struct CUcheckpointUnlockArgs_st;

}  // namespace gpupool::cli::driver

/// Every function in use, by its exported name, with its arguments.
#define GPUPOOL_CHECKPOINT_FUNCTIONS(X)                                   \
  X(cuCheckpointProcessGetState, (int, CUprocessState*))                  \
  X(cuCheckpointProcessLock, (int, CUcheckpointLockArgs*))                \
  X(cuCheckpointProcessCheckpoint, (int, CUcheckpointCheckpointArgs_st*)) \
  X(cuCheckpointProcessRestore, (int, CUcheckpointRestoreArgs_st*))       \
  X(cuCheckpointProcessUnlock, (int, CUcheckpointUnlockArgs_st*))
