// SPDX-License-Identifier: Apache-2.0
// Runs an engine of TensorRT whose weights and scratch memory are in a pool: engine FILE. Link nvinfer,
// cudart, gpupool.
#include <NvInferRuntime.h>

#include <gpupool/tensorrt.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

class Log : public nvinfer1::ILogger {
  void log(Severity severity, const char* text) noexcept override {
    if (severity <= Severity::kWARNING) std::fprintf(stderr, "%s\n", text);
  }
};

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ifstream file(argv[1], std::ios::binary);
  const std::vector<char> plan{std::istreambuf_iterator<char>(file), {}};
  Log log;
  gpupool::TensorRtAllocator memory(0);
  std::unique_ptr<nvinfer1::IRuntime> runtime(nvinfer1::createInferRuntime(log));
  runtime->setGpuAllocator(&memory);
  std::unique_ptr<nvinfer1::ICudaEngine> engine(runtime->deserializeCudaEngine(plan.data(), plan.size()));
  if (engine == nullptr) return 1;
  std::unique_ptr<nvinfer1::IExecutionContext> context(engine->createExecutionContext());
  context->setTemporaryStorageAllocator(&memory);
  std::printf("%d tensors\n", engine->getNbIOTensors());
}
