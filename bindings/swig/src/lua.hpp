// SPDX-License-Identifier: Apache-2.0
// For Lua only: integers of 64 bits, handlers, errors and metamethods.
#pragma once

#include <algorithm>
#include <lua.hpp>
#include <memory>
#include <thread>

#include "log.hpp"
#include "staging.hpp"

namespace binding {

// ---- misuse, in terms of Lua

/// "binding::Pool::malloc", "Pool_malloc" and "new_Pool" are malloc, malloc and Pool.
inline std::string_view method_name(std::string_view name) {
  if (const size_t colon = name.rfind(':'); colon != name.npos) return name.substr(colon + 1);
  if (name.starts_with("new_")) return name.substr(4);
  const size_t underscore = name.find('_');
  return name[0] >= 'A' && name[0] <= 'Z' && underscore != name.npos ? name.substr(underscore + 1) : name;
}

/// "binding::Pool *" is Pool, "gpupool_config_t const &" is Config.
inline std::string_view lua_type_name(std::string_view type) {
  if (type.find("string") != type.npos || type.find("char") != type.npos) return "string";
  if (type.starts_with("gpupool_config_t")) return "Config";
  if (type.starts_with("gpupool_sim_config_t")) return "SimConfig";
  if (type.starts_with("gpupool_")) return "constant of the module";
  if (type.starts_with("binding::")) type.remove_prefix(9);
  return type.substr(0, type.find_first_of(" *&"));
}

/// SWIG calls what sets the field slack slack_set.
inline bool is_setter_of(std::string_view method, std::string_view field) {
  return method.size() == field.size() + 4 && method.starts_with(field) && method.ends_with("_set");
}

/// Leaves "method: argument is value: what is wanted" on the stack, with the caller's place; of a field,
/// "field is value: what is wanted".
inline void push_misuse(lua_State* L, const char* function, const char* argument, int index,
                        const char* wanted) {
  const std::string_view method = method_name(function);
  luaL_where(L, 1);
  const bool is_text = lua_type(L, index) == LUA_TSTRING;
  const char* const value = lua_isnone(L, index) ? "missing" : luaL_tolstring(L, index, nullptr);
  const std::string prefix = is_setter_of(method, argument) ? "" : std::string(method) + ": ";
  lua_pushfstring(L, is_text ? "%s%s is \"%s\": %s is wanted" : "%s%s is %s: %s is wanted", prefix.c_str(),
                  argument, value, wanted);
  if (!lua_isnone(L, index)) lua_remove(L, -2);
  lua_concat(L, 2);
}
/// The object before the colon is no argument: for "binding::Pool::malloc", but neither for
/// "binding::parse_size" nor for a constructor.
inline bool is_method(std::string_view function) {
  const size_t last = function.rfind("::");
  const size_t before = last == function.npos ? last : function.rfind("::", last - 1);
  return before != function.npos &&
         function.substr(before + 2, last - before - 2) != function.substr(last + 2);
}
inline void push_wrong_type(lua_State* L, const char* function, int index, const char* type) {
  const std::string_view name = lua_type_name(type);
  char argument[32] = "the object before the colon";
  char wanted[64];
  if (!is_method(function)) {
    (void)std::snprintf(argument, sizeof argument, "argument %d", index);
  } else if (index > 1) {
    (void)std::snprintf(argument, sizeof argument, "argument %d", index - 1);
  }
  (void)std::snprintf(wanted, sizeof wanted, "a %.*s", static_cast<int>(name.size()), name.data());
  push_misuse(L, function, argument, index, wanted);
}
inline void push_wrong_count(lua_State* L, const char* function, int least, int most) {
  const int object = is_method(function) ? 1 : 0;
  luaL_where(L, 1);
  const int count = std::max(lua_gettop(L) - 1 - object, 0);
  const std::string_view method = method_name(function);
  char text[160];
  (void)std::snprintf(text, sizeof text, "%.*s: %d arguments are there: %d to %d are wanted",
                      static_cast<int>(method.size()), method.data(), count, least - object, most - object);
  lua_pushstring(L, text);
  lua_concat(L, 2);
}
/// SWIG's text names the function in quotes and lists C++ prototypes.
inline void push_wrong_overload(lua_State* L, std::string_view text) {
  const size_t from = text.find('\'') + 1;
  const std::string name(method_name(text.substr(from, text.find('\'', from) - from)));
  const char* const wanted = arguments_of(name);
  luaL_where(L, 1);
  lua_pushfstring(L, "%s: these arguments do not fit: %s is wanted", name.c_str(),
                  wanted == nullptr ? "another list" : wanted);
  lua_concat(L, 2);
}

// For typemaps.
#define GPUPOOL_MISUSE(function, argument, index, wanted) \
  {                                                       \
    push_misuse(L, function, argument, index, wanted);    \
    SWIG_fail;                                            \
  }

// SWIG's own code uses these; its messages would speak of C++.
#undef SWIG_fail_arg
#define SWIG_fail_arg(function, index, type)   \
  {                                            \
    push_wrong_type(L, function, index, type); \
    goto fail;                                 \
  }
#undef SWIG_fail_ptr
#define SWIG_fail_ptr(function, index, type) SWIG_fail_arg(function, index, (type)->str)
#undef SWIG_check_num_args
#define SWIG_check_num_args(function, least, most)     \
  if (lua_gettop(L) < least || lua_gettop(L) > most) { \
    push_wrong_count(L, function, least, most);        \
    goto fail;                                         \
  }
#define SWIG_Lua_pusherrstring(L, text) push_wrong_overload(L, text)

// ---- numbers

/// True for 1048576 and 2^20, false for "1048576" and 0.5.
inline bool is_whole_number(lua_State* L, int index) {
  int is_whole = 0;
  if (lua_type(L, index) == LUA_TNUMBER) (void)lua_tointegerx(L, index, &is_whole);
  return is_whole != 0;
}

/// Lua counts them in a signed integer, together with the string's head.
inline ByteType byte_type() noexcept {
  return {"a string", INT64_MAX - 4096};
}

// ---- functions that the library calls

/// The state of a Lua program while it is inside a call of the library on this thread, so that a handler can
/// run.
class LuaCall {
 public:
  /// What a handler throws goes to *thrown, as a reference in the registry.
  LuaCall(lua_State* L, int* thrown) : outer_(current), L_(L), thrown_(thrown) { current = this; }
  LuaCall(const LuaCall&) = delete;
  LuaCall& operator=(const LuaCall&) = delete;
  ~LuaCall() { current = outer_; }

  lua_State* state() const { return L_; }
  bool has_thrown() const { return *thrown_ != LUA_NOREF; }
  /// Takes the value on the top of the stack.
  void keep_thrown() { *thrown_ = luaL_ref(L_, LUA_REGISTRYINDEX); }

  static inline thread_local LuaCall* current = nullptr;

 private:
  LuaCall* outer_;
  lua_State* L_;
  int* thrown_;
};

/// What ends objects runs before the collector returns. From inside one of these it does nothing.
inline bool run_collector() noexcept {
  const LuaCall* const call = LuaCall::current;
  return call != nullptr && !call->has_thrown() && lua_gc(call->state(), LUA_GCCOLLECT) == 0;
}

inline bool has_thrown() noexcept {
  return LuaCall::current != nullptr && LuaCall::current->has_thrown();
}

/// A Lua state, which the handler of a default pool may outlive.
struct LuaProgram {
  lua_State* main_thread;
  std::thread::id thread;
  bool is_open;
};
using LuaProgramPtr = std::shared_ptr<LuaProgram>;

inline LuaProgramPtr program_of(lua_State* L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &LuaCall::current);
  const LuaProgramPtr program = *static_cast<LuaProgramPtr*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  return program;
}

inline int end_program(lua_State* L) {
  auto* const program = static_cast<LuaProgramPtr*>(lua_touserdata(L, 1));
  (*program)->is_open = false;
  std::destroy_at(program);
  return 0;
}

/// Runs when the module is loaded, before it has any object, so that Lua ends the program after all objects.
inline void begin_program(lua_State* L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  lua_State* const main_thread = lua_tothread(L, -1);
  lua_pop(L, 1);
  void* const place = lua_newuserdatauv(L, sizeof(LuaProgramPtr), 0);
  ::new (place) LuaProgramPtr(new LuaProgram{main_thread, std::this_thread::get_id(), true});
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, end_program);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &LuaCall::current);
}

/// A function of a Lua program. It is called only on a thread that is inside a call from that program.
class LuaFunction {
 public:
  LuaFunction(lua_State* L, int index) : program_(program_of(L)) {
    lua_pushvalue(L, index);
    reference_ = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  LuaFunction(const LuaFunction&) = delete;
  LuaFunction& operator=(const LuaFunction&) = delete;
  /// If another program has replaced it, on another thread or after the end of this one, the reference is
  /// left alone.
  ~LuaFunction() {
    if (program_->thread == std::this_thread::get_id() && program_->is_open) {
      luaL_unref(program_->main_thread, LUA_REGISTRYINDEX, reference_);
    }
  }

  /// Puts the function on the stack of the call that this thread is inside; null: the call is not of this
  /// program.
  LuaCall* push() const noexcept {
    LuaCall* const call = LuaCall::current;
    if (call == nullptr) return nullptr;
    lua_State* const L = call->state();
    if (lua_checkstack(L, 8) == 0 || program_of(L) != program_) return nullptr;
    lua_rawgeti(L, LUA_REGISTRYINDEX, reference_);
    return call;
  }

  /// Calls what push() has put there, with the arguments above it. What it throws is the call's, and a no.
  static bool answer(LuaCall& call, int arguments) noexcept {
    lua_State* const L = call.state();
    if (lua_pcall(L, arguments, 1, 0) != LUA_OK) {
      call.keep_thrown();
      return false;
    }
    const bool answer = lua_toboolean(L, -1) != 0;
    lua_pop(L, 1);
    return answer;
  }

 private:
  LuaProgramPtr program_;
  int reference_;
};

class LuaHandler : public OomHandler {
 public:
  LuaHandler(lua_State* L, int index) : function_(L, index) {}

  bool ask(uint64_t size, uint32_t attempt) noexcept override {
    LuaCall* const call = function_.push();
    if (call == nullptr) return false;
    lua_State* const L = call->state();
    lua_pushinteger(L, static_cast<lua_Integer>(size));
    lua_pushinteger(L, attempt);
    return LuaFunction::answer(*call, 2);
  }

 private:
  LuaFunction function_;
};

class LuaHook : public SleepHook {
 public:
  LuaHook(lua_State* L, int index) : function_(L, index) {}

  bool call(uint64_t address) noexcept override {
    if (LuaCall::current == nullptr || LuaCall::current->has_thrown()) return false;
    LuaCall* const call = function_.push();
    if (call == nullptr) return false;
    lua_State* const L = call->state();
    lua_pushinteger(L, static_cast<lua_Integer>(address));
    return LuaFunction::answer(*call, 1);
  }

 private:
  LuaFunction function_;
};

class LuaReceiver : public LogReceiver {
 public:
  LuaReceiver(lua_State* L, int index) : function_(L, index) {}

  bool take(int32_t level, const char* message) noexcept override {
    LuaCall* const call = function_.push();
    if (call == nullptr) return false;
    lua_State* const L = call->state();
    lua_pushinteger(L, level);
    lua_pushstring(L, message);
    if (lua_pcall(L, 2, 0, 0) != LUA_OK) {
      const char* const problem = luaL_tolstring(L, -1, nullptr);
      (void)std::fprintf(stderr, "gpupool: the function that receives the log failed: %s\n", problem);
      lua_pop(L, 2);
    }
    return true;
  }

 private:
  LuaFunction function_;
};

// ---- errors and metamethods

inline constexpr const char* kLuaError = "gpupool.Error";

/// Leaves the failure as a table on the stack, or what a handler has thrown. SWIG_fail throws it: Lua leaves
/// by longjmp, so the wrapper's own objects must be gone first.
inline void push_failure(lua_State* L, const gpupool_error_t& error, int thrown = LUA_NOREF) {
  if (thrown != LUA_NOREF) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, thrown);
    luaL_unref(L, LUA_REGISTRYINDEX, thrown);
    return;
  }
  lua_createtable(L, 0, 4);
  lua_pushstring(L, gpupool_status_name(static_cast<gpupool_status_t>(error.status)));
  lua_setfield(L, -2, "status");
  lua_pushinteger(L, error.status);
  lua_setfield(L, -2, "code");
  lua_pushinteger(L, error.driver_code);
  lua_setfield(L, -2, "driver_code");
  lua_pushstring(L, error.message);
  lua_setfield(L, -2, "message");
  luaL_setmetatable(L, kLuaError);
}

/// __tostring of an error: "STATUS: message".
inline int lua_error_text(lua_State* L) {
  lua_getfield(L, 1, "status");
  lua_getfield(L, 1, "message");
  lua_pushfstring(L, "%s: %s", lua_tostring(L, -2), lua_tostring(L, -1));
  return 1;
}

/// __tostring of an object.
inline int lua_object_text(lua_State* L) {
  lua_getfield(L, 1, "to_string");
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

/// __close of an object, for `local block <close> = ...`.
inline int lua_close_object(lua_State* L) {
  lua_getfield(L, 1, "close");
  lua_pushvalue(L, 1);
  lua_call(L, 1, 0);
  return 0;
}

}  // namespace binding
