// SPDX-License-Identifier: Apache-2.0
#include "gpupool.hpp"

int main(int argc, char** argv) {
  return gpupool_bench::bench_main<gpupool_bench::Gpupool>(argc, argv);
}
