// SPDX-License-Identifier: Apache-2.0
// A session as the ledger stores it: one JSON text that holds all of it but `seq`. The audit log
// carries the text's SHA-256.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/session.h"

namespace cloister::store {

// A record, the digest of the request that made it, and while it is blocked that request.
struct SessionRecord {
  model::Session session;
  std::string request_sha256;
  std::string request;
};

std::string encodeSession(const SessionRecord& record);
// Refuses what encodeSession() could not have written.
Result<SessionRecord> decodeSession(std::string_view text);

}  // namespace cloister::store
