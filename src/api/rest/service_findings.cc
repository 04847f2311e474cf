// SPDX-License-Identifier: Apache-2.0
#include "api/rest/service_findings.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace cloister::api {
namespace {

using model::Finding;
using State = model::Finding::State;

constexpr int64_t kDay = int64_t{86'400} * 1'000'000;
constexpr int64_t kSoon = 14 * kDay;             // a certificate is to be renewed by then
constexpr uint64_t kLittle = uint64_t{1} << 30;  // bytes; see also kTenth
constexpr uint64_t kTenth = 10;
constexpr uint64_t kNothing = uint64_t{16} << 20;  // bytes: the next write may fail

std::string mebibytes(uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

Finding service(std::string name, State state, std::string detail, std::string remedy = "") {
  return {.area = "service",
          .name = std::move(name),
          .state = state,
          .detail = std::move(detail),
          .remedy = state == State::kOk ? "" : std::move(remedy)};
}

Finding nodeFinding(const ServiceFacts& facts) {
  if (facts.node_connected) return service("node", State::kOk, "connected");
  return service("node", State::kMissing, "no node is connected, so nothing can run",
                 "see the log of cloister-node");
}

Finding ledgerFinding(const ServiceFacts& facts) {
  if (!facts.ledger) {
    return service("ledger", State::kMissing, facts.ledger.error().message,
                   "free space in the state directory, or see the log of cloisterd");
  }
  if (facts.node_connected && !facts.ready) {
    return service("ledger", State::kReduced, facts.ready.error().message,
                   "see the log of cloisterd");
  }
  return service("ledger", State::kOk, "accepts writes");
}

Finding bucketFinding(const Result<>& bucket) {
  if (bucket) return service("artifacts.s3", State::kOk, "the bucket answers");
  return service("artifacts.s3", State::kMissing, bucket.error().message,
                 "start the store or correct artifacts.s3; until then no artifact and no snapshot "
                 "can be kept or read");
}

Finding diskFinding(const ServiceFacts& facts) {
  const std::string detail =
      mebibytes(facts.disk_free) + " of " + mebibytes(facts.disk_bytes) + " free for the state";
  constexpr const char* kRemedy =
      "enlarge the disk, or keep less: docs/CONFIGURATION.md, \"Retention\"";
  if (facts.disk_free < kNothing) return service("disk", State::kMissing, detail, kRemedy);
  const bool little = facts.disk_free < kLittle && facts.disk_free < facts.disk_bytes / kTenth;
  return service("disk", little ? State::kReduced : State::kOk, detail, kRemedy);
}

Finding certificateFinding(int64_t expires, int64_t now) {
  constexpr const char* kRemedy = "renew the files of tls; the service reads them anew by itself";
  const std::string at = base::formatTime(expires);
  if (expires <= now) {
    return service("certificate", State::kMissing, "expired at " + at, kRemedy);
  }
  return service("certificate", expires - now < kSoon ? State::kReduced : State::kOk,
                 "valid until " + at, kRemedy);
}

Finding egressFinding(bool connected) {
  if (connected) return service("egress", State::kOk, "cloister-egress is connected");
  return service("egress", State::kMissing,
                 "cloister-egress is not connected, so no sandbox gets a network",
                 "see the log of cloister-egress");
}

Finding poolFinding(const model::PoolStats& pool) {
  uint64_t ready = 0;
  uint64_t wanted = 0;
  for (const model::PoolKind& kind : pool.kinds) {
    ready += std::min(kind.ready, kind.wanted);
    wanted += kind.wanted;
  }
  std::string detail = std::to_string(ready) + " of " + std::to_string(wanted) +
                       " wanted sandboxes are ready; " + std::to_string(pool.dying) +
                       " are being removed";
  if (pool.held == model::PoolStats::Held::kNo) {
    return service("pool", State::kOk, std::move(detail));
  }
  const bool memory = pool.held == model::PoolStats::Held::kMemory;
  return service("pool", State::kReduced,
                 detail + "; none is made ahead, for lack of " + (memory ? "memory" : "processors"),
                 memory ? "give the node more memory, or run less" : "wait, or run less");
}

Finding lossFinding(const std::string& losses) {
  return {.area = "audit",
          .name = "log",
          .state = State::kMissing,
          .detail = losses,
          .remedy = "cloister audit verify; docs/AUDIT.md, \"When the ledger is found changed\""};
}

}  // namespace

std::vector<Finding> serviceFindings(const ServiceFacts& facts) {
  std::vector<Finding> all{nodeFinding(facts), ledgerFinding(facts)};
  if (facts.disk_bytes > 0) all.push_back(diskFinding(facts));
  if (facts.bucket) all.push_back(bucketFinding(*facts.bucket));
  if (facts.certificate_expires) {
    all.push_back(certificateFinding(*facts.certificate_expires, facts.now));
  }
  all.push_back(egressFinding(facts.egress_connected));
  if (facts.pool) all.push_back(poolFinding(*facts.pool));
  if (!facts.audit_losses.empty()) all.push_back(lossFinding(facts.audit_losses));
  return all;
}

}  // namespace cloister::api
