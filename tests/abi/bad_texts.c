// SPDX-License-Identifier: Apache-2.0
// Sizes and devices as strings: what is accepted, and what is refused and changes nothing.
#include <stddef.h>

#include "support/check.h"

#define INVALID GPUPOOL_ERROR_INVALID_ARGUMENT

static void test_sizes(void) {
  const struct {
    const char* text;
    uint64_t bytes;
    double share;
  } good[] = {
      {"1", 1, 0},
      {" 4096 ", 4096, 0},
      {"512KiB", 512 << 10, 0},
      {"1.5 GiB", (uint64_t)3 << 29, 0},
      {"2g", (uint64_t)2 << 30, 0},
      {"2M", 2 << 20, 0},
      {"8GB", (uint64_t)8 * 1000 * 1000 * 1000, 0},
      {"7b", 7, 0},
      {"1TiB", (uint64_t)1 << 40, 0},
      {"18446744073709551615", UINT64_MAX, 0},
      {"9007199254740993", 9007199254740993, 0},
      {"40%", 0, 0.4},
      {"100 %", 0, 1.0},
      {"0.5%", 0, 0.005},
  };
  for (size_t i = 0; i < sizeof good / sizeof good[0]; ++i) {
    uint64_t bytes = 1;
    double share = 1;
    OK(gpupool_parse_size(good[i].text, &bytes, &share));
    CHECK(bytes == good[i].bytes);
    CHECK(share == good[i].share);
  }
  const char* bad[] = {
      "",      " ",        "x",     "-5",    " -5",    "+5",     "1e400", "99999999999999999999999",
      "0",     "0GiB",     "8GiBs", "8 G B", "1.5",    "0.1KiB", "%",     "0%",
      "101%",  "-1%",      "nan",   "inf",   "1,5GiB", "0x10",   "1.2.3", "20000000TiB",
      "1e3%x", "\xff\xfe", "8\nGiB"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    uint64_t bytes = 1;
    double share = 1;
    FAILS(INVALID, gpupool_parse_size(bad[i], &bytes, &share));
    CHECK(bytes == 0);
    CHECK(share == 0);
  }
  uint64_t bytes = 1;
  FAILS(INVALID, gpupool_parse_size("40%", &bytes, NULL));
  CHECK(bytes == 0);
  FAILS(INVALID, gpupool_parse_size(NULL, &bytes, NULL));
  FAILS(INVALID, gpupool_parse_size("1", NULL, NULL));
  OK(gpupool_parse_size("1k", &bytes, NULL));
  CHECK(bytes == 1024);
}

static void test_devices(void) {
  const struct {
    const char* text;
    gpupool_backend_t backend;
    int32_t device;
  } good[] = {
      {"cuda", GPUPOOL_BACKEND_CUDA, 0}, {"cuda:1", GPUPOOL_BACKEND_CUDA, 1}, {"sim", GPUPOOL_BACKEND_SIM, 0},
      {"SIM:7", GPUPOOL_BACKEND_SIM, 7}, {"auto", GPUPOOL_BACKEND_AUTO, 0},   {"3", GPUPOOL_BACKEND_AUTO, 3},
  };
  gpupool_backend_t backend = GPUPOOL_BACKEND_AUTO;
  int32_t device = 0;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; ++i) {
    OK(gpupool_parse_device(good[i].text, &backend, &device));
    CHECK(backend == good[i].backend);
    CHECK(device == good[i].device);
  }
  const char* bad[] = {"",   "gpu", "cuda:", "cuda:-1",     "cuda:x", "cuda:1:2",
                       ":1", "-1",  "simm",  "99999999999", "sim 1"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    FAILS(INVALID, gpupool_parse_device(bad[i], &backend, &device));
    CHECK(backend == GPUPOOL_BACKEND_AUTO);
    CHECK(device == 0);
  }
  FAILS(INVALID, gpupool_parse_device(NULL, &backend, &device));
  FAILS(INVALID, gpupool_parse_device("sim", NULL, &device));
  FAILS(INVALID, gpupool_parse_device("sim", &backend, NULL));
}

int main(void) {
  test_sizes();
  test_devices();
  return finish();
}
