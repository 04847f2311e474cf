// SPDX-License-Identifier: Apache-2.0
// The members of a value, each named once. `membersOf()` lies beside the value's struct; wire
// messages, the ledger's records and JSON are made from it:
//
//   describe(usage, [&](const auto& member, auto& value) { … member.name … value … });
//
// The order of members is the order on the wire and in JSON (spec/wire, docs/AUDIT.md). A new
// member comes last, with Kept::kSince.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "base/json.h"

namespace cloister::model {

// The places of a member besides the wire; the wire has every member.
enum class Kept : uint8_t {
  kAlways,  // in records and in JSON
  kSince,   // likewise; records of earlier versions lack the member
  kNow,     // nowhere: the value changes while its program runs
};

template <class T, class V>
struct Member {
  std::string_view name;  // with its unit
  V T::* pointer;
  Kept kept = Kept::kAlways;
};
template <class T, class V>
Member(std::string_view, V T::*) -> Member<T, V>;
template <class T, class V>
Member(std::string_view, V T::*, Kept) -> Member<T, V>;

// A value that has `membersOf(const T*)`, a tuple of Member, in its namespace.
template <class T>
concept Described = requires(const std::remove_const_t<T>* value) { membersOf(value); };

// Calls `visit(member, value.*member.pointer)` for each member, in order.
template <Described T, class Visit>
constexpr void describe(T& value, Visit&& visit) {
  const auto members = membersOf(static_cast<const std::remove_const_t<T>*>(nullptr));
  std::apply([&](const auto&... member) { (visit(member, value.*member.pointer), ...); }, members);
}

// Durations are numbers in the unit of the member's name; what is not known is null.
inline base::json::value memberJson(std::chrono::milliseconds value) {
  return value.count();
}
template <std::integral V>
base::json::value memberJson(V value) {
  return value;
}
template <class V>
base::json::value memberJson(const std::optional<V>& value) {
  return value ? memberJson(*value) : base::json::value(nullptr);
}

// As answers, records and audit rows have it.
template <Described T>
base::json::object describedJson(const T& value) {
  base::json::object object;
  describe(value, [&](const auto& member, const auto& each) {
    if (member.kept != Kept::kNow) object[member.name] = memberJson(each);
  });
  return object;
}

}  // namespace cloister::model
