// SPDX-License-Identifier: Apache-2.0
// Which work of a capture comes before a stream's next work. A block that other streams of the capture used
// may be used again once its own stream comes after them, which the graph's edges show: while capturing, no
// stream can be asked how far it is.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace gpupool_torch {

/// Where a stream is in a capture: the nodes that its next work comes after.
struct CapturePlace {
  unsigned long long capture = 0;  // 0: it does not capture, or what it comes after cannot be told
  std::vector<cudaGraphNode_t> nodes;

  static CapturePlace of(cudaStream_t stream) {
    CapturePlace place;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaGraphNode_t* nodes = nullptr;
    size_t count = 0;
#if CUDART_VERSION >= 13000
    const cudaError_t result =
        cudaStreamGetCaptureInfo(stream, &status, &place.capture, nullptr, &nodes, nullptr, &count);
#else
    const cudaError_t result =
        cudaStreamGetCaptureInfo_v2(stream, &status, &place.capture, nullptr, &nodes, &count);
#endif
    if (result != cudaSuccess) (void)cudaGetLastError();
    if (result != cudaSuccess || status != cudaStreamCaptureStatusActive) return {};
    place.nodes.assign(nodes, nodes + count);
    return place;
  }
};

/// One stream's view of the capture that it is in. All calls together look at each node of the graph once.
class CaptureOrder {
 public:
  /// Follows the stream to where it is now, and calls is_due(block) for each block whose nodes it has all
  /// come after.
  template <typename Function>
  void follow(const CapturePlace& now, const Function& is_due) {
    if (now.capture != place_.capture) *this = {};
    std::unordered_set<cudaGraphNode_t> left(place_.nodes.begin(), place_.nodes.end());
    place_ = now;
    std::vector<cudaGraphNode_t> ahead = now.nodes;
    while (!is_lost_ && !ahead.empty()) {
      const cudaGraphNode_t node = ahead.back();
      ahead.pop_back();
      left.erase(node);
      if (!passed_.insert(node).second) continue;
      is_lost_ = !add_dependencies(node, ahead);
      pass(node, is_due);
    }
    // Who replaces a stream's dependencies undoes an order that others may have been told of.
    is_lost_ = is_lost_ || !left.empty();
  }

  /// Whether the stream has yet to come after some of these nodes; then `follow` tells once it has.
  bool await(uintptr_t block, const std::vector<cudaGraphNode_t>& nodes) {
    size_t count = 0;
    for (const cudaGraphNode_t node : nodes) {
      if (passed_.contains(node)) continue;
      awaited_[node].push_back(block);
      ++count;
    }
    if (count != 0) missing_[block] = count;
    return count != 0 || is_lost_;
  }

 private:
  template <typename Function>
  void pass(cudaGraphNode_t node, const Function& is_due) {
    const auto found = awaited_.find(node);
    if (found == awaited_.end()) return;
    for (const uintptr_t block : found->second) {
      const auto missing = missing_.find(block);
      if (--missing->second != 0) continue;
      missing_.erase(missing);
      is_due(block);
    }
    awaited_.erase(found);
  }

  /// False where the graph has edges that are no full dependencies.
  static bool add_dependencies(cudaGraphNode_t node, std::vector<cudaGraphNode_t>& ahead) {
    size_t count = 0;
    if (get_dependencies(node, nullptr, count) != cudaSuccess) return false;
    const size_t before = ahead.size();
    ahead.resize(before + count);
    return count == 0 || get_dependencies(node, ahead.data() + before, count) == cudaSuccess;
  }

  static cudaError_t get_dependencies(cudaGraphNode_t node, cudaGraphNode_t* after, size_t& count) {
#if CUDART_VERSION >= 13000
    const cudaError_t result = cudaGraphNodeGetDependencies(node, after, nullptr, &count);
#else
    const cudaError_t result = cudaGraphNodeGetDependencies(node, after, &count);
#endif
    if (result != cudaSuccess) (void)cudaGetLastError();
    return result;
  }

  CapturePlace place_;
  bool is_lost_ = false;  // no block is due any more in this capture
  std::unordered_set<cudaGraphNode_t> passed_;
  std::unordered_map<cudaGraphNode_t, std::vector<uintptr_t>> awaited_;
  std::unordered_map<uintptr_t, size_t> missing_;  // by block: nodes that its stream has yet to pass
};

}  // namespace gpupool_torch
