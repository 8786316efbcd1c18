// SPDX-License-Identifier: Apache-2.0
// A typical first program.
#include <gpupool/gpupool.h>
#include <stdio.h>

int main(void) {
  gpupool_config_t config;
  gpupool_t* pool = NULL;
  gpupool_ptr_t block = 0;
  if (gpupool_version() != GPUPOOL_VERSION) return 1;
  if (gpupool_config_init(&config, sizeof config) != GPUPOOL_SUCCESS) return 1;
  config.backend = GPUPOOL_BACKEND_SIM;
  if (gpupool_create(&config, &pool) != GPUPOOL_SUCCESS) return 1;
  if (gpupool_malloc(pool, 1 << 20, 0, &block) != GPUPOOL_SUCCESS || block == 0) return 1;
  if (gpupool_free(pool, block, 0) != GPUPOOL_SUCCESS) return 1;
  if (gpupool_destroy(pool) != GPUPOOL_SUCCESS) return 1;
  printf("gpupool %s works\n", gpupool_version_string());
  return 0;
}
