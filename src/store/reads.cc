// SPDX-License-Identifier: Apache-2.0
// The ledger's reads: a function beside its rows for each, run on a read-only connection.
#include "store/reads.h"

#include "base/clock.h"
#include "store/agent_store.h"
#include "store/document_store.h"
#include "store/memory_store.h"
#include "store/quota_store.h"
#include "store/rows/agents.h"
#include "store/rows/artifacts.h"
#include "store/rows/documents.h"
#include "store/rows/escalation_rows.h"
#include "store/rows/executions.h"
#include "store/rows/keys.h"
#include "store/rows/layers.h"
#include "store/rows/memory.h"
#include "store/rows/policies.h"
#include "store/rows/proof.h"
#include "store/rows/queries.h"
#include "store/rows/quotas.h"
#include "store/rows/secrets.h"
#include "store/rows/sessions.h"
#include "store/rows/snapshots.h"
#include "store/rows/ui_sessions.h"
#include "store/secret_store.h"
#include "store/sql/engine.h"

namespace cloister::store {

struct Reads::Parts {
  explicit Parts(Engine& engine)
      : agents(engine), memory(engine), quotas(engine), secrets(engine), escalations(engine) {}

  AgentStore agents;
  MemoryStore memory;
  QuotaStore quotas;
  SecretStore secrets;
  Escalations escalations;
};

Reads::Reads(Engine& engine) : engine_(&engine), parts_(std::make_unique<Parts>(engine)) {}
Reads::Reads(Reads&&) noexcept = default;
Reads::~Reads() = default;

AgentStore& Reads::agents() {
  return parts_->agents;
}

MemoryStore& Reads::memory() {
  return parts_->memory;
}

QuotaStore& Reads::quotas() {
  return parts_->quotas;
}

SecretStore& Reads::secrets() {
  return parts_->secrets;
}

Escalations& Reads::escalations() {
  return parts_->escalations;
}

Result<model::Execution> Reads::get(const Scope& scope, const std::string& id) {
  return engine_->read(id, [&](Database& db) { return getExecution(db, scope, id); });
}

Result<std::vector<model::Execution>> Reads::list(const Scope& scope, const ListQuery& query) {
  return engine_->read("", [&](Database& db) { return listExecutions(db, scope, query); });
}

Result<Recorded> Reads::recorded(const Scope& scope, const std::string& id) {
  return engine_->read(id, [&](Database& db) { return recordedExecution(db, scope, id); });
}

Result<model::Artifact> Reads::artifact(const Scope& scope, const std::string& id) {
  return engine_->read(
      "", [&](Database& db) { return getArtifact(db, scope, id, base::wallMicros()); });
}

Result<std::vector<model::Artifact>> Reads::artifacts(const Scope& scope,
                                                      const ArtifactQuery& query) {
  return engine_->read(
      "", [&](Database& db) { return listArtifacts(db, scope, query, base::wallMicros()); });
}

Result<model::Snapshot> Reads::snapshot(const Scope& scope, const std::string& id) {
  return engine_->read(
      "", [&](Database& db) { return getSnapshot(db, scope, id, base::wallMicros()); });
}

Result<std::vector<model::Snapshot>> Reads::snapshots(const Scope& scope,
                                                      const ArtifactQuery& query) {
  return engine_->read(
      "", [&](Database& db) { return listSnapshots(db, scope, query, base::wallMicros()); });
}

Result<uint64_t> Reads::snapshotCount(const std::string& tenant) {
  return engine_->read("", [&](Database& db) { return countSnapshots(db, tenant); });
}

Result<model::ArtifactQuota> Reads::artifactUsage(const std::string& tenant) {
  return engine_->read("", [&](Database& db) { return readArtifactUsage(db, tenant); });
}

Result<bool> Reads::isNamed(const model::BlobName& blob) {
  return engine_->read("", [&](Database& db) { return isBlobNamed(db, blob); });
}

Result<std::vector<Pending>> Reads::unfinished() {
  return engine_->read("", [](Database& db) { return unfinishedExecutions(db); });
}

Result<std::optional<model::Execution>> Reads::earlier(const NewExecution& request) {
  return engine_->read("", [&](Database& db) {
    return earlierExecution(db, request, base::sha256Hex(request.request_json));
  });
}

Result<std::optional<model::Session>> Reads::earlier(const NewSession& request) {
  return engine_->read("", [&](Database& db) {
    return earlierSession(db, request, base::sha256Hex(request.request_json));
  });
}

Result<model::Session> Reads::session(const Scope& scope, const std::string& id) {
  return engine_->read(id, [&](Database& db) { return getSession(db, scope, id); });
}

Result<std::string> Reads::sessionNamed(const model::Principal& by, const std::string& name) {
  return engine_->read("", [&](Database& db) { return store::sessionNamed(db, by, name); });
}

Result<std::vector<model::Session>> Reads::sessions(const Scope& scope, const SessionQuery& query) {
  return engine_->read("", [&](Database& db) { return listSessions(db, scope, query); });
}

Result<PendingSession> Reads::pendingSession(const Scope& scope, const std::string& id) {
  return engine_->read("", [&](Database& db) { return pendingSessionRow(db, scope, id); });
}

Result<std::vector<model::Session>> Reads::unfinishedSessions() {
  return engine_->read("", [](Database& db) { return unfinishedSessionRows(db); });
}

Result<std::optional<KeyRecord>> Reads::keyByHash(const std::string& sha256) {
  return engine_->read("", [&](Database& db) { return findKey(db, sha256); });
}

Result<std::vector<KeyRecord>> Reads::keys(const Scope& scope) {
  return engine_->read("", [&](Database& db) { return listKeys(db, scope); });
}

Result<std::vector<KeyRecord>> Reads::successors(const std::string& id, int64_t now,
                                                 uint32_t limit) {
  return engine_->read("", [&](Database& db) { return successorRows(db, id, now, limit); });
}

Result<KeyRecord> Reads::key(const Scope& scope, const std::string& id) {
  return engine_->read("", [&](Database& db) { return getKey(db, scope, id); });
}

Result<std::optional<UiSession>> Reads::uiSessionByHash(const std::string& sha256) {
  return engine_->read("", [&](Database& db) { return findUiSession(db, sha256); });
}

Result<std::optional<UiSession>> Reads::uiSession(const std::string& id) {
  return engine_->read("", [&](Database& db) { return getUiSession(db, id); });
}

Result<std::vector<UiSession>> Reads::uiSessions(const Scope& scope, uint32_t limit) {
  return engine_->read("", [&](Database& db) { return listUiSessions(db, scope, limit); });
}

Result<std::optional<PolicyVersion>> Reads::policyVersion(int64_t version) {
  return engine_->read("", [&](Database& db) { return getPolicy(db, version); });
}

Result<std::vector<PolicyVersion>> Reads::policyVersions(const PolicyQuery& query) {
  return engine_->read("", [&](Database& db) { return listPolicies(db, query); });
}

Result<RecordedRequest> Reads::request(const Scope& scope, const std::string& execution) {
  return engine_->read(execution, [&](Database& db) { return getRequest(db, scope, execution); });
}

Result<std::vector<RecordedRequest>> Reads::requests(const Scope& scope, uint32_t limit) {
  return engine_->read("", [&](Database& db) { return listRequests(db, scope, limit); });
}

Result<std::vector<model::AuditEntry>> Reads::audit(const Scope& scope, uint64_t after,
                                                    uint32_t limit) {
  return engine_->read("", [&](Database& db) { return readAudit(db, scope, after, limit); });
}

Result<AuditPage> Reads::searchAudit(const Scope& scope, const AuditSearch& search) {
  return engine_->read("", [&](Database& db) { return store::searchAudit(db, scope, search); });
}

Result<std::optional<Checkpoint>> Reads::head() {
  return engine_->read("", [](Database& db) { return readHead(db); });
}

Result<std::vector<Mismatch>> Reads::mismatches(uint64_t after, uint32_t limit) {
  return engine_->read("", [&](Database& db) { return findMismatches(db, after, limit); });
}

Result<std::vector<Mismatch>> Reads::sessionMismatches(uint64_t after, uint32_t limit) {
  return engine_->read("", [&](Database& db) { return findSessionMismatches(db, after, limit); });
}

Result<model::AgentSandbox> AgentStore::sandbox(const Scope& scope, const AgentName& name) {
  return engine_.read("", [&](Database& db) { return getAgent(db, scope, name); });
}

Result<std::vector<model::AgentSandbox>> AgentStore::sandboxes(const Scope& scope,
                                                               const AgentQuery& query) {
  return engine_.read("", [&](Database& db) { return listAgents(db, scope, query); });
}

Result<std::vector<model::Violation>> AgentStore::violations(const Scope& scope,
                                                             const ViolationQuery& query) {
  return engine_.read("", [&](Database& db) { return listViolations(db, scope, query); });
}

Result<std::vector<model::AuditEntry>> AgentStore::audit(const Scope& scope,
                                                         const AgentAuditQuery& query) {
  return engine_.read("", [&](Database& db) { return readAgentAudit(db, scope, query); });
}

Result<AgentStats> AgentStore::stats(const Scope& scope, const AgentName& name) {
  return engine_.read("", [&](Database& db) { return readAgentStats(db, scope, name); });
}

Result<std::vector<model::QuotaRecord>> QuotaStore::all() {
  return engine_.read("", [](Database& db) { return readQuotas(db); });
}

Result<std::vector<CpuUse>> QuotaStore::cpuSince(int64_t since) {
  return engine_.read("", [since](Database& db) { return readCpuSince(db, since); });
}

Result<std::vector<SecretInfo>> SecretStore::list(const std::string& tenant,
                                                  const std::string& after, uint32_t limit) {
  return engine_.read("", [&](Database& db) { return listSecrets(db, tenant, after, limit); });
}

Result<SecretInfo> SecretStore::info(const SecretName& of) {
  return engine_.read("", [&](Database& db) { return getSecretInfo(db, of); });
}

Result<StoredSecret> SecretStore::value(const SecretName& of) {
  return engine_.read("", [&](Database& db) { return getSecret(db, of); });
}

Result<Document> DocumentStore::get(const DocumentReader& reader, const std::string& kind,
                                    const std::string& id) {
  return engine_.read("", [&](Database& db) { return getDocument(db, reader, kind, id); });
}

Result<Document> DocumentStore::named(const DocumentReader& reader, const std::string& kind,
                                      const std::string& name) {
  return engine_.read("", [&](Database& db) { return documentNamed(db, reader, kind, name); });
}

Result<std::vector<Document>> DocumentStore::list(const DocumentReader& reader,
                                                  const DocumentQuery& query) {
  return engine_.read("", [&](Database& db) { return listDocuments(db, reader, query); });
}

Result<model::MemoryValue> MemoryStore::get(const Scope& scope, const std::string& session,
                                            const std::string& key) {
  return engine_.read(session, [&](Database& db) { return getMemory(db, scope, session, key); });
}

Result<std::vector<model::DependencyLayer>> Reads::layers() {
  return engine_->read("", [](Database& db) { return readLayers(db); });
}

Result<std::optional<std::string>> Reads::bill(const std::string& sha256) {
  return engine_->read("", [&](Database& db) { return readBill(db, sha256); });
}

Result<std::vector<model::MemoryItem>> MemoryStore::list(const Scope& scope,
                                                         const MemoryQuery& query) {
  return engine_.read(query.session, [&](Database& db) { return listMemory(db, scope, query); });
}

Result<model::Escalation> Escalations::get(const Scope& scope, const std::string& id) {
  return engine_.read("", [&](Database& db) { return getEscalation(db, scope, id); });
}

Result<std::vector<model::Escalation>> Escalations::list(const Scope& scope,
                                                         const EscalationQuery& query) {
  return engine_.read("", [&](Database& db) { return listEscalations(db, scope, query); });
}

Result<std::optional<model::Escalation>> Escalations::ofExecution(const Scope& scope,
                                                                  const std::string& id) {
  return engine_.read("", [&](Database& db) { return escalationOfExecution(db, scope, id); });
}

Result<std::optional<int64_t>> Escalations::usualWait(const Scope& scope) {
  return engine_.read("", [&](Database& db) { return store::usualWait(db, scope); });
}

Result<model::EscalationPolicy> Escalations::policy(const std::string& tenant,
                                                    const std::string& agent) {
  return engine_.read("", [&](Database& db) { return getEscalationPolicy(db, tenant, agent); });
}

Result<std::map<model::EscalationStatus, uint64_t>> Escalations::count() {
  return engine_.read("", [](Database& db) { return countEscalations(db); });
}

Result<std::vector<model::Escalation>> Escalations::dueEscalations(int64_t now, uint32_t limit) {
  return engine_.read("", [&](Database& db) { return dueEscalationRows(db, now, limit); });
}

Result<std::vector<Notification>> Escalations::dueNotifications(const std::string& channel,
                                                                int64_t now, uint32_t limit) {
  return engine_.read("",
                      [&](Database& db) { return dueNotificationRows(db, channel, now, limit); });
}

Result<std::vector<Mismatch>> Escalations::mismatches(uint64_t after, uint32_t limit) {
  return engine_.read("", [&](Database& db) { return findEscalationMismatches(db, after, limit); });
}

Result<std::string> Escalations::request(const model::Escalation& escalation) {
  return engine_.read("", [&](Database& db) { return getEscalationRequest(db, escalation); });
}

Result<std::string> Escalations::workspace(const model::Escalation& escalation) {
  return engine_.read("", [&](Database& db) { return getEscalationWorkspace(db, escalation); });
}

Result<Pending> Escalations::pending(const Scope& scope, const std::string& execution_id) {
  return engine_.read("", [&](Database& db) { return getPending(db, scope, execution_id); });
}

}  // namespace cloister::store
