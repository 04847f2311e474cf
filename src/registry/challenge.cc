// SPDX-License-Identifier: Apache-2.0
#include "registry/challenge.h"

#include <algorithm>
#include <optional>

#include "base/json.h"

namespace cloister::registry {
namespace {

namespace json = base::json;

constexpr size_t kMostHeader = 8192;
constexpr size_t kMostChallenges = 8;
constexpr size_t kMostToken = size_t{32} << 10;  // less than a request's head may have
constexpr base::JsonLimits kLimits{
    .max_bytes = size_t{256} << 10, .max_depth = 8, .max_values = 1000};

std::unexpected<Error> malformed() {
  return fail(Code::kInvalid, "the registry's WWW-Authenticate is malformed");
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  });
  return out;
}

class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  [[nodiscard]] bool atEnd() const { return text_.empty(); }
  [[nodiscard]] bool at(char c) const { return text_.starts_with(c); }
  bool take(char c) {
    if (!at(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void skipSpace() {
    while (at(' ') || at('\t'))
      text_.remove_prefix(1);
  }
  void skipCommas() {
    for (skipSpace(); take(',');)
      skipSpace();
  }
  std::string_view word() {
    const size_t end = std::min(text_.find_first_of(" \t,=\""), text_.size());
    const std::string_view out = text_.substr(0, end);
    text_.remove_prefix(end);
    return out;
  }
  std::optional<std::string> value() {
    if (!take('"')) return std::string(word());
    std::string out;
    while (!text_.empty()) {
      char c = text_.front();
      text_.remove_prefix(1);
      if (c == '"') return out;
      if (c == '\\') {
        if (text_.empty()) break;
        c = text_.front();
        text_.remove_prefix(1);
      }
      out += c;
    }
    return std::nullopt;
  }

 private:
  std::string_view text_;
};

}  // namespace

Result<std::vector<Challenge>> parseChallenges(std::string_view header) {
  if (header.size() > kMostHeader) return malformed();
  std::vector<Challenge> out;
  Cursor cursor(header);
  for (cursor.skipCommas(); !cursor.atEnd(); cursor.skipCommas()) {
    const std::string name = lower(cursor.word());
    if (name.empty()) return malformed();
    cursor.skipSpace();
    if (!cursor.take('=')) {  // a scheme
      if (out.size() == kMostChallenges) return malformed();
      out.push_back({.scheme = name, .realm = {}, .service = {}, .scope = {}});
      continue;
    }
    cursor.skipSpace();
    const auto value = cursor.value();
    if (!value || out.empty()) return malformed();
    Challenge& last = out.back();
    if (name == "realm") last.realm = *value;
    if (name == "service") last.service = *value;
    if (name == "scope") last.scope = *value;
  }
  return out;
}

Result<std::string> tokenIn(std::string_view answer) {
  const json::value value = TRY(base::parseJson(answer, kLimits));
  const json::object* object = value.if_object();
  for (const std::string_view name : {"token", "access_token"}) {
    const json::value* found = object == nullptr ? nullptr : object->if_contains(name);
    if (found == nullptr || !found->is_string()) continue;
    std::string token(found->get_string());
    const auto odd = [](char c) { return c <= ' ' || c >= 0x7f; };
    if (token.empty() || token.size() > kMostToken || std::ranges::any_of(token, odd)) break;
    return token;
  }
  return fail(Code::kUnavailable, "the token service's answer has no token");
}

}  // namespace cloister::registry
