// SPDX-License-Identifier: Apache-2.0
// Compares the sources of rights with the log: API keys, sign-ins of the web interface and versions
// of the policy. Their rows are not hashed, unlike records of executions. But an entry of the log
// records each row's creation, and the end of each key and sign-in. For one verification, on its
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/result.h"
#include "store/store.h"

namespace cloister::audit {

class Rights {
 public:
  // Before the log is read: whatever is there by then is in the log.
  static Result<Rights> read(store::Store& store);

  // For each entry of the log, in order.
  void note(const model::AuditEntry& entry);

  // The first right without evidence in the log, or "". Ignores rights made while the log was read.
  Result<std::string> problem(store::Store& store) const;

 private:
  struct Key {
    uint64_t made = 0;     // the entry that records the key; 0: none
    uint64_t revoked = 0;  // the entry of the revocation; 0: none
    std::string roles;     // as canonical JSON; "" if not recorded
  };

  struct SignIn {
    uint64_t made = 0;   // as for a key
    uint64_t ended = 0;  // the entry of signing out, by the person or by an administrator; 0: none
    std::string rights;  // as canonical JSON
  };

  [[nodiscard]] std::string problemOf(const store::KeyRecord& key) const;
  [[nodiscard]] std::string problemOf(const store::UiSession& session) const;

  std::set<std::string> ids_;                                         // of existing keys, sign-ins
  std::map<int64_t, std::string> digests_;                            // of existing versions
  std::map<std::string, Key> keys_;                                   // as recorded in the log
  std::map<std::string, SignIn> sign_ins_;                            // the same
  std::map<int64_t, std::pair<uint64_t, std::string>> applications_;  // version → entry, digest
};

}  // namespace cloister::audit
