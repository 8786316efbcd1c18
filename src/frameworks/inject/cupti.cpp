// SPDX-License-Identifier: Apache-2.0
#include "frameworks/inject/cupti.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "frameworks/inject/find_function.hpp"

namespace gpupool::inject {
namespace {

using namespace cupti;  // the names are CUPTI's own

constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"};
constexpr const char* kVariable = "GPUPOOL_LIBCUPTI";

struct Functions {
// A declaration has no brackets to spare: NOLINTNEXTLINE(bugprone-macro-parentheses)
#define GPUPOOL_MEMBER(name, arguments) CUptiResult(*name) arguments = nullptr;
  GPUPOOL_CUPTI_FUNCTIONS(GPUPOOL_MEMBER)
#undef GPUPOOL_MEMBER
};

bool find_functions(void* library, Functions& functions) {
  bool is_whole = true;
#define GPUPOOL_FIND(name, arguments) is_whole = find_function(library, #name, functions.name) && is_whole;
  GPUPOOL_CUPTI_FUNCTIONS(GPUPOOL_FIND)
#undef GPUPOOL_FIND
  return is_whole;
}

/// The folders of the CUDA runtime that the program has loaded.
int add_folder(dl_phdr_info* info, size_t, void* to) {
  const std::string_view path = info->dlpi_name;
  const size_t slash = path.rfind('/');
  if (slash != std::string_view::npos && path.substr(slash + 1).starts_with("libcudart.so"))
    static_cast<std::vector<std::string>*>(to)->emplace_back(path.substr(0, slash));
  return 0;
}

/// Where CUPTI may lie, beside what the loader finds by name: near the program's CUDA runtime, as NVIDIA's
/// packages for Python and its toolkit have it, and in the toolkit's usual place.
std::vector<std::string> folders() {
  std::vector<std::string> runtimes;
  (void)dl_iterate_phdr(add_folder, &runtimes);
  std::vector<std::string> all;
  for (const std::string& runtime : runtimes)
    for (const char* const way : {"/", "/../../cuda_cupti/lib/", "/../extras/CUPTI/lib64/"})
      all.push_back(runtime + way);
  all.emplace_back("/usr/local/cuda/extras/CUPTI/lib64/");
  return all;
}

/// What may be CUPTI, the best first. Each is loaded when it is asked for.
class Candidates {
 public:
  Candidates() {
    const char* const named = secure_getenv(kVariable);
    if (named != nullptr && *named != '\0') {
      paths_.push_back({named, 0});
      return;
    }
    for (const char* const name : kNames) paths_.push_back({name, RTLD_NOLOAD});
    for (const char* const name : kNames) paths_.push_back({name, 0});
    for (const std::string& folder : folders())
      for (const char* const name : kNames) paths_.push_back({folder + name, 0});
  }

  /// Null: there is no more.
  void* next() {
    while (at_ < paths_.size()) {
      const auto& [path, flag] = paths_[at_++];
      if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | flag)) return library;
    }
    return nullptr;
  }

 private:
  struct Path {
    std::string name;
    int flag;
  };
  std::vector<Path> paths_;
  size_t at_ = 0;
};

/// A function that this version lacks does not matter, as long as there are those that have always been.
bool enable(const Functions& functions, CUpti_SubscriberHandle subscriber) {
  const auto enable_one = [&](CUpti_CallbackDomain domain, CUpti_CallbackId id) {
    return functions.cuptiEnableCallback(1, subscriber, domain, id) == CUPTI_SUCCESS;
  };
#define GPUPOOL_ENABLE(name, number, arguments) (void)enable_one(CUPTI_CB_DOMAIN_DRIVER_API, number);
  GPUPOOL_WATCHED_FUNCTIONS(GPUPOOL_ENABLE)
#undef GPUPOOL_ENABLE
  (void)enable_one(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
  return enable_one(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2);
}

}  // namespace

std::string subscribe(CUpti_CallbackFunc callback, void* user) {
  std::string why;
  Candidates candidates;
  while (void* const library = candidates.next()) {
    Functions functions;
    if (!find_functions(library, functions)) continue;
    CUpti_SubscriberHandle subscriber = nullptr;
    const CUptiResult result = functions.cuptiSubscribe(&subscriber, callback, user);
    if (result == CUPTI_SUCCESS && enable(functions, subscriber)) return "";
    if (result == CUPTI_SUCCESS) (void)functions.cuptiUnsubscribe(subscriber);
    const char* words = nullptr;
    (void)functions.cuptiGetResultString(result, &words);
    why = words != nullptr ? words : std::to_string(result);
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) return "another tool uses CUPTI here";
  }
  if (!why.empty()) return "CUPTI refuses: " + why;
  return std::string("CUPTI (libcupti.so) is not found; ") + kVariable + " may name it";
}

}  // namespace gpupool::inject
