// SPDX-License-Identifier: Apache-2.0
// A model of ONNX Runtime whose weights and activations are in a pool: session MODEL [MEMORY]. MEMORY is
// "Cuda"; "Cpu" runs without a GPU, on the simulated device (GPUPOOL_BACKEND=sim).
#include <onnxruntime_c_api.h>

#include <gpupool/onnxruntime.hpp>

#include <cstdio>
#include <cstdlib>

const OrtApi& api = *OrtGetApiBase()->GetApi(ORT_API_VERSION);

void check(OrtStatus* status) {
  if (status == nullptr) return;
  std::fprintf(stderr, "%s\n", api.GetErrorMessage(status));
  std::exit(1);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  OrtEnv* env = nullptr;
  OrtSessionOptions* options = nullptr;
  OrtSession* session = nullptr;
  check(api.CreateEnv(ORT_LOGGING_LEVEL_ERROR, "example", &env));
  gpupool_t* pool = gpupool::plug::default_pool(0);
  gpupool::OnnxRuntimeAllocator memory(api, pool, argc > 2 ? argv[2] : "Cuda", 0);
  memory.put_into(env);
  check(api.CreateSessionOptions(&options));
  check(api.AddSessionConfigEntry(options, "session.use_env_allocators", "1"));
  check(api.CreateSession(env, argv[1], options, &session));

  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  (void)gpupool_stats(pool, &stats);
  std::printf("the weights take %llu bytes of the pool\n",
              static_cast<unsigned long long>(stats.all.allocated_bytes.current));
  api.ReleaseSession(session);
  api.ReleaseSessionOptions(options);
}
