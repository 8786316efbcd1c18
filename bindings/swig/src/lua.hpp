// SPDX-License-Identifier: Apache-2.0
// What only Lua needs: integers of 64 bits, handlers, errors and metamethods.
#pragma once

#include <lua.hpp>
#include <memory>
#include <thread>

#include "words.hpp"

namespace binding {

/// True for 1048576 and 2^20, false for "1048576" and 0.5.
inline bool is_whole_number(lua_State* L, int index) {
  int is_whole = 0;
  if (lua_type(L, index) == LUA_TNUMBER) (void)lua_tointegerx(L, index, &is_whole);
  return is_whole != 0;
}

/// While a Lua program is inside a call of the library on this thread: its state, so that a handler can run.
class LuaCall {
 public:
  /// What a handler throws goes to *thrown, as a reference in the registry.
  LuaCall(lua_State* L, int* thrown) : outer_(current), L_(L), thrown_(thrown) { current = this; }
  LuaCall(const LuaCall&) = delete;
  LuaCall& operator=(const LuaCall&) = delete;
  ~LuaCall() { current = outer_; }

  lua_State* state() const { return L_; }
  /// Takes the value on the top of the stack.
  void keep_thrown() { *thrown_ = luaL_ref(L_, LUA_REGISTRYINDEX); }

  static inline thread_local LuaCall* current = nullptr;

 private:
  LuaCall* outer_;
  lua_State* L_;
  int* thrown_;
};

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

/// When the module is loaded: before any object of it, so that Lua ends the program after them.
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

/// A function. It is asked only on a thread that is inside a call from the same Lua program.
class LuaHandler : public OomHandler {
 public:
  LuaHandler(lua_State* L, int index) : program_(program_of(L)) {
    lua_pushvalue(L, index);
    reference_ = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  /// Another program may have replaced it, on another thread or when this one has ended: then it is left
  /// alone.
  ~LuaHandler() override {
    if (program_->thread == std::this_thread::get_id() && program_->is_open) {
      luaL_unref(program_->main_thread, LUA_REGISTRYINDEX, reference_);
    }
  }

  bool ask(uint64_t size, uint32_t attempt) noexcept override {
    LuaCall* const call = LuaCall::current;
    if (call == nullptr) return false;
    lua_State* const L = call->state();
    if (lua_checkstack(L, 8) == 0 || program_of(L) != program_) return false;
    lua_rawgeti(L, LUA_REGISTRYINDEX, reference_);
    lua_pushinteger(L, static_cast<lua_Integer>(size));
    lua_pushinteger(L, attempt);
    if (lua_pcall(L, 2, 1, 0) != LUA_OK) {
      call->keep_thrown();
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

inline constexpr const char* kLuaError = "gpupool.Error";

/// Throws the failure as a table, or what a handler has thrown.
inline int raise_in_lua(lua_State* L, const gpupool_error_t& error, int thrown = LUA_NOREF) {
  if (thrown != LUA_NOREF) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, thrown);
    luaL_unref(L, LUA_REGISTRYINDEX, thrown);
    return lua_error(L);
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
  return lua_error(L);
}

/// __tostring of an error: "STATUS: message".
inline int lua_error_text(lua_State* L) {
  lua_getfield(L, 1, "status");
  lua_getfield(L, 1, "message");
  lua_pushfstring(L, "%s: %s", lua_tostring(L, -2), lua_tostring(L, -1));
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
