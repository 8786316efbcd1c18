// SPDX-License-Identifier: Apache-2.0
// How a C++ function without captures becomes one of JavaScript.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>

#include "callbacks.hpp"
#include "records.hpp"

namespace node {

/// Turns what was thrown into an exception of JavaScript. Inside a catch (...).
inline napi_value throw_caught(Environment& at) noexcept {
  try {
    try {
      throw;
    } catch (const Pending&) {
      bool is_pending = false;
      (void)napi_is_exception_pending(at.env, &is_pending);
      if (!is_pending) (void)napi_throw_error(at.env, nullptr, "gpupool: Node refuses, without saying why");
    } catch (const Misuse& misuse) {
      (void)napi_throw_type_error(at.env, nullptr, misuse.message.c_str());
    } catch (...) {
      gpupool_error_t error = binding::caught_error();
      if (std::exchange(at.refused_to_wait, false)) {
        error = binding::make_error(
            GPUPOOL_ERROR_ASLEEP,
            "the pool is asleep, and the main thread does not wait for its wake, which may have "
            "to come from there: allocate after the wake, or in a worker");
      }
      throw_failure(at, error);
    }
  } catch (const Pending&) {
    // The exception could not be made, and why not is pending.
  }
  return nullptr;
}

inline Environment& environment_of(napi_env env) noexcept {
  void* data = nullptr;
  (void)napi_get_instance_data(env, &data);
  return *static_cast<Environment*>(data);
}

/// What a call gets beside its arguments.
struct Caller {
  Environment& environment;
  /// The arguments as they came.
  const std::array<napi_value, 6>& values;
};

template <class T>
struct Convert {
  static T from(Environment& /*at*/, const Argument& argument) { return from_js<T>(argument); }
};
template <>
struct Convert<napi_value> {
  static napi_value from(Environment& /*at*/, const Argument& argument) { return argument.value; }
};
/// Native objects.
template <class T>
struct Convert<T&> {
  static T& from(Environment& /*at*/, const Argument& argument) {
    T* const object = argument.boxed<std::remove_const_t<T>>();
    if (object == nullptr) argument.refuse("an object of gpupool");
    return *object;
  }
};
/// Functions, or null.
template <class Native>
Native* function_from(Environment& at, const Argument& argument) {
  const napi_valuetype type = argument.type();
  if (type == napi_null || type == napi_undefined) return nullptr;
  if (type != napi_function) argument.refuse("a function or null");
  return new Native(at, argument.value);
}
template <>
struct Convert<binding::OomHandler*> {
  static binding::OomHandler* from(Environment& at, const Argument& argument) {
    return function_from<JsHandler>(at, argument);
  }
};
template <>
struct Convert<binding::SleepHook*> {
  static binding::SleepHook* from(Environment& at, const Argument& argument) {
    return function_from<JsHook>(at, argument);
  }
};
template <>
struct Convert<binding::LogReceiver*> {
  static binding::LogReceiver* from(Environment& at, const Argument& argument) {
    return function_from<JsReceiver>(at, argument);
  }
};

template <class Function, class Result, class... Arguments>
napi_value invoke(napi_env env, napi_callback_info info, Result (Function::*)(Caller, Arguments...) const) {
  Environment& at = environment_of(env);
  try {
    std::array<napi_value, 6> values{};
    size_t count = values.size();
    void* names = nullptr;
    check(napi_get_cb_info(env, info, &count, values.data(), nullptr, &names));
    std::string_view rest = static_cast<const char*>(names);
    std::array<Argument, sizeof...(Arguments)> arguments{};
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::string_view name = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(name.size() + 1, rest.size()));
      arguments[i] = {env, values[i], name};
    }
    const Caller caller{at, values};
    auto call = [&]<size_t... kAt>(std::index_sequence<kAt...>)->Result {
      return Function{}(caller, Convert<Arguments>::from(at, arguments[kAt])...);
    };
    if constexpr (std::is_void_v<Result>) {
      call(std::index_sequence_for<Arguments...>());
      return nullptr;
    } else if constexpr (std::is_same_v<Result, gpupool_sleep_result_t>) {
      const Blocking blocking(at);
      const Result result = call(std::index_sequence_for<Arguments...>());
      if (at.thrown == nullptr) return to_js(env, result);
      throw_failure(at, {});
      return nullptr;
    } else if constexpr (std::is_same_v<Result, napi_value>) {
      return call(std::index_sequence_for<Arguments...>());
    } else {
      return to_js(env, call(std::index_sequence_for<Arguments...>()));
    }
  } catch (...) {
    return throw_caught(at);
  }
}

/// Exports a function by its name; the names of its arguments, with spaces between, are for messages.
template <class Function>
void define(napi_env env, napi_value exports, const char* name, const char* arguments,
            Function /*function*/) {
  napi_value value = nullptr;
  const napi_callback call = [](napi_env at, napi_callback_info info) {
    return invoke<Function>(at, info, &Function::operator());
  };
  check(napi_create_function(env, name, NAPI_AUTO_LENGTH, call, const_cast<char*>(arguments), &value));
  check(napi_set_named_property(env, exports, name, value));
}

/// Work on a thread of Node's, and the promise of its result. What the work needs is kept meanwhile.
class Background {
 public:
  using Work = std::function<void()>;
  using Finish = std::function<napi_value(napi_env)>;

  static napi_value start(Environment& at, napi_value kept, Work work, Finish finish) {
    auto job = std::unique_ptr<Background>(new Background(at, std::move(work), std::move(finish)));
    napi_value name = nullptr;
    napi_value promise = nullptr;
    check(napi_create_string_utf8(at.env, "gpupool", NAPI_AUTO_LENGTH, &name));
    check(napi_create_promise(at.env, &job->promise_, &promise));
    check(napi_create_reference(at.env, kept, 1, &job->kept_));
    check(napi_create_async_work(at.env, nullptr, name, run, end, job.get(), &job->task_));
    check(napi_queue_async_work(at.env, job->task_));
    (void)job.release();
    return promise;
  }

 private:
  Background(Environment& at, Work work, Finish finish)
      : at_(at), work_(std::move(work)), finish_(std::move(finish)), job_{&at} {}

  static void run(napi_env /*env*/, void* data) {
    auto& job = *static_cast<Background*>(data);
    Job::current = &job.job_;
    try {
      job.work_();
    } catch (...) {
      job.error_ = binding::caught_error();
    }
    Job::current = nullptr;
  }
  static void end(napi_env env, napi_status status, void* data) {
    const std::unique_ptr<Background> job(static_cast<Background*>(data));
    try {
      if (status == napi_cancelled)
        throw binding::Failure{binding::make_error(GPUPOOL_ERROR_SHUTTING_DOWN, "the program ends")};
      if (job->error_.status != GPUPOOL_SUCCESS || job->job_.thrown != nullptr) {
        job->at_.thrown = job->job_.thrown;
        throw binding::Failure{job->error_};
      }
      (void)napi_resolve_deferred(env, job->promise_, job->finish_(env));
    } catch (...) {
      (void)throw_caught(job->at_);
      napi_value thrown = nullptr;
      (void)napi_get_and_clear_last_exception(env, &thrown);
      (void)napi_reject_deferred(env, job->promise_, thrown);
    }
    (void)napi_delete_reference(env, job->kept_);
    (void)napi_delete_async_work(env, job->task_);
  }

  Environment& at_;
  const Work work_;
  const Finish finish_;
  gpupool_error_t error_{};
  Job job_;
  napi_deferred promise_ = nullptr;
  napi_ref kept_ = nullptr;
  napi_async_work task_ = nullptr;
};

}  // namespace node
