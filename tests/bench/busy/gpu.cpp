// SPDX-License-Identifier: Apache-2.0
#include "gpu.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "touch_ptx.hpp"

namespace busy {
namespace {

void check(int error, const char* what) {
  if (error != 0) throw std::runtime_error(std::string(what) + " failed: " + std::to_string(error));
}

/// The few functions of the driver that this needs, as cuda.h declares them.
struct Driver {
  int (*init)(unsigned);
  int (*primary_retain)(void** context, int device);
  int (*set_current)(void* context);
  int (*synchronize)();
  int (*load)(void** module, const void* image);
  int (*get_function)(void** function, void* module, const char* name);
  int (*launch)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                void* stream, void** arguments, void** extra);
  int (*query)(void* stream);
  int (*alloc)(uint64_t* address, size_t bytes);
  int (*set)(uint64_t address, unsigned char value, size_t count);
  int (*copy_to_host)(void* host, uint64_t address, size_t bytes);

  Driver() {
    library_ = dlopen("libcuda.so.1", RTLD_NOW);
    if (library_ == nullptr) throw std::runtime_error("libcuda.so.1 cannot be loaded");
    bind(init, "cuInit");
    bind(primary_retain, "cuDevicePrimaryCtxRetain");
    bind(set_current, "cuCtxSetCurrent");
    bind(synchronize, "cuCtxSynchronize");
    bind(load, "cuModuleLoadData");
    bind(get_function, "cuModuleGetFunction");
    bind(launch, "cuLaunchKernel");
    bind(query, "cuStreamQuery");
    bind(alloc, "cuMemAlloc_v2");
    bind(set, "cuMemsetD8_v2");
    bind(copy_to_host, "cuMemcpyDtoH_v2");
  }

 private:
  template <class Function>
  void bind(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
  }
  void* library_;
};

class CudaGpu : public Gpu {
 public:
  CudaGpu() {
    check(driver_.init(0), "cuInit");
    void* context = nullptr;
    check(driver_.primary_retain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(driver_.set_current(context), "cuCtxSetCurrent");
    void* module = nullptr;
    check(driver_.load(&module, kTouchPtx), "cuModuleLoadData");
    check(driver_.get_function(&function_, module, "touch"), "cuModuleGetFunction");
    check(driver_.alloc(&counter_, sizeof(uint32_t)), "cuMemAlloc");
    check(driver_.set(counter_, 0, sizeof(uint32_t)), "cuMemsetD8");
  }

  void touch(gpupool_stream_t stream, gpupool_ptr_t block, uint64_t bytes, uint32_t pattern, bool is_check,
             uint64_t nanoseconds) override {
    constexpr unsigned kThreads = 256;
    constexpr uint64_t kMostBlocks = 264;  // two for each multiprocessor of an H200
    uint64_t words = bytes / sizeof(uint32_t);
    uint32_t flag = is_check ? 1 : 0;
    void* arguments[] = {&block, &words, &pattern, &flag, &counter_, &nanoseconds};
    const auto blocks = static_cast<unsigned>(std::clamp<uint64_t>(words / kThreads / 4, 1, kMostBlocks));
    check(driver_.launch(function_, blocks, 1, 1, kThreads, 1, 1, 0, reinterpret_cast<void*>(stream),
                         arguments, nullptr),
          "cuLaunchKernel");
  }

  bool is_busy(gpupool_stream_t stream) override {
    constexpr int kNotReady = 600;
    const int error = driver_.query(reinterpret_cast<void*>(stream));
    if (error != kNotReady) check(error, "cuStreamQuery");
    return error == kNotReady;
  }

  uint64_t mismatches() override {
    check(driver_.synchronize(), "cuCtxSynchronize");
    uint32_t count = 0;
    check(driver_.copy_to_host(&count, counter_, sizeof count), "cuMemcpyDtoH");
    return count;
  }

  gpupool_backend_t backend() const override { return GPUPOOL_BACKEND_CUDA; }

 private:
  Driver driver_;
  void* function_ = nullptr;
  uint64_t counter_ = 0;
};

/// Virtual time, and the simulated device's own eye on who touches what. Its GPU is as far behind as can be:
/// nothing passes before somebody waits.
class SimGpu : public Gpu {
 public:
  SimGpu() {
    gpupool_sim_config_t config{};
    config.struct_size = sizeof config;
    config.data = 2;
    check(gpupool_sim_configure(0, &config), "gpupool_sim_configure");
  }

  void touch(gpupool_stream_t stream, gpupool_ptr_t block, uint64_t bytes, uint32_t, bool,
             uint64_t nanoseconds) override {
    check(gpupool_sim_work(0, stream, block, bytes, nanoseconds), "gpupool_sim_work");
    queued_ += nanoseconds;
  }

  /// The simulated device does not tell.
  bool is_busy(gpupool_stream_t) override { return false; }

  uint64_t mismatches() override {
    check(gpupool_sim_advance(0, queued_), "gpupool_sim_advance");
    queued_ = 0;
    uint64_t faults = 0;
    check(gpupool_sim_faults(0, &faults, nullptr, 0), "gpupool_sim_faults");
    return faults;
  }

  gpupool_backend_t backend() const override { return GPUPOOL_BACKEND_SIM; }

 private:
  uint64_t queued_ = 0;  // nanoseconds, of all streams
};

}  // namespace

std::unique_ptr<Gpu> open_gpu() {
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  check(gpupool_device_info(GPUPOOL_BACKEND_AUTO, 0, &info), "gpupool_device_info");
  if (info.backend == GPUPOOL_BACKEND_CUDA) return std::make_unique<CudaGpu>();
  return std::make_unique<SimGpu>();
}

}  // namespace busy
