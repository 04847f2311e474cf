// SPDX-License-Identifier: Apache-2.0
// The store's writes as coroutines: each resumes on its executor once its transaction is durable,
// or has failed.
#pragma once

#include <type_traits>
#include <utility>

#include <boost/asio/awaitable.hpp>

#include "async/awaiting.h"
#include "store/rows/agents.h"
#include "store/rows/artifacts.h"
#include "store/rows/executions.h"
#include "store/rows/image_bindings.h"
#include "store/rows/retention.h"
#include "store/rows/sealed.h"
#include "store/rows/sessions.h"
#include "store/rows/snapshots.h"
#include "store/store.h"
#include "store/write.h"

namespace cloister::orchestrator {

class Ledger {
 public:
  template <class T>
  using Task = boost::asio::awaitable<T>;

  explicit Ledger(store::Store& store) : store_(store) {}

  // Does the write `row`, which is declared beside its rows (store/rows), with `values`.
  template <class T, class... Parameters>
  Task<Result<T>> write(Result<T> (*row)(store::Transaction, Parameters...),
                        std::type_identity_t<std::remove_cvref_t<Parameters>>... values) {
    return committed(store::writing(row, std::move(values)...));
  }

  // The same under the names that writes had when each was a method.
  auto accept(store::NewExecution request, model::AuditEvent event) {
    return write(store::acceptExecution, std::move(request), std::move(event));
  }
  auto update(model::Execution execution, model::AuditEvent event) {
    return write(store::updateExecution, std::move(execution), std::move(event));
  }
  auto createSession(store::NewSession request, model::AuditEvent event) {
    return write(store::createSession, std::move(request), std::move(event));
  }
  auto updateSession(model::Session session, model::AuditEvent event) {
    return write(store::updateSession, std::move(session), std::move(event));
  }
  auto append(model::AuditEvent event) { return write(store::appendEvent, std::move(event)); }
  auto noteUnverified(store::Unverified execution) {
    return write(store::noteUnverified, std::move(execution));
  }
  auto bindImage(store::VerifiedImage image) { return write(store::bindImage, std::move(image)); }
  auto addArtifact(model::Artifact artifact, model::ArtifactQuota quota, model::AuditEvent event) {
    return write(store::addArtifact, std::move(artifact), quota, std::move(event));
  }
  auto removeArtifact(store::Scope scope, std::string id, model::AuditEvent event) {
    return write(store::removeArtifact, std::move(scope), std::move(id), std::move(event));
  }
  auto removeArtifacts(std::string tenant, model::AuditEvent event) {
    return write(store::removeArtifacts, std::move(tenant), std::move(event));
  }
  auto addSnapshot(store::NewSnapshot snapshot, model::SnapshotQuota quota,
                   model::AuditEvent event) {
    return write(store::addSnapshot, std::move(snapshot), quota, std::move(event));
  }
  auto removeSnapshot(store::Scope scope, std::string id, model::AuditEvent event) {
    return write(store::removeSnapshot, std::move(scope), std::move(id), std::move(event));
  }
  auto addViolation(model::Violation violation, std::vector<store::Lowering> rules,
                    model::Principal by) {
    return write(store::addViolation, std::move(violation), std::move(rules), std::move(by));
  }
  auto noteBlob(model::BlobName blob) { return write(store::noteBlob, std::move(blob)); }
  auto retain(store::Retention rules) { return write(store::retain, std::move(rules)); }

 private:
  template <class T>
  Task<Result<T>> committed(store::Write<T> write) {
    return async::committed<T>(
        [&store = store_, write = std::move(write)](store::Done<T> done) mutable {
          store.write(std::move(write), std::move(done));
        });
  }

  store::Store& store_;
};

}  // namespace cloister::orchestrator
