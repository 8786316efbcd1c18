// SPDX-License-Identifier: Apache-2.0
// A custom kernel on a pool's memory: PTX, which the driver compiles for the actual GPU. The simulated device
// has no kernels, so there the host does the same work.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <gpupool/gpupool.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr char kScale[] = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .entry scale(.param .u64 numbers, .param .f32 factor, .param .u32 count) {
  .reg .pred %outside;
  .reg .f32 %f<3>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [numbers];
  ld.param.f32 %f1, [factor];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4;
  setp.ge.u32 %outside, %r2, %r1;
  @%outside bra done;
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd1, %rd1, %rd2;
  ld.global.f32 %f2, [%rd1];
  mul.f32 %f2, %f2, %f1;
  st.global.f32 [%rd1], %f2;
done:
  ret;
}
)";

/// A driver function, with the type of the call. The pool has already loaded the driver.
template <class Function>
Function* driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
  return reinterpret_cast<Function*>(found);
}

void check(int result, const char* what) {
  if (result != 0) throw std::runtime_error(std::string(what) + " gives " + std::to_string(result));
}

/// The kernel, loaded into the context that the pool uses: the device's primary one.
void* load_scale(int device) {
  void* context = nullptr;
  void* module = nullptr;
  void* function = nullptr;
  check(driver<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device), "cuDevicePrimaryCtxRetain");
  check(driver<int(void*)>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  check(driver<int(void**, const void*)>("cuModuleLoadData")(&module, kScale), "cuModuleLoadData");
  check(driver<int(void**, void*, const char*)>("cuModuleGetFunction")(&function, module, "scale"),
        "cuModuleGetFunction");
  return function;
}

void scale_on_gpu(void* function, const gpupool::Block& numbers, float factor, gpupool_stream_t stream) {
  gpupool_ptr_t address = numbers.ptr();
  unsigned count = static_cast<unsigned>(numbers.size() / sizeof(float));
  void* arguments[] = {&address, &factor, &count};
  using Launch =
      int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  check(driver<Launch>("cuLaunchKernel")(function, (count + 255) / 256, 1, 1, 256, 1, 1, 0,
                                         reinterpret_cast<void*>(stream), arguments, nullptr),
        "cuLaunchKernel");
}

void scale_on_host(gpupool::Block& numbers, float factor) {
  std::vector<float> copy(numbers.size() / sizeof(float));
  gpupool::copy_to_host(copy, numbers);
  for (float& each : copy) each *= factor;
  gpupool::copy_to_device(numbers, copy);
}

int run() {
  gpupool::Pool pool;
  const gpupool::Stream stream(pool);
  std::vector<float> numbers(1000);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  gpupool::Block block(pool, numbers.size() * sizeof(float), stream);
  gpupool::copy_to_device(block, numbers);

  const gpupool_device_info_t info = gpupool::device_info(0);
  if (info.backend == GPUPOOL_BACKEND_CUDA) {
    scale_on_gpu(load_scale(info.device), block, 1.5F,
                 stream);  // the copy back waits for it, on the same stream
  } else {
    std::printf("the simulated device has no kernels: the host scales\n");
    scale_on_host(block, 1.5F);
  }
  std::vector<float> scaled(numbers.size());
  gpupool::copy_to_host(scaled, block);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (scaled[i] != 1.5F * numbers[i]) throw std::runtime_error("number " + std::to_string(i) + " is wrong");
  }
  std::printf("%zu numbers scaled on %s\n", scaled.size(), info.name);
  return EXIT_SUCCESS;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
