// SPDX-License-Identifier: Apache-2.0
#include "model/session_memory.h"

#include <algorithm>

#include "base/clock.h"

namespace cloister::model {
namespace {

constexpr size_t kMaxKey = 128;

bool isWord(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

}  // namespace

base::json::object toJsonObject(const MemoryItem& item) {
  return {{"key", item.key},
          {"size", item.size},
          {"created_at", base::formatTime(item.created_at)},
          {"updated_at", base::formatTime(item.updated_at)}};
}

Result<> checkMemoryKey(std::string_view key, const std::string& field) {
  const bool good =
      !key.empty() && key.size() <= kMaxKey && isWord(key.front()) &&
      std::ranges::all_of(key, [](char c) { return isWord(c) || c == '.' || c == '-'; });
  if (good) return {};
  return fail(Code::kInvalid,
              field + ": must be 1 to " + std::to_string(kMaxKey) +
                  " letters, digits, \".\", \"_\" and \"-\", and begin with a letter, a digit or "
                  "\"_\"",
              field);
}

Result<> checkMemoryValue(std::string_view json, std::string_view key, const std::string& field,
                          const MemoryBounds& bounds) {
  if (json.size() > bounds.value_bytes) {
    return fail(Code::kTooLarge,
                "memory key " + std::string(key) + ": the value has " +
                    std::to_string(json.size()) + " bytes, and may have " +
                    std::to_string(bounds.value_bytes) +
                    " (session.memory.max_value_bytes); keep larger data in a file or an artifact",
                field);
  }
  const auto parsed = base::parseJson(json);
  if (parsed) return {};
  return fail(parsed.error().code,
              "memory key " + std::string(key) +
                  ": the value must be JSON (a text is written in "
                  "double quotes): " +
                  parsed.error().message,
              field);
}

}  // namespace cloister::model
