// SPDX-License-Identifier: Apache-2.0
// A session in the ledger's format: a JSON text of the whole session except `seq`. The audit log
// carries the text's SHA-256.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/session.h"

namespace cloister::store {

// A record, the digest of its request, and the request itself while the session is blocked.
struct SessionRecord {
  model::Session session;
  std::string request_sha256;
  std::string request;
};

std::string encodeSession(const SessionRecord& record);
// Refuses texts that encodeSession() cannot have written.
Result<SessionRecord> decodeSession(std::string_view text);

}  // namespace cloister::store
