// SPDX-License-Identifier: Apache-2.0
// Runs a model of ONNX Runtime without a pool and with one, and compares: onnxruntime MODEL RUNS. The pool's
// memory is the simulated device's, and takes the place of ONNX Runtime's CPU memory.
#include <onnxruntime_c_api.h>

#include <gpupool/onnxruntime.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t kLimit = 2 << 20;

const OrtApi& api = *OrtGetApiBase()->GetApi(ORT_API_VERSION);

void expect(bool is_right, const char* what) {
  if (is_right) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

void check(OrtStatus* status) {
  if (status == nullptr) return;
  std::fprintf(stderr, "%s\n", api.GetErrorMessage(status));
  std::exit(1);
}

/// What the model makes of 64 numbers.
std::vector<float> run(OrtSession* session, OrtMemoryInfo* host, int seed) {
  std::vector<float> numbers(64);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>((i * 7 + seed) % 13) - 6;
  const std::array<std::int64_t, 2> shape{1, 64};
  OrtValue* input = nullptr;
  OrtValue* output = nullptr;
  check(api.CreateTensorWithDataAsOrtValue(host, numbers.data(), numbers.size() * sizeof(float), shape.data(),
                                           2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &input));
  const char* in = "x";
  const char* out = "y";
  check(api.Run(session, nullptr, &in, &input, 1, &out, 1, &output));
  void* data = nullptr;
  check(api.GetTensorMutableData(output, &data));
  const std::vector<float> result(static_cast<float*>(data), static_cast<float*>(data) + 64);
  api.ReleaseValue(output);
  api.ReleaseValue(input);
  return result;
}

OrtSessionOptions* session_options(bool has_pool) {
  OrtSessionOptions* options = nullptr;
  check(api.CreateSessionOptions(&options));
  check(api.DisableMemPattern(options));
  if (has_pool) check(api.AddSessionConfigEntry(options, "session.use_env_allocators", "1"));
  return options;
}

OrtSession* open(OrtEnv* env, const char* model, bool has_pool) {
  OrtSession* session = nullptr;
  OrtSessionOptions* options = session_options(has_pool);
  check(api.CreateSession(env, model, options, &session));
  api.ReleaseSessionOptions(options);
  return session;
}

gpupool_stat_t blocks(gpupool_t* pool) {
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  (void)gpupool_stats(pool, &stats);
  return stats.all.allocated_blocks;
}

std::string statistic(const OrtAllocator* memory, const char* name) {
  OrtKeyValuePairs* pairs = nullptr;
  check(memory->GetStats(memory, &pairs));
  const char* value = api.GetKeyValue(pairs, name);
  const std::string text = value == nullptr ? "" : value;
  api.ReleaseKeyValuePairs(pairs);
  return text;
}

/// A session for which the pool has no room.
void refuses_in_words(OrtEnv* env, const char* model, gpupool_t* pool) {
  std::vector<gpupool_ptr_t> others;
  gpupool_ptr_t ptr = 0;
  while (gpupool_malloc(pool, 4096, 0, &ptr) == GPUPOOL_SUCCESS) others.push_back(ptr);
  OrtSession* session = nullptr;
  OrtSessionOptions* options = session_options(true);
  OrtStatus* status = api.CreateSession(env, model, options, &session);
  expect(status != nullptr, "a shortage is ONNX Runtime's error");
  api.ReleaseStatus(status);
  api.ReleaseSessionOptions(options);
  for (const gpupool_ptr_t other : others) (void)gpupool_free(pool, other, 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int runs = std::atoi(argv[2]);
  OrtEnv* env = nullptr;
  OrtMemoryInfo* host = nullptr;
  check(api.CreateEnv(ORT_LOGGING_LEVEL_ERROR, "gpupool", &env));
  check(api.CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &host));
  gpupool_t* pool = gpupool::plug::default_pool(0);
  {
    OrtSession* plain = open(env, argv[1], false);
    gpupool::OnnxRuntimeAllocator memory(api, pool, "Cpu", 0);
    memory.put_into(env);
    OrtSession* session = open(env, argv[1], true);
    for (int i = 0; i < runs; ++i) expect(run(session, host, i) == run(plain, host, i), "equal results");
    expect(blocks(pool).current > 0, "the weights are the pool's");

    (void)gpupool_set_limit(pool, kLimit);
    refuses_in_words(env, argv[1], pool);
    expect(statistic(&memory, "Limit") == std::to_string(kLimit), "ONNX Runtime asks for the limit");
    api.ReleaseSession(session);
    api.ReleaseSession(plain);
  }
  const gpupool_stat_t all = blocks(pool);
  std::printf("%d runs, %llu allocations, %llu frees\n", runs,
              static_cast<unsigned long long>(all.total_allocated),
              static_cast<unsigned long long>(all.total_freed));
  expect(all.total_allocated == all.total_freed, "all is freed");
  expect(all.total_allocated > static_cast<std::uint64_t>(runs), "the runs' memory is the pool's too");
  api.ReleaseMemoryInfo(host);
  api.ReleaseEnv(env);
}
