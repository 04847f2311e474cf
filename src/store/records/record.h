// SPDX-License-Identifier: Apache-2.0
// An execution as the ledger stores it: one JSON text that holds all of it but `seq` and the output
// bytes (kept apart: they are large, and go first). The audit log carries the text's SHA-256.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/execution.h"

namespace cloister::store {

// A record and the digest of the request it answers.
struct Record {
  model::Execution execution;
  std::string request_sha256;
};

std::string encodeRecord(const Record& record);
// Refuses what encodeRecord() could not have written.
Result<Record> decodeRecord(std::string_view text);

}  // namespace cloister::store
