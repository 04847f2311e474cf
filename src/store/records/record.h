// SPDX-License-Identifier: Apache-2.0
// An execution in the ledger's format: a JSON text of the whole execution except `seq` and the
// output bytes. The output is stored apart, because output is large and is deleted first. The audit
// log carries the text's SHA-256.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/execution.h"

namespace cloister::store {

// A record and the digest of its request.
struct Record {
  model::Execution execution;
  std::string request_sha256;
};

std::string encodeRecord(const Record& record);
// Refuses texts that encodeRecord() cannot have written.
Result<Record> decodeRecord(std::string_view text);

}  // namespace cloister::store
