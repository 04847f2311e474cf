// SPDX-License-Identifier: Apache-2.0
// Reading the members of the ledger's records, strictly.
#pragma once

#include <chrono>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>

#include "base/crypto.h"
#include "base/json.h"
#include "model/describe.h"
#include "model/execution.h"

namespace cloister::store {

namespace json = base::json;

// Reads members; the first missing or mistyped member makes the whole object bad.
class Members {
 public:
  explicit Members(const json::object& object, bool& bad) : object_(object), bad_(bad) {}

  std::string text(std::string_view name) {
    const json::value* value = find(name);
    if (value != nullptr && value->is_string()) return std::string(value->get_string());
    bad_ = true;
    return {};
  }

  std::string bytes(std::string_view name) {
    const json::value* value = find(name);
    if (value == nullptr || !value->is_object()) return text(name);
    auto decoded = base::fromBase64(Members(value->get_object(), bad_).text("base64"));
    if (!decoded) bad_ = true;
    return decoded.value_or("");
  }

  template <std::integral T>
  void integer(std::string_view name, T& out) {
    const json::value* value = find(name);
    json::error_code error;
    if (value == nullptr || !value->is_number()) {
      bad_ = true;
      return;
    }
    out = value->to_number<T>(error);
    if (error) bad_ = true;
  }

  bool boolean(std::string_view name) {
    const json::value* value = find(name);
    if (value != nullptr && value->is_bool()) return value->get_bool();
    bad_ = true;
    return false;
  }

  const json::object& object(std::string_view name) {
    static const json::object kNone;
    const json::value* value = find(name);
    if (value != nullptr && value->is_object()) return value->get_object();
    bad_ = true;
    return kNone;
  }

  const json::array& array(std::string_view name) {
    static const json::array kNone;
    const json::value* value = find(name);
    if (value != nullptr && value->is_array()) return value->get_array();
    bad_ = true;
    return kNone;
  }

  bool isNull(std::string_view name) {
    const json::value* value = find(name);
    return value == nullptr || value->is_null();
  }

  // A member of a described value.
  template <class Member, std::integral T>
  friend void read(Members& from, const Member& member, T& out) {
    const bool lacking = member.kept == model::Kept::kSince && from.isNull(member.name);
    if (!lacking) from.integer(member.name, out);
  }
  template <class Member>
  friend void read(Members& from, const Member& member, std::chrono::milliseconds& out) {
    int64_t count = 0;
    read(from, member, count);
    out = std::chrono::milliseconds(count);
  }
  template <class Member, class T>
  friend void read(Members& from, const Member& member, std::optional<T>& out) {
    out.reset();
    if (!from.isNull(member.name)) read(from, member, out.emplace());
  }

  Members in(std::string_view name) { return Members(object(name), bad_); }
  Members of(const json::object& object) { return Members(object, bad_); }
  void refuse() { bad_ = true; }

 private:
  const json::value* find(std::string_view name) { return object_.if_contains(name); }

  const json::object& object_;
  bool& bad_;
};

// Bytes that may be no text (a file name from a sandbox) are kept unchanged, in base64.
json::value anyBytes(const std::string& bytes);

std::chrono::milliseconds millis(Members& from, std::string_view name);

// The model's description of a value, in the format of model::describedJson().
template <model::Described T>
void decode(Members from, T& value) {
  model::describe(value, [&](const auto& member, auto& each) {
    if (member.kept != model::Kept::kNow) read(from, member, each);
  });
}

}  // namespace cloister::store
