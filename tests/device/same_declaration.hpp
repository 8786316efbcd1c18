// SPDX-License-Identifier: Apache-2.0
// For checks of what we declare in a scope of ours against a header of NVIDIA's, which has it in none.
#pragma once

#include <cstddef>
#include <type_traits>

#define SAME_NUMBER(scope, name) \
  static_assert(static_cast<long long>(scope::name) == static_cast<long long>(::name));
#define SAME_SIZE(scope, name) \
  static_assert(sizeof(scope::name) == sizeof(::name) && alignof(scope::name) == alignof(::name));
#define SAME_MEMBER(scope, name, member)                                     \
  static_assert(offsetof(scope::name, member) == offsetof(::name, member) && \
                sizeof(scope::name::member) == sizeof(::name::member));

// Arguments: an enum is passed as the integer under it, and a pointer as any other.
template <typename Type>
struct Passed {
  using type = Type;
};
template <typename Type>
requires std::is_pointer_v<Type>
struct Passed<Type> {
  using type = void*;
};
template <typename Type>
requires std::is_enum_v<Type>
struct Passed<Type> {
  using type = std::make_unsigned_t<std::underlying_type_t<Type>>;
};
template <>
struct Passed<int> {
  using type = unsigned;
};
template <typename Function>
struct Arguments;
template <typename Result, typename... Each>
struct Arguments<Result(Each...)> {
  using type = void(typename Passed<Each>::type...);
};

/// To be used in the scope of ours.
#define SAME_FUNCTION(name, arguments) \
  static_assert(std::is_same_v<Arguments<int arguments>::type, Arguments<decltype(::name)>::type>, #name);
