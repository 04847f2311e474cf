// SPDX-License-Identifier: Apache-2.0
// The ledger's types for the policy document (see store.h): its versions, and the requests for
// trying a new version.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/principal.h"

namespace cloister::store {

// A version of the policy document.
struct PolicyVersion {
  int64_t version = 0;  // from 1, given by the ledger
  std::string name;
  std::string sha256;           // of `document`, hex
  std::string origin;           // "start": the file from the service's start; "api"
  model::Principal applied_by;  // without roles
  int64_t applied_at = 0;
  std::string note;
  int64_t restores = 0;  // the restored earlier version; 0: none
  std::string document;  // byte for byte; not in lists
};

struct NewPolicy {
  PolicyVersion policy;             // without `version`
  std::optional<int64_t> expected;  // required version in force; 0: none
  uint32_t keep = 1000;             // versions; the oldest go, but never the newest
};

struct PolicyQuery {
  uint32_t limit = 50;  // 1..500
  int64_t before = 0;   // versions before this number; 0: from the newest
};

// An execution's request, while the request is kept.
struct RecordedRequest {
  std::string execution;
  std::string session_id;
  model::Principal principal;  // without roles
  std::string request_json;
};

}  // namespace cloister::store
