// SPDX-License-Identifier: Apache-2.0
// A program of Kokkos that knows nothing of gpupool.
#include <Kokkos_Core.hpp>

int main(int argc, char** argv) {
  Kokkos::initialize(argc, argv);
  {
    const Kokkos::View<double*> kept("kept", 1 << 17);
    for (int step = 0; step < 10; ++step) {
      Kokkos::Profiling::pushRegion("step");
      const Kokkos::View<float*> scratch("scratch", 1 << 20);
      Kokkos::parallel_for(
          scratch.extent(0), KOKKOS_LAMBDA(const int i) { scratch(i) = static_cast<float>(i); });
      Kokkos::Profiling::popRegion();
    }
  }
  // Leaked, so that a recording has something to tell.
  new Kokkos::View<char*>("forgotten", 3 << 20);
  Kokkos::finalize();
}
