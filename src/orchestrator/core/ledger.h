// SPDX-License-Identifier: Apache-2.0
// The store's writes as coroutines: each resumes on the executor once its transaction is durable,
// or has failed. One thread, except for the store's own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "store/agent_store.h"
#include "store/image_store.h"
#include "store/store.h"

namespace cloister::orchestrator {

class Ledger {
 public:
  template <class T>
  using Task = boost::asio::awaitable<T>;

  explicit Ledger(store::Store& store) : store_(store) {}

  Task<Result<store::Accepted>> accept(store::NewExecution request, model::AuditEvent event);
  Task<Result<>> update(model::Execution execution, model::AuditEvent event);
  Task<Result<store::Created>> createSession(store::NewSession request, model::AuditEvent event);
  Task<Result<>> updateSession(model::Session session, model::AuditEvent event);
  Task<Result<>> append(model::AuditEvent event);
  Task<Result<>> noteUnverified(store::Unverified execution);
  Task<Result<uint64_t>> bindImage(store::VerifiedImage image);
  Task<Result<>> addArtifact(model::Artifact artifact, model::ArtifactQuota quota,
                             model::AuditEvent event);
  Task<Result<std::vector<model::BlobName>>> removeArtifact(store::Scope scope, std::string id,
                                                            model::AuditEvent event);
  Task<Result<uint64_t>> removeArtifacts(std::string tenant, model::AuditEvent event);
  Task<Result<model::Snapshot>> addSnapshot(store::NewSnapshot snapshot, model::SnapshotQuota quota,
                                            model::AuditEvent event);
  Task<Result<std::vector<model::BlobName>>> removeSnapshot(store::Scope scope, std::string id,
                                                            model::AuditEvent event);
  Task<Result<store::AfterViolation>> addViolation(model::Violation violation,
                                                   std::vector<store::Lowering> rules,
                                                   model::Principal by);
  Task<Result<>> noteBlob(model::BlobName blob);
  Task<Result<store::Retained>> retain(store::Retention rules);

 private:
  store::Store& store_;
};

}  // namespace cloister::orchestrator
