// SPDX-License-Identifier: Apache-2.0
// Checkpoint: the end of the audit log at some time, signed. docs/AUDIT.md defines the bytes.
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

// The form of a line in a file.
base::json::object toJsonObject(const Checkpoint& checkpoint);

// All complete lines of `text`, oldest first. For an invalid line, the error has the line's number
// and `name`. Text after the last line end (a crash while writing) is ignored.
Result<std::vector<Checkpoint>> parseCheckpoints(std::string_view text, const std::string& name);

// The error names the defect of the signature of `what`, such as "the signed head".
Result<> verifySignature(const Checkpoint& checkpoint, const base::VerifyKey& key,
                         const std::string& what);

}  // namespace cloister::model
