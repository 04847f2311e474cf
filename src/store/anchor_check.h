// SPDX-License-Identifier: Apache-2.0
// The ledger, its anchor and its checkpoint file, compared when the ledger is opened.
#pragma once

#include <string>

#include "base/crypto.h"
#include "base/result.h"
#include "store/sql/chain.h"
#include "store/sql/db.h"

namespace cloister::store {

class Engine;

struct AnchorFinding {
  std::string problem;  // the log is not what the anchor speaks of; "" if it is
  std::string note;     // the anchor says less than it might, and why; "" if it does not
  std::string before;   // what was lost earlier; "" for nothing
};

// `end` is the log's last entry. A file that cannot be read as an anchor is put aside, as
// `path`.unreadable, which is a problem.
Result<AnchorFinding> compareWithAnchor(Database& db, const Chain::Head& end,
                                        const std::string& path, const base::VerifyKey& key);

// The problem: `newest`, the last line of the checkpoint file, is not on the chain; "" if it is.
Result<std::string> compareWithCheckpoint(Database& db, const Checkpoint& newest);

// Tells of `problem`, and of what the anchor says, in the service's log and in the audit log.
Result<> recordFinding(Engine& ledger, const std::string& problem, const AnchorFinding& anchor);

}  // namespace cloister::store
