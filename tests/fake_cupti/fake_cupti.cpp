// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcupti.so: callbacks of the stand-in driver that GPUPOOL_LIBCUDA names, to one subscriber.
// FAKE_CUPTI_FAIL in the environment is the result of cuptiSubscribe.
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "fake_cuda/fake_cuda.hpp"
#include "frameworks/inject/cupti_types.hpp"

using namespace gpupool::inject::cupti;

namespace {

struct Subscription {
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
  std::set<std::pair<unsigned, CUpti_CallbackId>> enabled;
};

Subscription& subscription() {
  static auto* const only = new Subscription;
  return *only;
}

constexpr CUptiResult kInvalidParameter = 1;

void tell(uint32_t number, int is_end, const void* arguments, uint32_t* result, void* context) {
  const Subscription& told = subscription();
  const bool is_call = number != 0;
  const unsigned domain = is_call ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RESOURCE;
  const CUpti_CallbackId id = is_call ? number : CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING;
  if (told.callback == nullptr || !told.enabled.contains({domain, id})) return;
  uint64_t correlation = 0;
  const CUpti_CallbackData call{is_end != 0 ? CUPTI_API_EXIT : CUPTI_API_ENTER,
                                "",
                                arguments,
                                result,
                                nullptr,
                                static_cast<CUcontext>(context),
                                1,
                                &correlation,
                                1};
  const CUpti_ResourceData resource{static_cast<CUcontext>(context), nullptr, nullptr};
  told.callback(told.user, domain, id, is_call ? static_cast<const void*>(&call) : &resource);
}

}  // namespace

extern "C" {

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user) {
  const char* const failure = std::getenv("FAKE_CUPTI_FAIL");
  if (failure != nullptr) return std::atoi(failure);
  Subscription& made = subscription();
  if (made.callback != nullptr) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  made.callback = callback;
  made.user = user;
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&made);
  fake_cuda().show_calls(tell);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  if (reinterpret_cast<Subscription*>(subscriber) != &subscription()) return kInvalidParameter;
  fake_cuda().show_calls(nullptr);
  subscription() = {};
  return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  if (reinterpret_cast<Subscription*>(subscriber) != &subscription()) return kInvalidParameter;
  if (enable != 0) {
    subscription().enabled.insert({domain, id});
  } else {
    subscription().enabled.erase({domain, id});
  }
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_OF_THE_STAND_IN";
  return CUPTI_SUCCESS;
}

}  // extern "C"
