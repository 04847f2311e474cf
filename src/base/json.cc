// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/nearest.h"

namespace cloister::base {
namespace {

// Boost.JSON silently keeps the last of two equal keys; we refuse such a request instead. A pass
// over the text compares strings as written (the member count below detects an escaped spelling of
// an equal key).
size_t memberCount(const json::value& value) {
  size_t n = 0;
  if (const json::object* object = value.if_object()) {
    n += object->size();
    for (const auto& member : *object)
      n += memberCount(member.value());
  } else if (const json::array* array = value.if_array()) {
    for (const json::value& item : *array)
      n += memberCount(item);
  }
  return n;
}

// The number of members in a valid text: each has exactly a single colon outside strings.
size_t writtenMembers(std::string_view text) {
  size_t n = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == ':') {
      ++n;
    }
  }
  return n;
}

// At least as many as there are values: each but the first follows a comma or a bracket.
size_t mostValues(std::string_view text) {
  size_t n = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == ',' || c == '[' || c == '{') {
      ++n;
    }
  }
  return n;
}

bool finiteNumbers(const json::value& value) {
  if (const double* number = value.if_double()) return std::isfinite(*number);
  if (const json::object* object = value.if_object()) {
    return std::ranges::all_of(*object, [](const auto& m) { return finiteNumbers(m.value()); });
  }
  if (const json::array* array = value.if_array()) {
    return std::ranges::all_of(*array, [](const auto& item) { return finiteNumbers(item); });
  }
  return true;
}

}  // namespace

Result<json::value> parseJson(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return fail(Code::kTooLarge,
                "parsing JSON: larger than " + std::to_string(limits.max_bytes) + " bytes");
  }
  if (mostValues(text) > limits.max_values) {
    return fail(Code::kTooLarge,
                "parsing JSON: more than " + std::to_string(limits.max_values) + " values");
  }
  json::parse_options options;
  options.max_depth = limits.max_depth;
  json::stream_parser parser(json::storage_ptr(), options);
  boost::system::error_code error;
  const size_t consumed = parser.write(text.data(), text.size(), error);
  if (!error) parser.finish(error);
  if (error) {
    return fail(Code::kInvalid,
                "parsing JSON: " + error.message() + " at byte " + std::to_string(consumed));
  }
  json::value value = parser.release();
  if (memberCount(value) != writtenMembers(text)) {
    return fail(Code::kInvalid, "parsing JSON: an object has the same member twice");
  }
  if (!finiteNumbers(value)) return fail(Code::kInvalid, "parsing JSON: a number is out of range");
  return value;
}

std::string toJson(const json::value& value) {
  return json::serialize(value);
}

bool isUtf8(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const auto at = [&](size_t k) { return static_cast<uint8_t>(bytes[i + k]); };
    const uint8_t first = at(0);
    const size_t n = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (n == 0 || first > 0xf4 || i + n > bytes.size()) return false;
    for (size_t k = 1; k < n; ++k) {
      if ((at(k) & 0xc0) != 0x80) return false;
    }
    if ((first == 0xe0 && at(1) < 0xa0) || (first == 0xed && at(1) > 0x9f) ||
        (first == 0xf0 && at(1) < 0x90) || (first == 0xf4 && at(1) > 0x8f)) {
      return false;
    }
    i += n;
  }
  return true;
}

std::string_view withoutCutCharacter(std::string_view bytes) {
  for (size_t n = 1; n <= 3 && n <= bytes.size(); ++n) {
    const auto byte = static_cast<uint8_t>(bytes[bytes.size() - n]);
    if ((byte & 0xc0) == 0x80) continue;  // a continuation: look further back for its start
    if (byte < 0xc2 || byte > 0xf4) return bytes;  // no character starts so
    const size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return length > n ? bytes.substr(0, bytes.size() - n) : bytes;
  }
  return bytes;
}

ObjectReader::ObjectReader(const json::object& object, std::string path)
    : object_(object), path_(std::move(path)) {}

std::string ObjectReader::pathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

const json::value* ObjectReader::any(std::string_view name) {
  seen_.push_back(name);
  const json::value* value = object_.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

namespace {

std::unexpected<Error> wrongType(const std::string& path, std::string_view wanted) {
  return fail(Code::kInvalid, path + ": must be " + std::string(wanted), path);
}

template <class T>
std::unexpected<Error> outOfRange(const std::string& path, T min, T max) {
  return fail(Code::kInvalid,
              path + ": must be from " + std::to_string(min) + " to " + std::to_string(max), path);
}

}  // namespace

Result<std::optional<std::string>> ObjectReader::text(std::string_view name) {
  const json::value* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return wrongType(pathOf(name), "a string");
  return std::string(value->get_string());
}

Result<std::optional<bool>> ObjectReader::boolean(std::string_view name) {
  const json::value* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) return wrongType(pathOf(name), "true or false");
  return value->get_bool();
}

Result<std::optional<int64_t>> ObjectReader::integer(std::string_view name, int64_t min,
                                                     int64_t max) {
  const std::optional<double> value =
      TRY(number(name, static_cast<double>(min), static_cast<double>(max)));
  if (!value) return std::nullopt;
  if (*value != std::floor(*value)) return wrongType(pathOf(name), "a whole number");
  return static_cast<int64_t>(*value);
}

Result<std::optional<double>> ObjectReader::number(std::string_view name, double min, double max) {
  const json::value* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return wrongType(pathOf(name), "a number");
  boost::system::error_code error;
  const auto number = value->to_number<double>(error);
  if (error || !(number >= min && number <= max)) return outOfRange(pathOf(name), min, max);
  return number;
}

Result<const json::array*> ObjectReader::array(std::string_view name) {
  const json::value* value = any(name);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) return wrongType(pathOf(name), "an array");
  return &value->get_array();
}

Result<const json::object*> ObjectReader::object(std::string_view name) {
  const json::value* value = any(name);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) return wrongType(pathOf(name), "an object");
  return &value->get_object();
}

Result<> ObjectReader::finish() const {
  for (const auto& member : object_) {
    if (std::ranges::find(seen_, std::string_view(member.key())) == seen_.end()) {
      const std::string path = pathOf(std::string_view(member.key()));
      const std::string meant =
          meantName(std::string_view(member.key()), {seen_.begin(), seen_.end()});
      return fail(
          Code::kInvalid,
          path + ": unknown field" + (meant.empty() ? "" : "; did you mean " + pathOf(meant) + "?"),
          path);
    }
  }
  return {};
}

}  // namespace cloister::base
