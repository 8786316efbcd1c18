// SPDX-License-Identifier: Apache-2.0
// Functions of JavaScript that the library calls: out-of-memory handlers, and receivers of the log.
#pragma once

#include <new>
#include <utility>

#include "log.hpp"
#include "values.hpp"

namespace node {

/// What belongs to one JavaScript thread: the main one, or a worker.
struct Environment {
  napi_env env = nullptr;
  /// Makes an error of the library: (status, driverCode, message).
  napi_ref make_error = nullptr;
  /// What an out-of-memory handler has thrown, until its malloc ends.
  napi_ref thrown = nullptr;

  /// Of this thread; null where there is no JavaScript.
  static inline thread_local Environment* here = nullptr;
};

inline void throw_failure(Environment& at, const gpupool_error_t& error) {
  napi_value value = nullptr;
  if (at.thrown != nullptr) {
    const napi_ref thrown = std::exchange(at.thrown, nullptr);
    (void)napi_get_reference_value(at.env, thrown, &value);
    (void)napi_get_named_property(at.env, value, "thrown", &value);
    (void)napi_delete_reference(at.env, thrown);
  } else {
    napi_value make = nullptr;
    napi_value undefined = nullptr;
    napi_value arguments[3]{};
    check(napi_get_reference_value(at.env, at.make_error, &make));
    check(napi_get_undefined(at.env, &undefined));
    check(napi_create_int32(at.env, error.status, &arguments[0]));
    check(napi_create_int32(at.env, error.driver_code, &arguments[1]));
    check(napi_create_string_utf8(at.env, error.message, NAPI_AUTO_LENGTH, &arguments[2]));
    check(napi_call_function(at.env, undefined, make, 3, arguments, &value));
  }
  check(napi_throw(at.env, value));
}

/// A function of size and attempt. It is asked on its own thread only.
class JsHandler : public binding::OomHandler {
 public:
  JsHandler(Environment& at, napi_value function) : at_(&at) {
    check(napi_create_reference(at.env, function, 1, &function_));
  }
  ~JsHandler() override {
    if (Environment::here == at_) (void)napi_delete_reference(at_->env, function_);
  }

  bool ask(uint64_t size, uint32_t attempt) noexcept override {
    if (Environment::here != at_ || at_->thrown != nullptr) return false;
    napi_handle_scope scope = nullptr;
    if (napi_open_handle_scope(at_->env, &scope) != napi_ok) return false;
    const bool answer = call(size, attempt);
    (void)napi_close_handle_scope(at_->env, scope);
    return answer;
  }

 private:
  bool call(uint64_t size, uint32_t attempt) const noexcept {
    const napi_env env = at_->env;
    napi_value function = nullptr;
    napi_value undefined = nullptr;
    napi_value arguments[2]{};
    napi_value answer = nullptr;
    bool yes = false;
    (void)napi_get_reference_value(env, function_, &function);
    (void)napi_get_undefined(env, &undefined);
    (void)napi_create_double(env, static_cast<double>(size), &arguments[0]);
    (void)napi_create_uint32(env, attempt, &arguments[1]);
    if (napi_call_function(env, undefined, function, 2, arguments, &answer) != napi_ok) {
      napi_value thrown = nullptr;
      if (napi_get_and_clear_last_exception(env, &thrown) == napi_ok) keep(thrown);
      return false;
    }
    return napi_coerce_to_bool(env, answer, &answer) == napi_ok &&
           napi_get_value_bool(env, answer, &yes) == napi_ok && yes;
  }
  /// References are to objects, so that what is thrown goes in one.
  void keep(napi_value thrown) const noexcept {
    napi_value holder = nullptr;
    (void)napi_create_object(at_->env, &holder);
    (void)napi_set_named_property(at_->env, holder, "thrown", thrown);
    (void)napi_create_reference(at_->env, holder, 1, &at_->thrown);
  }

  Environment* const at_;
  napi_ref function_ = nullptr;
};

/// A function of level and message. Lines come from any thread, and are given to it when its thread comes to
/// it.
class JsReceiver : public binding::LogReceiver {
 public:
  JsReceiver(Environment& at, napi_value function) {
    napi_value name = nullptr;
    check(napi_create_string_utf8(at.env, "gpupool.setLog", NAPI_AUTO_LENGTH, &name));
    check(napi_create_threadsafe_function(at.env, function, nullptr, name, 0, 1, nullptr, nullptr, nullptr,
                                          deliver, &queue_));
    // The log alone keeps no program running.
    check(napi_unref_threadsafe_function(at.env, queue_));
  }
  ~JsReceiver() override { (void)napi_release_threadsafe_function(queue_, napi_tsfn_release); }

  bool take(int32_t level, const char* message) noexcept override {
    auto* const line = new (std::nothrow) Line{level, message};
    if (line == nullptr) return false;
    if (napi_call_threadsafe_function(queue_, line, napi_tsfn_nonblocking) == napi_ok) return true;
    delete line;  // its thread has ended
    return false;
  }

 private:
  struct Line {
    int32_t level;
    std::string message;
  };

  static void deliver(napi_env env, napi_value function, void* /*context*/, void* data) {
    const std::unique_ptr<Line> line(static_cast<Line*>(data));
    if (env == nullptr) return;
    napi_value undefined = nullptr;
    napi_value arguments[2]{};
    (void)napi_get_undefined(env, &undefined);
    (void)napi_create_int32(env, line->level, &arguments[0]);
    (void)napi_create_string_utf8(env, line->message.data(), line->message.size(), &arguments[1]);
    (void)napi_call_function(env, undefined, function, 2, arguments, nullptr);
  }

  napi_threadsafe_function queue_ = nullptr;
};

}  // namespace node
