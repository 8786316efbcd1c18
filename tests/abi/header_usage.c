/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled as every version of C and C++ that the header promises to work with. Included twice on purpose. */
#include <gpupool/gpupool.h>
#include <gpupool/torch.h>

gpupool_status_t use_the_header(gpupool_t* pool);

gpupool_status_t use_the_header(gpupool_t* pool) {
  gpupool_ptr_t block = 0;
  gpupool_status_t status = gpupool_malloc(pool, 512, 0, &block);
  if (status != GPUPOOL_SUCCESS) return status;
  return gpupool_free(pool, block, (gpupool_stream_t)GPUPOOL_STREAM_UNKNOWN);
}
