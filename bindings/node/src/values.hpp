// SPDX-License-Identifier: Apache-2.0
// Values of JavaScript as arguments and results of C++ functions.
#pragma once

#include <node_api.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "objects.hpp"

namespace node {

/// A call of Node-API that failed: it has left an exception pending, or nothing more can be done here.
struct Pending {};

/// What is wrong with an argument, for a TypeError.
struct Misuse {
  std::string message;
};

inline void check(napi_status status) {
  if (status != napi_ok) throw Pending{};
}

/// How many a Buffer of this version of Node holds: index.js says. The same on every thread.
inline std::atomic<uint64_t> most_bytes{0};

/// Bytes, which become a Buffer.
struct Bytes {
  std::string bytes;
};

/// Bytes of the caller's, for the time of a call.
struct BytesView {
  const char* data = nullptr;
  size_t length = 0;
};

/// A native object, as the private field of an object of JavaScript.
struct AnyBox {
  const void* kind;
  virtual ~AnyBox() = default;

 protected:
  explicit AnyBox(const void* its_kind) : kind(its_kind) {}
};

template <class T>
struct Box : AnyBox {
  explicit Box(T* made) : AnyBox(&kKind), object(made) {}
  static inline const char kKind = 0;
  const std::unique_ptr<T> object;
};

/// One argument of a call, with its name for messages.
struct Argument {
  napi_env env;
  napi_value value;
  std::string_view name;

  [[noreturn]] void refuse(const char* wanted) const {
    napi_value text = nullptr;
    size_t length = 0;
    char found[64] = "a Symbol";
    napi_valuetype type{};
    check(napi_typeof(env, value, &type));
    if (type == napi_object || type == napi_function || type == napi_external) {
      (void)std::snprintf(found, sizeof found, type == napi_function ? "a function" : "an object");
    } else if (type != napi_symbol) {
      check(napi_coerce_to_string(env, value, &text));
      check(napi_get_value_string_utf8(env, text, found, sizeof found, &length));
    }
    throw Misuse{std::string(name) + " is " + found + ": " + wanted + " is wanted"};
  }
  napi_valuetype type() const {
    napi_valuetype type{};
    check(napi_typeof(env, value, &type));
    return type;
  }
  /// Null: it is no such object.
  template <class T>
  T* boxed() const {
    if (type() != napi_external) return nullptr;
    void* box = nullptr;
    check(napi_get_value_external(env, value, &box));
    const auto* const any = static_cast<AnyBox*>(box);
    return any->kind == &Box<T>::kKind ? static_cast<const Box<T>*>(any)->object.get() : nullptr;
  }
};

// ---- arguments

template <class T>
T from_js(const Argument& argument);

template <>
inline double from_js<double>(const Argument& argument) {
  double number = 0;
  if (argument.type() != napi_number) argument.refuse("a number");
  check(napi_get_value_double(argument.env, argument.value, &number));
  return number;
}
template <>
inline uint64_t from_js<uint64_t>(const Argument& argument) {
  constexpr double kSafe = 9007199254740991;
  if (argument.type() == napi_bigint) {
    uint64_t number = 0;
    bool is_exact = false;
    check(napi_get_value_bigint_uint64(argument.env, argument.value, &number, &is_exact));
    if (!is_exact) argument.refuse("an integer from 0 to 2n ** 64n - 1n");
    return number;
  }
  if (argument.type() != napi_number) argument.refuse("an integer");
  const double number = from_js<double>(argument);
  if (number != std::trunc(number) || std::abs(number) > kSafe)
    argument.refuse("a safe integer, or a BigInt,");
  if (number < 0) {
    throw binding::Failure{
        binding::negative_number(std::string(argument.name).c_str(), static_cast<int64_t>(number))};
  }
  return static_cast<uint64_t>(number);
}
template <>
inline int64_t from_js<int64_t>(const Argument& argument) {
  if (argument.type() != napi_bigint) {
    const bool is_negative = argument.type() == napi_number && from_js<double>(argument) < 0;
    if (!is_negative) return static_cast<int64_t>(from_js<uint64_t>(argument));  // at most 2^53
    const double number = from_js<double>(argument);
    if (number != std::trunc(number) || number < -9007199254740991)
      argument.refuse("a safe integer, or a BigInt,");
    return static_cast<int64_t>(number);
  }
  int64_t number = 0;
  bool is_exact = false;
  check(napi_get_value_bigint_int64(argument.env, argument.value, &number, &is_exact));
  if (!is_exact) argument.refuse("an integer of 64 bits");
  return number;
}
template <>
inline int32_t from_js<int32_t>(const Argument& argument) {
  if (argument.type() != napi_number) argument.refuse("an integer");
  const double number = from_js<double>(argument);
  if (number != std::trunc(number) || std::abs(number) > 2147483647) argument.refuse("an integer of 32 bits");
  return static_cast<int32_t>(number);
}
template <>
inline uint32_t from_js<uint32_t>(const Argument& argument) {
  const auto number = from_js<uint64_t>(argument);
  if (number > 0xffffffff) argument.refuse("an integer of 32 bits");
  return static_cast<uint32_t>(number);
}
template <>
inline bool from_js<bool>(const Argument& argument) {
  bool yes = false;
  if (argument.type() != napi_boolean) argument.refuse("true or false");
  check(napi_get_value_bool(argument.env, argument.value, &yes));
  return yes;
}
template <>
inline std::string from_js<std::string>(const Argument& argument) {
  if (argument.type() != napi_string) argument.refuse("a string");
  size_t length = 0;
  check(napi_get_value_string_utf8(argument.env, argument.value, nullptr, 0, &length));
  std::string text(length, '\0');
  check(napi_get_value_string_utf8(argument.env, argument.value, text.data(), length + 1, &length));
  return text;
}
template <>
inline BytesView from_js<BytesView>(const Argument& argument) {
  const napi_env env = argument.env;
  bool is_such = false;
  void* data = nullptr;
  size_t length = 0;
  check(napi_is_buffer(env, argument.value, &is_such));  // Buffers, and all typed arrays
  if (is_such) {
    check(napi_get_buffer_info(env, argument.value, &data, &length));
    return {static_cast<const char*>(data), length};
  }
  check(napi_is_dataview(env, argument.value, &is_such));
  if (is_such) {
    check(napi_get_dataview_info(env, argument.value, &length, &data, nullptr, nullptr));
    return {static_cast<const char*>(data), length};
  }
  check(napi_is_arraybuffer(env, argument.value, &is_such));
  if (!is_such) argument.refuse("a Buffer, a typed array or an ArrayBuffer");
  check(napi_get_arraybuffer_info(env, argument.value, &data, &length));
  return {static_cast<const char*>(data), length};
}
template <>
inline binding::StreamArgument from_js<binding::StreamArgument>(const Argument& argument) {
  if (const auto* const stream = argument.boxed<binding::Stream>()) return *stream;
  if (argument.type() != napi_number && argument.type() != napi_bigint)
    argument.refuse("a Stream, or an integer,");
  return {from_js<uint64_t>(argument)};
}

/// Leaves what is not given as it is.
template <class T>
void read_field(napi_env env, napi_value object, const char* name, T& field) {
  Argument argument{env, nullptr, name};
  check(napi_get_named_property(env, object, name, &argument.value));
  if (argument.type() != napi_undefined) field = from_js<T>(argument);
}

// ---- results

inline napi_value to_js(napi_env env, double number) {
  napi_value result = nullptr;
  check(napi_create_double(env, number, &result));
  return result;
}
/// Exact up to 2^53, which addresses and counts of bytes do not reach.
inline napi_value to_js(napi_env env, uint64_t number) {
  return to_js(env, static_cast<double>(number));
}
inline napi_value to_js(napi_env env, int64_t number) {
  return to_js(env, static_cast<double>(number));
}
inline napi_value to_js(napi_env env, uint32_t number) {
  return to_js(env, static_cast<double>(number));
}
inline napi_value to_js(napi_env env, int32_t number) {
  return to_js(env, static_cast<double>(number));
}
inline napi_value to_js(napi_env env, bool yes) {
  napi_value result = nullptr;
  check(napi_get_boolean(env, yes, &result));
  return result;
}
inline napi_value to_js(napi_env env, const std::string& text) {
  napi_value result = nullptr;
  check(napi_create_string_utf8(env, text.data(), text.size(), &result));
  return result;
}
inline napi_value to_js(napi_env env, const Bytes& bytes) {
  napi_value result = nullptr;
  check(napi_create_buffer_copy(env, bytes.bytes.size(), bytes.bytes.data(), nullptr, &result));
  return result;
}
/// Takes it over.
template <class T>
requires std::is_class_v<T> napi_value to_js(napi_env env, T* object) {
  napi_value result = nullptr;
  auto box = std::make_unique<Box<T>>(object);
  AnyBox* const any = box.get();
  check(napi_create_external(
      env, any, [](napi_env, void* data, void*) { delete static_cast<AnyBox*>(data); }, nullptr, &result));
  (void)box.release();
  return result;
}
inline void set_field(napi_env env, napi_value object, const char* name, napi_value value) {
  check(napi_set_named_property(env, object, name, value));
}

}  // namespace node
