// SPDX-License-Identifier: Apache-2.0
// The real ggml, on its CPU, with the weights of a small network in a pool of the simulated device, and in
// its own memory: the results are the same.
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>

#include <ggml-backend-impl.h>

#include <gpupool/ggml.hpp>

#include <string>
#include <vector>

#include "expect.hpp"

namespace {

constexpr int kWidth = 256;
constexpr int kRuns = 50;

std::vector<float> values(int seed) {
  std::vector<float> all(kWidth * kWidth);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<float>((i * 31 + seed * 17) % 29) / 29 - 0.5F;
  return all;
}

/// y = relu(W x), with W quantized, as a model has it, in a buffer of this type.
class Network {
 public:
  Network(ggml_backend_t backend, ggml_backend_buffer_type_t type) : backend_(backend) {
    const ggml_init_params params{1 << 20, nullptr, true};
    context_ = ggml_init(params);
    weights_ = ggml_new_tensor_2d(context_, GGML_TYPE_Q8_0, kWidth, kWidth);
    input_ = ggml_new_tensor_1d(context_, GGML_TYPE_F32, kWidth);
    output_ = ggml_relu(context_, ggml_mul_mat(context_, weights_, input_));
    graph_ = ggml_new_graph(context_);
    ggml_build_forward_expand(graph_, output_);
    buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(context_, type);
    if (buffer_ == nullptr) return;
    std::vector<char> quantized(ggml_nbytes(weights_));
    ggml_quantize_chunk(GGML_TYPE_Q8_0, values(1).data(), quantized.data(), 0, kWidth, kWidth, nullptr);
    ggml_backend_tensor_set(weights_, quantized.data(), 0, quantized.size());
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network() {
    ggml_backend_buffer_free(buffer_);
    ggml_free(context_);
  }

  ggml_backend_buffer_t buffer() const { return buffer_; }
  const ggml_tensor* weights() const { return weights_; }

  std::vector<float> run(int seed) {
    const std::vector<float> given = values(seed);
    std::vector<float> result(kWidth);
    ggml_backend_tensor_set(input_, given.data(), 0, kWidth * sizeof(float));
    expect(ggml_backend_graph_compute(backend_, graph_) == GGML_STATUS_SUCCESS, "ggml computes");
    ggml_backend_tensor_get(output_, result.data(), 0, kWidth * sizeof(float));
    return result;
  }

 private:
  ggml_backend_t backend_;
  ggml_context* context_ = nullptr;
  ggml_tensor* weights_ = nullptr;
  ggml_tensor* input_ = nullptr;
  ggml_tensor* output_ = nullptr;
  ggml_cgraph* graph_ = nullptr;
  ggml_backend_buffer_t buffer_ = nullptr;
};

}  // namespace

int main() {
  ggml_backend_t backend = ggml_backend_cpu_init();
  ggml_backend_dev_t device = ggml_backend_get_device(backend);
  gpupool_t* pool = gpupool::plug::default_pool(0);
  gpupool::GgmlBufferType memory(device, pool);
  expect(ggml_backend_supports_buft(backend, memory.type()), "the backend takes it for its own");
  {
    Network own(backend, ggml_backend_get_default_buffer_type(backend));
    Network pooled(backend, memory.type());
    expect(block_at(pool, pooled.weights()->data).requested_bytes >= kWidth * kWidth,
           "weights are the pool's");
    for (int i = 0; i < kRuns; ++i) expect(pooled.run(i) == own.run(i), "equal results");
    ggml_backend_buffer_clear(pooled.buffer(), 0);
    for (const float value : pooled.run(1)) expect(value == 0, "a cleared buffer is zero");
  }
  (void)gpupool_set_limit(pool, 4 << 20);
  expect(ggml_backend_buft_alloc_buffer(memory.type(), 64 << 20) == nullptr, "a shortage is a null buffer");
  ggml_backend_free(backend);
  expect_all_freed(pool);
}
