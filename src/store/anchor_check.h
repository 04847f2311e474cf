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
  std::string problem;  // the log contradicts the anchor; "" if not
  std::string note;     // the anchor is incomplete, with the reason; "" if not
  std::string before;   // earlier losses; "" for none
};

// `end` is the log's last entry. An unreadable anchor is renamed to `path`.unreadable, which is a
// problem.
Result<AnchorFinding> compareWithAnchor(Database& db, const Chain::Head& end,
                                        const std::string& path, const base::VerifyKey& key);

// The problem: `newest`, the last line of the checkpoint file, is not on the chain; "" if it is.
Result<std::string> compareWithCheckpoint(Database& db, const Checkpoint& newest);

struct PublishedFinding {
  std::string problem;  // names the first entry that the log lacks, or has with another hash
  uint64_t entry = 0;   // the published entry that shows the problem
  bool recorded = false;
};

// Compares each published head with a valid signature. An unreadable file shows nothing: it may be
// on another machine, and the publisher reports it.
Result<PublishedFinding> compareWithPublished(Database& db, const Chain::Head& end,
                                              const std::string& path, const base::VerifyKey& key);

// Reports `problem` and the findings in the service's log and in the audit log.
Result<> recordFinding(Engine& ledger, std::string problem, const AnchorFinding& anchor,
                       const PublishedFinding& published);

}  // namespace cloister::store
