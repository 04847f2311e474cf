// SPDX-License-Identifier: Apache-2.0
// Writes under the names that they had when each was a method.
#include "store/agent_store.h"
#include "store/image_store.h"
#include "store/memory_store.h"
#include "store/quota_store.h"
#include "store/rows/agents.h"
#include "store/rows/artifacts.h"
#include "store/rows/escalation_rows.h"
#include "store/rows/executions.h"
#include "store/rows/image_bindings.h"
#include "store/rows/keys.h"
#include "store/rows/memory.h"
#include "store/rows/policies.h"
#include "store/rows/quotas.h"
#include "store/rows/retention.h"
#include "store/rows/sealed.h"
#include "store/rows/sessions.h"
#include "store/rows/snapshots.h"
#include "store/sql/engine.h"
#include "store/store.h"

namespace cloister::store {

void Store::accept(NewExecution request, model::AuditEvent event, Done<Accepted> done) {
  write<Accepted>(writing(store::acceptExecution, std::move(request), std::move(event)),
                  std::move(done));
}

void Store::update(model::Execution execution, model::AuditEvent event, Done<void> done) {
  write<void>(writing(store::updateExecution, std::move(execution), std::move(event)),
              std::move(done));
}

void Store::createSession(NewSession request, model::AuditEvent event, Done<Created> done) {
  write<Created>(writing(store::createSession, std::move(request), std::move(event)),
                 std::move(done));
}

void Store::updateSession(model::Session session, model::AuditEvent event, Done<void> done) {
  write<void>(writing(store::updateSession, std::move(session), std::move(event)), std::move(done));
}

void Store::append(model::AuditEvent event, Done<void> done) {
  write<void>(writing(store::appendEvent, std::move(event)), std::move(done));
}

void Store::addArtifact(model::Artifact artifact, model::ArtifactQuota quota,
                        model::AuditEvent event, Done<void> done) {
  write<void>(writing(store::addArtifact, std::move(artifact), std::move(quota), std::move(event)),
              std::move(done));
}

void Store::removeArtifact(const Scope& scope, std::string id, model::AuditEvent event,
                           Done<std::vector<model::BlobName>> done) {
  write<std::vector<model::BlobName>>(
      writing(store::removeArtifact, scope, std::move(id), std::move(event)), std::move(done));
}

void Store::removeArtifacts(std::string tenant, model::AuditEvent event, Done<uint64_t> done) {
  write<uint64_t>(writing(store::removeArtifacts, std::move(tenant), std::move(event)),
                  std::move(done));
}

void Store::addSnapshot(NewSnapshot snapshot, model::SnapshotQuota quota, model::AuditEvent event,
                        Done<model::Snapshot> done) {
  write<model::Snapshot>(
      writing(store::addSnapshot, std::move(snapshot), std::move(quota), std::move(event)),
      std::move(done));
}

void Store::removeSnapshot(const Scope& scope, std::string id, model::AuditEvent event,
                           Done<std::vector<model::BlobName>> done) {
  write<std::vector<model::BlobName>>(
      writing(store::removeSnapshot, scope, std::move(id), std::move(event)), std::move(done));
}

void Store::noteBlob(model::BlobName blob, Done<void> done) {
  write<void>(writing(store::noteBlob, std::move(blob)), std::move(done));
}

void Store::putKey(KeyRecord key, model::AuditEvent event, Done<void> done) {
  write<void>(writing(store::putKey, std::move(key), std::move(event)), std::move(done));
}

void Store::revokeKey(const Scope& scope, std::string id, model::AuditEvent event,
                      Done<void> done) {
  write<void>(writing(store::revokeKey, scope, std::move(id), std::move(event)), std::move(done));
}

void Store::rotateKey(const Scope& scope, KeyRecord key, int64_t ends_at, model::AuditEvent event,
                      Done<void> done) {
  write<void>(writing(store::rotateKey, scope, std::move(key), ends_at, std::move(event)),
              std::move(done));
}

void Store::putPolicy(NewPolicy policy, model::AuditEvent event, Done<int64_t> done) {
  write<int64_t>(writing(store::putPolicy, std::move(policy), std::move(event)), std::move(done));
}

void Store::noteKeyUse(std::string id, int64_t at, Done<void> done) {
  write<void>(writing(store::noteKeyUse, std::move(id), at), std::move(done));
}

void Store::retain(const Retention& rules, Done<Retained> done) {
  write<Retained>(writing(store::retain, rules), std::move(done));
}

void Store::redact(Scope scope, uint64_t position, std::string member, model::AuditEvent event,
                   Done<void> done) {
  write<void>(
      writing(store::redact, std::move(scope), position, std::move(member), std::move(event)),
      std::move(done));
}

void AgentStore::put(const Scope& scope, model::AgentSandbox sandbox, uint64_t expected,
                     uint64_t most, model::AuditEvent event, Done<model::AgentSandbox> done) {
  engine_.write<model::AgentSandbox>(
      writing(store::putAgent, scope, std::move(sandbox), expected, most, std::move(event)),
      std::move(done));
}

void AgentStore::remove(const Scope& scope, AgentName name, model::AuditEvent event,
                        Done<void> done) {
  engine_.write<void>(writing(store::removeAgent, scope, std::move(name), std::move(event)),
                      std::move(done));
}

void AgentStore::addViolation(model::Violation violation, std::vector<Lowering> rules,
                              model::Principal by, Done<AfterViolation> done) {
  engine_.write<AfterViolation>(
      writing(store::addViolation, std::move(violation), std::move(rules), std::move(by)),
      std::move(done));
}

void ImageStore::noteUnverified(Unverified execution, Done<void> done) {
  engine_.write<void>(writing(store::noteUnverified, std::move(execution)), std::move(done));
}

void ImageStore::bind(VerifiedImage image, Done<uint64_t> done) {
  engine_.write<uint64_t>(writing(store::bindImage, std::move(image)), std::move(done));
}

void MemoryStore::put(const Scope& scope, NewMemory value, model::MemoryBounds bounds,
                      model::AuditEvent event, Done<model::MemoryItem> done) {
  engine_.write<model::MemoryItem>(
      writing(store::putMemory, scope, std::move(value), std::move(bounds), std::move(event)),
      std::move(done));
}

void MemoryStore::remove(const Scope& scope, std::string session, std::string key,
                         model::AuditEvent event, Done<void> done) {
  engine_.write<void>(
      writing(store::removeMemory, scope, {std::move(session), std::move(key)}, std::move(event)),
      std::move(done));
}

void QuotaStore::put(model::QuotaRecord record, uint64_t most, model::AuditEvent event,
                     Done<void> done) {
  engine_.write<void>(writing(store::putQuota, std::move(record), most, std::move(event)),
                      std::move(done));
}

void Escalations::add(NewEscalation asked, Done<model::Escalation> done) {
  engine_.write<model::Escalation>(writing(store::addEscalation, std::move(asked)),
                                   std::move(done));
}

void Escalations::change(EscalationChange change, Done<model::Escalation> done) {
  engine_.write<model::Escalation>(writing(store::changeEscalation, std::move(change)),
                                   std::move(done));
}

void Escalations::changeWith(EscalationChange change, model::Execution execution,
                             model::AuditEvent event, Done<model::Escalation> done) {
  engine_.write<model::Escalation>(writing(store::changeEscalationWith, std::move(change),
                                           std::move(execution), std::move(event)),
                                   std::move(done));
}

void Escalations::putPolicy(std::string tenant, model::EscalationPolicy policy,
                            model::AuditEvent event, Done<void> done) {
  engine_.write<void>(
      writing(store::putEscalationPolicy, std::move(tenant), std::move(policy), std::move(event)),
      std::move(done));
}

void Escalations::finish(uint64_t seq, std::optional<model::AuditEvent> event, Done<void> done) {
  engine_.write<void>(writing(store::finishNotification, seq, std::move(event)), std::move(done));
}

void Escalations::retry(uint64_t seq, int64_t due_at, Done<void> done) {
  engine_.write<void>(writing(store::retryNotification, seq, due_at), std::move(done));
}

}  // namespace cloister::store
