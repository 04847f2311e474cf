// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/ledger.h"

#include <utility>

#include "async/awaiting.h"

namespace cloister::orchestrator {

Ledger::Task<Result<store::Accepted>> Ledger::accept(store::NewExecution request,
                                                     model::AuditEvent event) {
  return async::committed<store::Accepted>(
      [this, request = std::move(request),
       event = std::move(event)](store::Done<store::Accepted> done) mutable {
        store_.accept(std::move(request), std::move(event), std::move(done));
      });
}

Ledger::Task<Result<>> Ledger::update(model::Execution execution, model::AuditEvent event) {
  return async::committed<void>([this, execution = std::move(execution),
                                 event = std::move(event)](store::Done<void> done) mutable {
    store_.update(std::move(execution), std::move(event), std::move(done));
  });
}

Ledger::Task<Result<store::Created>> Ledger::createSession(store::NewSession request,
                                                           model::AuditEvent event) {
  return async::committed<store::Created>(
      [this, request = std::move(request),
       event = std::move(event)](store::Done<store::Created> done) mutable {
        store_.createSession(std::move(request), std::move(event), std::move(done));
      });
}

Ledger::Task<Result<>> Ledger::updateSession(model::Session session, model::AuditEvent event) {
  return async::committed<void>([this, session = std::move(session),
                                 event = std::move(event)](store::Done<void> done) mutable {
    store_.updateSession(std::move(session), std::move(event), std::move(done));
  });
}

Ledger::Task<Result<>> Ledger::append(model::AuditEvent event) {
  return async::committed<void>([this, event = std::move(event)](store::Done<void> done) mutable {
    store_.append(std::move(event), std::move(done));
  });
}

Ledger::Task<Result<>> Ledger::addArtifact(model::Artifact artifact, model::ArtifactQuota quota,
                                           model::AuditEvent event) {
  return async::committed<void>([this, artifact = std::move(artifact), quota,
                                 event = std::move(event)](store::Done<void> done) mutable {
    store_.addArtifact(std::move(artifact), quota, std::move(event), std::move(done));
  });
}

Ledger::Task<Result<std::vector<model::BlobName>>> Ledger::removeArtifact(store::Scope scope,
                                                                          std::string id,
                                                                          model::AuditEvent event) {
  using Blobs = std::vector<model::BlobName>;
  return async::committed<Blobs>([this, scope = std::move(scope), id = std::move(id),
                                  event = std::move(event)](store::Done<Blobs> done) mutable {
    store_.removeArtifact(scope, std::move(id), std::move(event), std::move(done));
  });
}

Ledger::Task<Result<uint64_t>> Ledger::removeArtifacts(std::string tenant,
                                                       model::AuditEvent event) {
  return async::committed<uint64_t>([this, tenant = std::move(tenant),
                                     event = std::move(event)](store::Done<uint64_t> done) mutable {
    store_.removeArtifacts(std::move(tenant), std::move(event), std::move(done));
  });
}

Ledger::Task<Result<model::Snapshot>> Ledger::addSnapshot(store::NewSnapshot snapshot,
                                                          model::SnapshotQuota quota,
                                                          model::AuditEvent event) {
  return async::committed<model::Snapshot>(
      [this, snapshot = std::move(snapshot), quota,
       event = std::move(event)](store::Done<model::Snapshot> done) mutable {
        store_.addSnapshot(std::move(snapshot), quota, std::move(event), std::move(done));
      });
}

Ledger::Task<Result<std::vector<model::BlobName>>> Ledger::removeSnapshot(store::Scope scope,
                                                                          std::string id,
                                                                          model::AuditEvent event) {
  using Blobs = std::vector<model::BlobName>;
  return async::committed<Blobs>([this, scope = std::move(scope), id = std::move(id),
                                  event = std::move(event)](store::Done<Blobs> done) mutable {
    store_.removeSnapshot(scope, std::move(id), std::move(event), std::move(done));
  });
}

Ledger::Task<Result<store::AfterViolation>> Ledger::addViolation(model::Violation violation,
                                                                 std::vector<store::Lowering> rules,
                                                                 model::Principal by) {
  using After = store::AfterViolation;
  return async::committed<After>([this, violation = std::move(violation), rules = std::move(rules),
                                  by = std::move(by)](store::Done<After> done) mutable {
    store_.agents().addViolation(std::move(violation), std::move(rules), std::move(by),
                                 std::move(done));
  });
}

Ledger::Task<Result<>> Ledger::noteUnverified(store::Unverified execution) {
  return async::committed<void>(
      [this, execution = std::move(execution)](store::Done<void> done) mutable {
        store_.images().noteUnverified(std::move(execution), std::move(done));
      });
}

Ledger::Task<Result<uint64_t>> Ledger::bindImage(store::VerifiedImage image) {
  return async::committed<uint64_t>(
      [this, image = std::move(image)](store::Done<uint64_t> done) mutable {
        store_.images().bind(std::move(image), std::move(done));
      });
}

Ledger::Task<Result<>> Ledger::noteBlob(model::BlobName blob) {
  return async::committed<void>([this, blob = std::move(blob)](store::Done<void> done) mutable {
    store_.noteBlob(std::move(blob), std::move(done));
  });
}

Ledger::Task<Result<store::Retained>> Ledger::retain(store::Retention rules) {
  return async::committed<store::Retained>(
      [this, rules](store::Done<store::Retained> done) { store_.retain(rules, std::move(done)); });
}

}  // namespace cloister::orchestrator
