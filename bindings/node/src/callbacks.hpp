// SPDX-License-Identifier: Apache-2.0
// Functions of JavaScript that the library calls: out-of-memory handlers, hooks around sleep, and receivers
// of the log.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
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
  /// What a handler or a hook has thrown, until the call ends that asked it.
  napi_ref thrown = nullptr;

  // Hooks that sleeps on other threads wait for: see JsHook.
  std::mutex mutex;
  std::condition_variable changed;
  uint32_t blocked = 0;    // calls of its thread that may wait for such a sleep
  uint32_t answering = 0;  // hooks that it runs for one

  /// Of the main thread: what would end a wait for a wake, such as a timer, comes to this thread, so it is
  /// not waited for there.
  bool is_main = false;
  bool refused_to_wait = false;  // the call under way

  /// A gpupool_interrupt_fn_t.
  static int32_t refuse_to_wait(void* /*user*/, int32_t wait) noexcept {
    if (here == nullptr || !here->is_main || wait != GPUPOOL_WAIT_WAKE) return 0;
    here->refused_to_wait = true;
    return 1;
  }

  /// Of this thread; null where there is no JavaScript.
  static inline thread_local Environment* here = nullptr;
};

/// Work in the background for a promise of this environment.
struct Job {
  Environment* at = nullptr;
  napi_ref thrown = nullptr;  // what a hook has thrown meanwhile

  /// The one that this thread does; null: none.
  static inline thread_local Job* current = nullptr;
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

/// A function of numbers, called on its own thread for yes or no.
class JsFunction {
 public:
  JsFunction(Environment& at, napi_value function) : at_(&at) {
    check(napi_create_reference(at.env, function, 1, &function_));
  }
  JsFunction(const JsFunction&) = delete;
  JsFunction& operator=(const JsFunction&) = delete;
  ~JsFunction() {
    if (Environment::here == at_) (void)napi_delete_reference(at_->env, function_);
  }

  Environment& environment() const noexcept { return *at_; }
  bool is_here() const noexcept { return Environment::here == at_; }

  /// No, on another thread, or if there is something to throw already. What it throws is kept for the call.
  template <size_t kCount>
  bool call(const std::array<double, kCount>& numbers) const noexcept {
    if (!is_here() || at_->thrown != nullptr) return false;
    napi_handle_scope scope = nullptr;
    napi_value function = nullptr;
    if (napi_open_handle_scope(at_->env, &scope) != napi_ok) return false;
    (void)napi_get_reference_value(at_->env, function_, &function);
    const bool answer = ask(*at_, function, numbers);
    (void)napi_close_handle_scope(at_->env, scope);
    return answer;
  }

  /// The same with a function, inside a scope of the environment's own thread.
  template <size_t kCount>
  static bool ask(Environment& at, napi_value function, const std::array<double, kCount>& numbers) noexcept {
    napi_value undefined = nullptr;
    napi_value answer = nullptr;
    std::array<napi_value, kCount> arguments{};
    bool yes = false;
    (void)napi_get_undefined(at.env, &undefined);
    for (size_t i = 0; i < kCount; ++i) (void)napi_create_double(at.env, numbers[i], &arguments[i]);
    if (napi_call_function(at.env, undefined, function, kCount, arguments.data(), &answer) != napi_ok) {
      napi_value thrown = nullptr;
      if (napi_get_and_clear_last_exception(at.env, &thrown) == napi_ok) keep(at, thrown);
      return false;
    }
    return napi_coerce_to_bool(at.env, answer, &answer) == napi_ok &&
           napi_get_value_bool(at.env, answer, &yes) == napi_ok && yes;
  }

 private:
  /// References are to objects, so that what is thrown goes in one.
  static void keep(Environment& at, napi_value thrown) noexcept {
    napi_value holder = nullptr;
    (void)napi_create_object(at.env, &holder);
    (void)napi_set_named_property(at.env, holder, "thrown", thrown);
    (void)napi_create_reference(at.env, holder, 1, &at.thrown);
  }

  Environment* const at_;
  napi_ref function_ = nullptr;
};

/// A function of size and attempt. It is asked on its own thread only.
class JsHandler : public binding::OomHandler {
 public:
  JsHandler(Environment& at, napi_value function) : function_(at, function) {}

  bool ask(uint64_t size, uint32_t attempt) noexcept override {
    return function_.call<2>({static_cast<double>(size), static_cast<double>(attempt)});
  }

 private:
  const JsFunction function_;
};

/// Brings data from any thread to a function, on the function's thread when JavaScript comes to it. Alone it
/// keeps no program running. The thread may end first.
class JsQueue {
 public:
  using Deliver = void(napi_env env, napi_value function, void* context, void* data);

  JsQueue(Environment& at, napi_value function, const char* text, Deliver* deliver)
      : state_(std::make_shared<State>()) {
    auto kept = std::make_unique<std::shared_ptr<State>>(state_);
    napi_value name = nullptr;
    check(napi_create_string_utf8(at.env, text, NAPI_AUTO_LENGTH, &name));
    check(napi_create_threadsafe_function(at.env, function, nullptr, name, 0, 1, kept.get(), end, nullptr,
                                          deliver, &state_->queue));
    (void)kept.release();
    check(napi_unref_threadsafe_function(at.env, state_->queue));
  }
  JsQueue(const JsQueue&) = delete;
  JsQueue& operator=(const JsQueue&) = delete;
  ~JsQueue() {
    const std::lock_guard lock(state_->mutex);
    if (!state_->has_ended) (void)napi_release_threadsafe_function(state_->queue, napi_tsfn_release);
  }

  /// False if the thread has ended. Data on the way then is delivered without an environment.
  bool send(void* data) noexcept {
    const std::lock_guard lock(state_->mutex);
    if (state_->has_ended) return false;
    const napi_status status = napi_call_threadsafe_function(state_->queue, data, napi_tsfn_nonblocking);
    state_->has_ended = status == napi_closing;
    return status == napi_ok;
  }

 private:
  struct State {
    std::mutex mutex;
    napi_threadsafe_function queue = nullptr;
    bool has_ended = false;  // and the queue is no more
  };

  static void end(napi_env /*env*/, void* kept, void* /*hint*/) {
    const std::unique_ptr<std::shared_ptr<State>> state(static_cast<std::shared_ptr<State>*>(kept));
    const std::lock_guard lock((*state)->mutex);
    (*state)->has_ended = true;
  }

  const std::shared_ptr<State> state_;
};

/// A call of JavaScript that may wait for a sleep or a wake of another thread, which must then not wait for
/// that JavaScript in turn.
class Blocking {
 public:
  explicit Blocking(Environment& at) : at_(at) {
    const std::lock_guard lock(at_.mutex);
    if (at_.answering != 0)
      throw binding::Failure{binding::make_error(
          GPUPOOL_ERROR_UNAVAILABLE, "a hook must not wait for a sleep or a wake: await it elsewhere")};
    ++at_.blocked;
    at_.changed.notify_all();
  }
  Blocking(const Blocking&) = delete;
  Blocking& operator=(const Blocking&) = delete;
  ~Blocking() {
    const std::lock_guard lock(at_.mutex);
    --at_.blocked;
  }

 private:
  Environment& at_;
};

/// A malloc or a wake that waits for another thread's hook, though it may not be Blocking itself.
class Waiting {
 public:
  /// Null: no JavaScript is on this thread.
  explicit Waiting(Environment* at) noexcept : at_(at) { change(1); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() { change(~uint32_t{0}); }

 private:
  void change(uint32_t by) noexcept {
    if (at_ == nullptr) return;
    const std::lock_guard lock(at_->mutex);
    at_->blocked += by;
    at_->changed.notify_all();
  }

  Environment* const at_;
};

/// A function of an address. A sleep or a wake on another thread waits until JavaScript comes to it. If that
/// may be never, because its thread ends, or is in a call that waits for this one, the answer is no.
class JsHook : public binding::SleepHook {
 public:
  JsHook(Environment& at, napi_value function)
      : function_(at, function), queue_(at, function, "gpupool.setSleepHooks", deliver) {}

  bool call(uint64_t address) noexcept override {
    if (function_.is_here()) return function_.call<1>({static_cast<double>(address)});
    const std::shared_ptr<Question> question(new (std::nothrow)
                                                 Question{function_.environment(), address, Job::current});
    auto* const sent = question ? new (std::nothrow) std::shared_ptr<Question>(question) : nullptr;
    if (sent == nullptr) return false;
    if (!queue_.send(sent)) {
      delete sent;
      return false;
    }
    // Meanwhile this thread answers nobody.
    const Waiting waiting(Environment::here);
    Environment& at = function_.environment();
    std::unique_lock lock(at.mutex);
    at.changed.wait(lock, [&] {
      return question->state == State::answered || (question->state == State::asked && at.blocked != 0);
    });
    if (question->state == State::asked) question->state = State::withdrawn;
    return question->answer;
  }

 private:
  enum class State { asked, running, withdrawn, answered };
  struct Question {
    Environment& at;
    uint64_t address;
    Job* job;
    State state = State::asked;
    bool answer = false;
  };

  static void deliver(napi_env env, napi_value function, void* /*context*/, void* data) {
    const std::unique_ptr<std::shared_ptr<Question>> sent(static_cast<std::shared_ptr<Question>*>(data));
    Question& question = **sent;
    Environment& at = question.at;
    {
      const std::lock_guard lock(at.mutex);
      if (question.state == State::withdrawn) return;
      question.state = State::running;
      ++at.answering;
    }
    const bool answer = env != nullptr && JsFunction::ask<1>(at, function, {double(question.address)});
    const napi_ref thrown = std::exchange(at.thrown, nullptr);
    const bool is_awaited = question.job != nullptr && question.job->at == &at;
    if (thrown != nullptr && is_awaited && question.job->thrown == nullptr) {
      question.job->thrown = thrown;  // its promise is rejected with that
    } else if (thrown != nullptr) {
      at.thrown = thrown;
      throw_failure(at, {});
    }
    const std::lock_guard lock(at.mutex);
    --at.answering;
    question.answer = answer;
    question.state = State::answered;
    at.changed.notify_all();
  }

  const JsFunction function_;
  JsQueue queue_;
};

/// A function of level and message. Lines come from any thread, and are given to it when its thread comes to
/// it.
class JsReceiver : public binding::LogReceiver {
 public:
  JsReceiver(Environment& at, napi_value function) : queue_(at, function, "gpupool.setLog", deliver) {}

  bool take(int32_t level, const char* message) noexcept override {
    auto* const line = new (std::nothrow) Line{level, message};
    if (line == nullptr) return false;
    if (queue_.send(line)) return true;
    delete line;
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

  JsQueue queue_;
};

}  // namespace node
