// SPDX-License-Identifier: Apache-2.0
// What Session.java loads. ONNX Runtime has one environment in a process, for all languages, so a pool that
// is registered here serves Java's sessions. Link onnxruntime, by the name of the one that Java loads, and
// gpupool.
#include <onnxruntime_c_api.h>

#include <gpupool/onnxruntime.hpp>

// Session.install(device, isOnGpu), as Java's native interface names it. It needs nothing of that.
extern "C" bool Java_Session_install(void*, void*, int device, bool is_on_gpu) try {
  const OrtApi& api = *OrtGetApiBase()->GetApi(ORT_API_VERSION);
  OrtEnv* env = nullptr;
  if (api.CreateEnv(ORT_LOGGING_LEVEL_ERROR, "gpupool", &env) != nullptr) return false;
  gpupool_t* pool = gpupool::plug::default_pool(device);
  static gpupool::OnnxRuntimeAllocator memory(api, pool, is_on_gpu ? "Cuda" : "Cpu", device);
  memory.put_into(env);
  return true;
} catch (const std::runtime_error&) {
  return false;
}

// Session.held(device).
extern "C" long long Java_Session_held(void*, void*, int device) {
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  (void)gpupool_stats(gpupool::plug::default_pool(device), &stats);
  return static_cast<long long>(stats.all.allocated_bytes.current);
}
