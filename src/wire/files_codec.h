// SPDX-License-Identifier: Apache-2.0
// The client's side of wire/files.h: requests made, answers read. An answer comes from inside a
// sandbox: hostile input is the normal case. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "wire/files.h"

namespace cloister::wire::files {

struct Entry {
  Kind kind = Kind::kFile;
  uint32_t mode = 0;
  uint64_t size = 0;
  int64_t modified_at = 0;  // wall-clock microseconds
  std::string path;         // valid UTF-8 or not, and hostile
};

struct EndOfEntries {
  uint32_t left_out = 0;
};

struct Change {
  ChangeKind kind = ChangeKind::kReady;
  bool directory = false;
  std::string path;  // as Entry's, as the next
  std::string from;
};

// The properties of a name, as sent by `state` and `hold`.
struct State {
  uint32_t mode = 0;  // st_mode, with the type
  uint64_t size = 0;
  std::string path;  // as Entry's
  std::string sum;   // the SHA-256 of a file, or the target of a link, or nothing
  // Modification time of a regular file, which programs can set freely.
  int64_t modified_s = 0;
  uint32_t modified_ns = 0;
  // Identifies a regular file with several names, equal for all of them; otherwise 0.
  uint64_t device = 0;
  uint64_t inode = 0;
};

using Part = std::variant<Entry, EndOfEntries, Change, State>;

// Takes the next part off the front of `bytes`; nullopt until complete. kInvalid for bytes that no
// file server sends.
Result<std::optional<Part>> takePart(std::string_view& bytes);
std::string encode(const Part& part);

// A call of `tools`.
struct ToolCall {
  uint32_t caller = 0;  // below kMostToolCallers
  std::string line;
};
// As takePart().
Result<std::optional<ToolCall>> takeToolCall(std::string_view& bytes);
// The header before an answer of `size` bytes.
std::string toolAnswerHead(uint32_t caller, size_t size);

// The error for a failed file server's stderr: kNotFound, kConflict, kTooLarge or kInvalid, with
// `field` "path".
Error failure(std::string_view said);

}  // namespace cloister::wire::files
