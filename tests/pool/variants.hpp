// SPDX-License-Identifier: Apache-2.0
// What the contract is held against: every backend, mode and kind.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "fake_cuda/fake_cuda.hpp"
#include "pool/pool_under_test.hpp"

namespace pool_test {

enum class Machine { sim, cuda, stand_in, host };

/// Where the upstream's callbacks get their memory.
enum class Source { none, host, pool };

struct Variant {
  const char* name;
  Machine machine;
  gpupool_mode_t mode;
  gpupool_kind_t kind = GPUPOOL_KIND_DEVICE;
  Source source = Source::none;

  bool is_vmm() const { return mode == GPUPOOL_MODE_VMM; }
  int32_t backend() const {
    if (machine == Machine::host) return GPUPOOL_BACKEND_HOST;
    return machine == Machine::sim ? GPUPOOL_BACKEND_SIM : GPUPOOL_BACKEND_CUDA;
  }
  bool has_mappings() const { return machine != Machine::host; }
  /// Tests can make streams busy, and the device small.
  bool is_controlled() const { return machine == Machine::sim || machine == Machine::stand_in; }
  /// Reserved memory is memory of the device, as far as its own figures show.
  bool is_on_device() const { return kind == GPUPOOL_KIND_DEVICE && source != Source::host; }
  /// Work on streams may touch the blocks.
  bool takes_work() const { return machine != Machine::sim || source != Source::host; }
};

inline std::ostream& operator<<(std::ostream& out, const Variant& variant) {
  return out << variant.name;
}

inline bool has_cuda_driver() {
  static const bool found = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr;
  return found;
}

/// The real driver comes before the stand-in: a process can only have one of them, and a program that runs
/// all tests in one process on a machine with a GPU is there to see the GPU. Where there is no driver, the
/// real one is not listed.
inline std::vector<Variant> all_variants() {
  using enum Machine;
  constexpr auto kVmm = GPUPOOL_MODE_VMM;
  constexpr auto kDriver = GPUPOOL_MODE_DRIVER;
  constexpr auto kUpstream = GPUPOOL_MODE_UPSTREAM;
  constexpr auto kDevice = GPUPOOL_KIND_DEVICE;
  std::vector<Variant> all = {
      {"sim_vmm", sim, kVmm},
      {"sim_driver", sim, kDriver},
      {"sim_pinned", sim, kDriver, GPUPOOL_KIND_PINNED},
      {"sim_managed", sim, kDriver, GPUPOOL_KIND_MANAGED},
      {"sim_upstream_host", sim, kUpstream, kDevice, Source::host},
      {"sim_upstream_pool", sim, kUpstream, kDevice, Source::pool},
      {"host_driver", host, kDriver},
      {"host_pinned", host, kDriver, GPUPOOL_KIND_PINNED},
      {"host_upstream_pool", host, kUpstream, kDevice, Source::pool},
      {"cuda_vmm", cuda, kVmm},
      {"cuda_driver", cuda, kDriver},
      {"cuda_pinned", cuda, kDriver, GPUPOOL_KIND_PINNED},
      {"cuda_managed", cuda, kDriver, GPUPOOL_KIND_MANAGED},
      {"cuda_upstream_pool", cuda, kUpstream, kDevice, Source::pool},
      {"stand_in_vmm", stand_in, kVmm},
      {"stand_in_driver", stand_in, kDriver},
      {"stand_in_pinned", stand_in, kDriver, GPUPOOL_KIND_PINNED},
      {"stand_in_managed", stand_in, kDriver, GPUPOOL_KIND_MANAGED},
      {"stand_in_upstream_host", stand_in, kUpstream, kDevice, Source::host},
  };
  if (!has_cuda_driver()) {
    std::erase_if(all, [](const Variant& variant) { return variant.machine == Machine::cuda; });
  }
  return all;
}

template <typename Predicate>
std::vector<Variant> variants_where(Predicate predicate) {
  std::vector<Variant> chosen;
  for (const Variant& variant : all_variants()) {
    if (predicate(variant)) chosen.push_back(variant);
  }
  return chosen;
}

/// Those whose streams can be kept busy, and the time that passes is the test's.
inline std::vector<Variant> controlled_variants() {
  return variants_where([](const Variant& variant) { return variant.is_controlled(); });
}

inline std::string name_of(const testing::TestParamInfo<Variant>& info) {
  return info.param.name;
}

/// Why this process cannot test on a machine; empty if it can. The library loads a CUDA driver once: the
/// one that GPUPOOL_LIBCUDA names if it is set, else the real one or the stand-in, whichever a test of this
/// process asks for first.
inline std::string why_not(Machine machine) {
  static const bool is_named = std::getenv("GPUPOOL_LIBCUDA") != nullptr;
  static Machine loaded = Machine::sim;  // none yet
  if (machine == Machine::sim || machine == Machine::host || machine == loaded) return {};
  if (loaded != Machine::sim) return "this process has the other CUDA driver";
  if (machine == Machine::cuda) {
    if (is_named) return "GPUPOOL_LIBCUDA is set";
    if ((gpupool_features() & GPUPOOL_FEATURE_CUDA) == 0) return "no usable GPU";
  } else if (!is_named) {
    setenv("GPUPOOL_LIBCUDA", FAKE_CUDA_LIBRARY, 1);
  }
  loaded = machine;
  return {};
}

}  // namespace pool_test
