// SPDX-License-Identifier: Apache-2.0
// The memory of a session: values of JSON under names, in the ledger beside the session's record.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace cloister::model {

// A session's limits of stored values; docs/CONFIGURATION.md, session.memory.
struct MemoryBounds {
  uint64_t keys = 256;
  uint64_t value_bytes = uint64_t{64} << 10;  // of a value's text
  uint64_t bytes = uint64_t{1} << 20;         // of all values' texts
};

// A value without its text.
struct MemoryItem {
  std::string key;
  uint64_t size = 0;       // bytes of its text
  int64_t created_at = 0;  // wall-clock microseconds, as the next
  int64_t updated_at = 0;
};

base::json::object toJsonObject(const MemoryItem& item);

// A value with its JSON text, byte for byte as given.
struct MemoryValue {
  MemoryItem item;
  std::string json;
};

// 1 to 128 letters, digits, '.', '_' and '-', the first a letter, a digit or '_'. kInvalid names
// `field`.
Result<> checkMemoryKey(std::string_view key, const std::string& field);

// Checks for a single JSON text (RFC 8259) of at most `bounds.value_bytes`: kTooLarge and kInvalid
// name `field` and `key`, without any part of the value.
Result<> checkMemoryValue(std::string_view json, std::string_view key, const std::string& field,
                          const MemoryBounds& bounds);

}  // namespace cloister::model
