// SPDX-License-Identifier: Apache-2.0
// JSON (RFC 8259) in and out, over Boost.JSON: bounded, strict, without exceptions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "base/result.h"

namespace cloister::base {

namespace json = boost::json;

struct JsonLimits {
  size_t max_bytes = size_t{16} << 20;
  size_t max_depth = 32;
  size_t max_values = 200'000;  // each takes some 30 bytes once parsed, far more than as text
};

// Refuses: text over the limits, trailing bytes, duplicate keys, invalid UTF-8, lone surrogates,
// numbers that are not finite. The error says where (byte offset).
Result<json::value> parseJson(std::string_view text, const JsonLimits& limits = {});

std::string toJson(const json::value& value);

// True if `bytes` is well-formed UTF-8 (RFC 3629).
bool isUtf8(std::string_view bytes);

// `bytes` without an incomplete UTF-8 character at its end.
std::string_view withoutCutCharacter(std::string_view bytes);

// Reads the members of an object, each at most once; `finish` then refuses unread members: a typed,
// strict view of a request. Each error carries the member's path in `field`. Not copyable; the
// object must outlive the reader.
class ObjectReader {
 public:
  ObjectReader(const json::object& object, std::string path);

  Result<std::optional<std::string>> text(std::string_view name);
  Result<std::optional<bool>> boolean(std::string_view name);
  // An integer, or a number with an integral value, in [min, max].
  Result<std::optional<int64_t>> integer(std::string_view name, int64_t min, int64_t max);
  Result<std::optional<double>> number(std::string_view name, double min, double max);
  Result<const json::array*> array(std::string_view name);    // nullptr when absent or null
  Result<const json::object*> object(std::string_view name);  // nullptr when absent or null
  const json::value* any(std::string_view name);              // nullptr when absent or null
  // "unknown field" for the first unread member, with the likely intended one.
  [[nodiscard]] Result<> finish() const;

  [[nodiscard]] std::string pathOf(std::string_view name) const;

 private:
  const json::object& object_;
  std::string path_;
  std::vector<std::string_view> seen_;
};

}  // namespace cloister::base
