// SPDX-License-Identifier: Apache-2.0
// What the service finds about itself, as lines of `cloister doctor` beside the lines of the node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/plan.h"
#include "model/pool_stats.h"

namespace cloister::api {

// The facts behind the lines.
struct ServiceFacts {
  int64_t now = 0;  // wall-clock microseconds, as the other times
  bool node_connected = false;
  bool egress_connected = false;
  Result<> ready = {};   // RunService::ready()
  Result<> ledger = {};  // Store::health()
  std::string audit_losses = {};
  uint64_t disk_bytes = 0;  // of the state directory's file system; 0: not known
  uint64_t disk_free = 0;   // for the service's account
  std::optional<int64_t> certificate_expires = {};  // of TLS; nullopt: no TLS
  std::optional<model::PoolStats> pool = {};        // nullopt: no report of a node yet
  std::optional<Result<>> bucket = {};              // of artifacts.s3; nullopt: none is used
};

std::vector<model::Finding> serviceFindings(const ServiceFacts& facts);

}  // namespace cloister::api
