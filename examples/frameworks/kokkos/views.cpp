// SPDX-License-Identifier: Apache-2.0
// A program of Kokkos. To record what it allocates, without building it anew:
//     KOKKOS_TOOLS_LIBS=libgpupool_kokkos.so gpupool record -o run.gpt -- ./views && gpupool report run.gpt
#include <Kokkos_Core.hpp>

#include <cstdio>

int main(int argc, char** argv) {
  Kokkos::initialize(argc, argv);
  {
    const Kokkos::View<double*> values("values", 1 << 20);
    Kokkos::parallel_for(
        values.extent(0), KOKKOS_LAMBDA(const int i) { values(i) = i; });
    double sum = 0;
    Kokkos::parallel_reduce(
        values.extent(0), KOKKOS_LAMBDA(const int i, double& part) { part += values(i); }, sum);
    std::printf("%.0f\n", sum);
  }
  Kokkos::finalize();
}
