// SPDX-License-Identifier: Apache-2.0
// A sum over GPUs in memory of a pool that NCCL has registered, and that sleeps in between. One process here;
// with more, each does the same. Link nccl, gpupool.
#include <nccl.h>

#include <gpupool/nccl.hpp>

#include <cstdio>

int main() {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess) return 1;
  {
    gpupool_t* pool = gpupool::plug::default_pool(0);
    gpupool::NcclMemory memory(pool, comm);
    constexpr std::size_t kCount = 1 << 20;
    void* buffer = memory.allocate(kCount * sizeof(float));
    if (buffer == nullptr) return 1;
    for (int step = 0; step < 2; ++step) {
      if (ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, comm, nullptr) != ncclSuccess) return 1;
      if (gpupool_sleep(pool, nullptr, nullptr) != GPUPOOL_SUCCESS) return 1;  // NCCL's own memory sleeps too
      if (gpupool_wake(pool, nullptr, nullptr) != GPUPOOL_SUCCESS)
        return 1;  // and the buffer is registered again
    }
    std::printf("%p was registered three times\n", buffer);
  }
  return ncclCommDestroy(comm) == ncclSuccess ? 0 : 1;
}
