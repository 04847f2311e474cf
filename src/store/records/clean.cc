// SPDX-License-Identifier: Apache-2.0
#include "store/records/clean.h"

namespace cloister::store {
namespace {

namespace json = base::json;

constexpr int kDepth = 24;  // parseJson() reads 32, and cleaned values lie inside a record

// The length of the well-formed character at the front, 0 if there is none.
size_t characterLength(std::string_view bytes) {
  for (size_t length = 1; length <= 4 && length <= bytes.size(); ++length) {
    if (base::isUtf8(bytes.substr(0, length))) return length;
  }
  return 0;
}

json::value cleanValue(const json::value& value, int depth) {
  if (value.is_string()) return json::string(cleanText(value.get_string()));
  if (value.is_double()) return json::string(std::to_string(value.get_double()));
  if (!value.is_structured()) return value;
  if (depth == 0) return json::string("…");
  if (value.is_array()) {
    json::array out;
    for (const json::value& item : value.get_array())
      out.push_back(cleanValue(item, depth - 1));
    return out;
  }
  json::object out;
  for (const auto& [name, member] : value.get_object()) {
    out[cleanText(name)] = cleanValue(member, depth - 1);
  }
  return out;
}

}  // namespace

std::string cleanText(std::string_view bytes) {
  if (base::isUtf8(bytes)) return std::string(bytes);
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = characterLength(bytes.substr(at));
    out += length == 0 ? "\xef\xbf\xbd" : bytes.substr(at, length);
    at += length == 0 ? 1 : length;
  }
  return out;
}

json::object cleanObject(const json::object& object) {
  return cleanValue(object, kDepth).get_object();
}

}  // namespace cloister::store
