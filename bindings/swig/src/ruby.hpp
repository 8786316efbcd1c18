// SPDX-License-Identifier: Apache-2.0
// For Ruby only: integers of 64 bits, handlers and exceptions.
#pragma once

#include <ruby.h>
#include <ruby/thread.h>

#include <atomic>
#include <cstring>
#include <exception>

#include "log.hpp"
#include "staging.hpp"

namespace binding {

/// The argument as "size is 1.5".
[[noreturn]] inline void refuse_argument(VALUE type, const char* argument, VALUE value, const char* wanted) {
  VALUE text = rb_inspect(value);
  rb_raise(type, "%s is %s: %s is wanted", argument, StringValueCStr(text), wanted);
}

/// Refuses what is no integer, negative, or wider than 64 bits.
inline uint64_t to_uint64(VALUE value, const char* argument, const char* wanted = "an Integer") {
  if (!RB_INTEGER_TYPE_P(value)) refuse_argument(rb_eTypeError, argument, value, wanted);
  uint64_t number = 0;
  const int sign = rb_integer_pack(value, &number, 1, sizeof number, 0,
                                   INTEGER_PACK_LSWORD_FIRST | INTEGER_PACK_NATIVE_BYTE_ORDER);
  if (sign < 0 || sign > 1)
    refuse_argument(rb_eRangeError, argument, value, "an Integer from 0 to 2**64 - 1");
  return number;
}

/// Ruby counts them in a long.
inline ByteType byte_type() noexcept {
  return {"a String", LONG_MAX - 1};
}

inline int32_t to_int32(VALUE value, const char* argument) {
  if (!RB_INTEGER_TYPE_P(value)) refuse_argument(rb_eTypeError, argument, value, "an Integer");
  int32_t number = 0;
  const int sign =
      rb_integer_pack(value, &number, 1, sizeof number, 0,
                      INTEGER_PACK_LSWORD_FIRST | INTEGER_PACK_NATIVE_BYTE_ORDER | INTEGER_PACK_2COMP);
  // A wrong sign also is an overflow.
  if (sign < -1 || sign > 1 || (sign < 0) != (number < 0)) {
    refuse_argument(rb_eRangeError, argument, value, "an Integer of 32 bits");
  }
  return number;
}

/// "binding::Pool *" is Pool, "std::string const &" is String.
inline std::string ruby_type_name(std::string_view type) {
  if (type.find("string") != type.npos || type.find("char") != type.npos) return "String";
  if (type == "double") return "Float";
  if (type == "bool") return "true or false";
  if (type.starts_with("gpupool_config_t")) return "Config";
  if (type.starts_with("gpupool_sim_config_t")) return "SimConfig";
  if (type.starts_with("gpupool_")) return "a constant of GpuPool";
  if (type.starts_with("binding::")) type.remove_prefix(9);
  return std::string(type.substr(0, type.find_first_of(" *&")));
}

/// Says in terms of Ruby what SWIG's own code would say of C++. Argument 1 of a method is the object;
/// functions of the module have the namespace in their names.
inline const char* wrong_type(const char* type, const char* method, int index, VALUE value) {
  std::string_view name = method;
  if (name.starts_with("binding::")) {
    name.remove_prefix(9);
  } else {
    --index;
  }
  const VALUE text = rb_sprintf("%s: argument %d is %+" PRIsVALUE ": %s is wanted", name.data(), index, value,
                                ruby_type_name(type).c_str());
  return RSTRING_PTR(text);
}
[[noreturn]] inline void raise_wrong_overload(const char* method) {
  const char* const dot = std::strchr(method, '.');
  std::string_view name = dot == nullptr ? method : dot + 1;
  if (name == "new") name = std::string_view(method, dot - method);
  const char* const wanted = arguments_of(name);
  rb_raise(rb_eArgError, "%s: these arguments do not fit: %s is wanted", method,
           wanted == nullptr ? "another list" : wanted);
}
#define Ruby_Format_TypeError(text, type, method, index, value) wrong_type(type, method, index, value)
#define Ruby_Format_OverloadedError(count, most, method, prototypes) raise_wrong_overload(method)

/// Exists while a Ruby program is inside a call of the library on this thread. It holds the interpreter's
/// lock, unless the call may wait: then all of Ruby would wait with it, and the thread that ends the wait
/// never run.
class RubyCall {
 public:
  /// What a handler throws goes to *thrown, as a state for rb_jump_tag.
  explicit RubyCall(int* thrown) : outer_(current), thrown_(thrown) { current = this; }
  RubyCall(const RubyCall&) = delete;
  RubyCall& operator=(const RubyCall&) = delete;
  ~RubyCall() { current = outer_; }

  int* thrown() const { return thrown_; }

  /// For calls that take long anyway.
  template <class Action>
  void run_without_lock(Action action) {
    std::exception_ptr failure;
    bool has_run = false;
    auto whole = [&] {
      has_run = true;
      try {
        action();
      } catch (...) {
        failure = std::current_exception();
      }
    };
    while (!has_run) {
      holds_lock_ = false;
      // Unlike the other of that name, it leaves by no throw. It does not even begin if Ruby wants the
      // thread.
      (void)rb_thread_call_without_gvl2(run<decltype(whole)>, &whole, wake_up, &is_wanted_);
      holds_lock_ = true;
      if (!has_run && !heed_ruby()) refuse("interrupted", GPUPOOL_ERROR_INTERRUPTED);
    }
    if (failure) std::rethrow_exception(failure);
  }

  /// For calls that seldom wait, and are too short to give the lock up for each: one that would wait gives
  /// up, which changes nothing, and begins anew.
  template <class Action>
  void run_until_it_waits(Action action) {
    gives_up_ = true;
    try {
      action();
      gives_up_ = false;
      return;
    } catch (const Failure& failure) {
      if (gives_up_ || failure.details.status != GPUPOOL_ERROR_INTERRUPTED) {
        gives_up_ = false;
        throw;
      }
    }
    run_without_lock(action);
  }

  /// Runs code of Ruby, which must not leave by a throw.
  template <class Code>
  static void with_lock(Code code) {
    if (current == nullptr || current->holds_lock_) return code();
    RubyCall& call = *current;
    call.holds_lock_ = true;
    (void)rb_thread_call_with_gvl(run<Code>, &code);
    call.holds_lock_ = false;
  }

  /// A gpupool_interrupt_fn_t.
  static int32_t is_to_end(void* /*user*/, int32_t /*wait*/) noexcept {
    RubyCall* const call = current;
    if (call == nullptr) return 0;
    if (call->holds_lock_) return std::exchange(call->gives_up_, false) ? 1 : 0;
    if (!call->is_wanted_.exchange(false)) return 0;
    bool goes_on = true;
    with_lock([&] { goes_on = call->heed_ruby(); });
    return goes_on ? 0 : 1;
  }

  static inline thread_local RubyCall* current = nullptr;

 private:
  template <class Code>
  static void* run(void* code) {
    (*static_cast<Code*>(code))();
    return nullptr;
  }
  /// Ruby wants the thread: a signal has come, or another thread ends it or raises in it.
  static void wake_up(void* is_wanted) { static_cast<std::atomic<bool>*>(is_wanted)->store(true); }
  /// Lets Ruby do so. False: it has thrown something.
  bool heed_ruby() const {
    const auto check = [](VALUE) -> VALUE {
      rb_thread_check_ints();
      return Qnil;
    };
    if (*thrown_ == 0) (void)rb_protect(check, Qnil, thrown_);
    return *thrown_ == 0;
  }

  RubyCall* outer_;
  int* thrown_;
  bool holds_lock_ = true;
  bool gives_up_ = false;
  std::atomic<bool> is_wanted_{false};
};

/// What the collector finds ends before it returns. The program's finalizers run too; if they leave by a
/// throw, it is the malloc's.
inline bool run_collector() noexcept {
  const RubyCall* const call = RubyCall::current;
  if (call == nullptr || *call->thrown() != 0) return false;
  // Unlike rb_gc(), it ends what it finds before it returns, and runs even when the collector is disabled.
  const auto collect = [](VALUE) -> VALUE { return rb_funcall(rb_mGC, rb_intern("start"), 0); };
  RubyCall::with_lock([&] { (void)rb_protect(collect, Qnil, call->thrown()); });
  return *call->thrown() == 0;
}

inline bool has_thrown() noexcept {
  return RubyCall::current != nullptr && *RubyCall::current->thrown() != 0;
}

/// An object that the collector leaves alone.
class RubyObject {
 public:
  explicit RubyObject(VALUE object) : object_(new VALUE(object)) { rb_gc_register_address(object_); }
  RubyObject(const RubyObject&) = delete;
  RubyObject& operator=(const RubyObject&) = delete;
  /// If another language has replaced it, in a default pool on a thread of its own, the object is left alone.
  ~RubyObject() {
    if (ruby_native_thread_p() == 0) return;
    RubyCall::with_lock([&] { rb_gc_unregister_address(object_); });
    delete object_;
  }
  VALUE get() const noexcept { return *object_; }

 private:
  VALUE* object_;
};

/// An object with a method `call`. It is called only on a thread that is inside a call from Ruby.
class RubyHandler : public OomHandler {
 public:
  explicit RubyHandler(VALUE handler) : handler_(handler) {}

  bool ask(uint64_t size, uint32_t attempt) noexcept override {
    const RubyCall* const call = RubyCall::current;
    if (call == nullptr) return false;
    const Question question{handler_.get(), size, attempt};
    VALUE answer = Qfalse;
    RubyCall::with_lock(
        [&] { answer = rb_protect(put, reinterpret_cast<VALUE>(&question), call->thrown()); });
    return *call->thrown() == 0 && RTEST(answer);
  }

 private:
  struct Question {
    VALUE handler;
    uint64_t size;
    uint32_t attempt;
  };

  static VALUE put(VALUE pointer) {
    const auto& question = *reinterpret_cast<const Question*>(pointer);
    return rb_funcall(question.handler, rb_intern("call"), 2, ULL2NUM(question.size),
                      UINT2NUM(question.attempt));
  }

  RubyObject handler_;
};

/// The same, around sleep.
class RubyHook : public SleepHook {
 public:
  explicit RubyHook(VALUE hook) : hook_(hook) {}

  bool call(uint64_t address) noexcept override {
    const RubyCall* const call = RubyCall::current;
    if (call == nullptr || *call->thrown() != 0) return false;
    const Question question{hook_.get(), address};
    VALUE answer = Qfalse;
    RubyCall::with_lock(
        [&] { answer = rb_protect(put, reinterpret_cast<VALUE>(&question), call->thrown()); });
    return *call->thrown() == 0 && RTEST(answer);
  }

 private:
  struct Question {
    VALUE hook;
    uint64_t address;
  };

  static VALUE put(VALUE pointer) {
    const auto& question = *reinterpret_cast<const Question*>(pointer);
    return rb_funcall(question.hook, rb_intern("call"), 1, ULL2NUM(question.address));
  }

  RubyObject hook_;
};

/// An object with a method `call`. Lines from threads that are not inside a call from Ruby, and from the
/// collector, go to standard error.
class RubyReceiver : public LogReceiver {
 public:
  explicit RubyReceiver(VALUE receiver) : receiver_(receiver) {}

  bool take(int32_t level, const char* message) noexcept override {
    if (RubyCall::current == nullptr) return false;
    bool is_taken = false;
    RubyCall::with_lock([&] {
      if (rb_during_gc() != 0) return;
      is_taken = true;
      const Line line{receiver_.get(), level, message};
      int thrown = 0;
      (void)rb_protect(put, reinterpret_cast<VALUE>(&line), &thrown);
      if (thrown == 0) return;
      const char* const problem = rb_obj_classname(rb_errinfo());
      (void)std::fprintf(stderr, "gpupool: the object that receives the log failed: %s\n", problem);
      rb_set_errinfo(Qnil);
    });
    return is_taken;
  }

 private:
  struct Line {
    VALUE receiver;
    int32_t level;
    const char* message;
  };

  static VALUE put(VALUE pointer) {
    const auto& line = *reinterpret_cast<const Line*>(pointer);
    return rb_funcall(line.receiver, rb_intern("call"), 2, INT2NUM(line.level),
                      rb_utf8_str_new_cstr(line.message));
  }

  RubyObject receiver_;
};

/// Throws the failure, or what a handler has thrown.
[[noreturn]] inline void raise_in_ruby(const gpupool_error_t& error, int thrown = 0) {
  if (thrown != 0) rb_jump_tag(thrown);
  const VALUE type = rb_path2class("GpuPool::Error");
  rb_exc_raise(rb_funcall(type, rb_intern("of"), 3, INT2NUM(error.status), INT2NUM(error.driver_code),
                          rb_utf8_str_new_cstr(error.message)));
}

}  // namespace binding
