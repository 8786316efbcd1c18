// SPDX-License-Identifier: Apache-2.0
// A tensor of ggml in a pool. On a GPU, device is one of its CUDA backend. llama.cpp takes the same type for
// weights: llama_model_params::tensor_buft_overrides = {{".*", memory.type()}, {nullptr, nullptr}}. Link
// ggml, ggml-base, gpupool.
#include <ggml-alloc.h>
#include <ggml-backend.h>

#include <ggml-backend-impl.h>

#include <gpupool/ggml.hpp>

#include <cstdio>

int main() {
  ggml_backend_load_all();
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU);
  if (device == nullptr) device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  gpupool::GgmlBufferType memory(device, gpupool::plug::default_pool(0));

  ggml_context* context = ggml_init({1 << 20, nullptr, true});
  ggml_tensor* weights = ggml_new_tensor_2d(context, GGML_TYPE_F16, 4096, 4096);
  ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(context, memory.type());
  std::printf("%zu bytes at %p are the pool's\n", ggml_nbytes(weights), weights->data);
  ggml_backend_buffer_free(buffer);
  ggml_free(context);
}
