// SPDX-License-Identifier: Apache-2.0
// Checkpoint: what the audit log's end was at some time, signed. docs/AUDIT.md defines the bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/json.h"
#include "base/result.h"

namespace cloister::model {

struct Checkpoint {
  uint64_t seq = 0;
  std::string hash;
  int64_t at = 0;
  std::string key_id;
  std::string signature;  // base64, over checkpointText()
};

// "cloister-audit-checkpoint v1\n<seq>\n<hash>\n<at>\n"
std::string checkpointText(const Checkpoint& checkpoint);

// As one of a file's lines has it.
base::json::object toJsonObject(const Checkpoint& checkpoint);

// All complete lines of `text`, oldest first. A line that is no checkpoint is an error with its
// number and `name`; what follows the last line's end (a crash while writing) is left out.
Result<std::vector<Checkpoint>> parseCheckpoints(std::string_view text, const std::string& name);

// An error says what is wrong with the signature of `what`, as "the signed head".
Result<> verifySignature(const Checkpoint& checkpoint, const base::VerifyKey& key,
                         const std::string& what);

}  // namespace cloister::model
