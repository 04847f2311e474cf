// SPDX-License-Identifier: Apache-2.0
// A ledger whose disk can be full, or slow, for tests.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/image_store.h"
#include "store/memory_store.h"
#include "store/store.h"

namespace cloister::orchestrator {

// The real ledger, with a disk that can be full.
class BrittleStore final : public store::Store,
                           private store::ImageStore,
                           private store::MemoryStore {
 public:
  explicit BrittleStore(std::unique_ptr<store::Store> real) : real_(std::move(real)) {}

  bool full = false;
  int refused = 0;    // writes, while full
  bool slow = false;  // writes wait for letGo()

  [[nodiscard]] size_t waiting() const { return held_.size(); }
  void letGo() {
    slow = false;
    for (const auto& write : std::exchange(held_, {}))
      write();
  }

  void accept(store::NewExecution request, model::AuditEvent event,
              store::Done<store::Accepted> done) override {
    if (refuse(done)) return;
    orLater([=, this] { real_->accept(request, event, done); });
  }
  void update(model::Execution execution, model::AuditEvent event,
              store::Done<void> done) override {
    if (refuse(done)) return;
    real_->update(std::move(execution), std::move(event), std::move(done));
  }
  void createSession(store::NewSession request, model::AuditEvent event,
                     store::Done<store::Created> done) override {
    if (refuse(done)) return;
    orLater([=, this] { real_->createSession(request, event, done); });
  }
  void updateSession(model::Session session, model::AuditEvent event,
                     store::Done<void> done) override {
    if (refuse(done)) return;
    orLater([=, this] { real_->updateSession(session, event, done); });
  }
  store::AgentStore& agents() override { return real_->agents(); }
  store::ImageStore& images() override { return *this; }
  store::MemoryStore& memory() override { return *this; }
  store::QuotaStore& quotas() override { return real_->quotas(); }
  void noteUnverified(store::Unverified execution, store::Done<void> done) override {
    if (refuse(done)) return;
    real_->images().noteUnverified(std::move(execution), std::move(done));
  }
  void bind(store::VerifiedImage image, store::Done<uint64_t> done) override {
    if (refuse(done)) return;
    real_->images().bind(std::move(image), std::move(done));
  }
  void put(const store::Scope& scope, store::NewMemory value, model::MemoryBounds bounds,
           model::AuditEvent event, store::Done<model::MemoryItem> done) override {
    if (refuse(done)) return;
    real_->memory().put(scope, std::move(value), bounds, std::move(event), std::move(done));
  }
  void remove(const store::Scope& scope, std::string session, std::string key,
              model::AuditEvent event, store::Done<void> done) override {
    if (refuse(done)) return;
    real_->memory().remove(scope, std::move(session), std::move(key), std::move(event),
                           std::move(done));
  }
  Result<model::MemoryValue> get(const store::Scope& scope, const std::string& session,
                                 const std::string& key) override {
    return real_->memory().get(scope, session, key);
  }
  Result<std::vector<model::MemoryItem>> list(const store::Scope& scope,
                                              const store::MemoryQuery& query) override {
    return real_->memory().list(scope, query);
  }
  void append(model::AuditEvent event, store::Done<void> done) override {
    if (refuse(done)) return;
    real_->append(std::move(event), std::move(done));
  }
  void putKey(store::KeyRecord key, model::AuditEvent event, store::Done<void> done) override {
    real_->putKey(std::move(key), std::move(event), std::move(done));
  }
  void revokeKey(const store::Scope& scope, std::string id, model::AuditEvent event,
                 store::Done<void> done) override {
    real_->revokeKey(scope, std::move(id), std::move(event), std::move(done));
  }
  void rotateKey(const store::Scope& scope, store::KeyRecord key, int64_t ends_at,
                 model::AuditEvent event, store::Done<void> done) override {
    real_->rotateKey(scope, std::move(key), ends_at, std::move(event), std::move(done));
  }
  void putPolicy(store::NewPolicy policy, model::AuditEvent event,
                 store::Done<int64_t> done) override {
    if (refuse(done)) return;
    real_->putPolicy(std::move(policy), std::move(event), std::move(done));
  }
  void noteKeyUse(std::string id, int64_t at, store::Done<void> done) override {
    real_->noteKeyUse(std::move(id), at, std::move(done));
  }
  void retain(const store::Retention& rules, store::Done<store::Retained> done) override {
    real_->retain(rules, std::move(done));
  }
  Result<model::Execution> get(const store::Scope& scope, const std::string& id) override {
    return real_->get(scope, id);
  }
  Result<store::Recorded> recorded(const store::Scope& scope, const std::string& id) override {
    return real_->recorded(scope, id);
  }
  Result<std::vector<model::Execution>> list(const store::Scope& scope,
                                             const store::ListQuery& query) override {
    return real_->list(scope, query);
  }
  void addArtifact(model::Artifact artifact, model::ArtifactQuota quota, model::AuditEvent event,
                   store::Done<void> done) override {
    if (refuse(done)) return;
    real_->addArtifact(std::move(artifact), quota, std::move(event), std::move(done));
  }
  void removeArtifact(const store::Scope& scope, std::string id, model::AuditEvent event,
                      store::Done<std::vector<model::BlobName>> done) override {
    real_->removeArtifact(scope, std::move(id), std::move(event), std::move(done));
  }
  void removeArtifacts(std::string tenant, model::AuditEvent event,
                       store::Done<uint64_t> done) override {
    real_->removeArtifacts(std::move(tenant), std::move(event), std::move(done));
  }
  void addSnapshot(store::NewSnapshot snapshot, model::SnapshotQuota quota, model::AuditEvent event,
                   store::Done<model::Snapshot> done) override {
    if (refuse(done)) return;
    real_->addSnapshot(std::move(snapshot), quota, std::move(event), std::move(done));
  }
  void removeSnapshot(const store::Scope& scope, std::string id, model::AuditEvent event,
                      store::Done<std::vector<model::BlobName>> done) override {
    real_->removeSnapshot(scope, std::move(id), std::move(event), std::move(done));
  }
  void noteBlob(model::BlobName blob, store::Done<void> done) override {
    if (refuse(done)) return;
    real_->noteBlob(std::move(blob), std::move(done));
  }
  Result<model::Snapshot> snapshot(const store::Scope& scope, const std::string& id) override {
    return real_->snapshot(scope, id);
  }
  Result<std::vector<model::Snapshot>> snapshots(const store::Scope& scope,
                                                 const store::ArtifactQuery& query) override {
    return real_->snapshots(scope, query);
  }
  Result<uint64_t> snapshotCount(const std::string& tenant) override {
    return real_->snapshotCount(tenant);
  }
  Result<std::optional<store::PolicyVersion>> policyVersion(int64_t version) override {
    return real_->policyVersion(version);
  }
  Result<std::vector<store::PolicyVersion>> policyVersions(
      const store::PolicyQuery& query) override {
    return real_->policyVersions(query);
  }
  Result<std::vector<store::RecordedRequest>> requests(const store::Scope& scope,
                                                       uint32_t limit) override {
    return real_->requests(scope, limit);
  }
  Result<model::Artifact> artifact(const store::Scope& scope, const std::string& id) override {
    return real_->artifact(scope, id);
  }
  Result<std::vector<model::Artifact>> artifacts(const store::Scope& scope,
                                                 const store::ArtifactQuery& query) override {
    return real_->artifacts(scope, query);
  }
  Result<model::ArtifactQuota> artifactUsage(const std::string& tenant) override {
    return real_->artifactUsage(tenant);
  }
  Result<bool> isNamed(const model::BlobName& blob) override { return real_->isNamed(blob); }
  Result<std::vector<store::Pending>> unfinished() override { return real_->unfinished(); }
  Result<std::optional<model::Execution>> earlier(const store::NewExecution& request) override {
    return real_->earlier(request);
  }
  Result<std::optional<model::Session>> earlier(const store::NewSession& request) override {
    return real_->earlier(request);
  }
  Result<model::Session> session(const store::Scope& scope, const std::string& id) override {
    return real_->session(scope, id);
  }
  Result<std::vector<model::Session>> sessions(const store::Scope& scope,
                                               const store::SessionQuery& query) override {
    return real_->sessions(scope, query);
  }
  Result<store::PendingSession> pendingSession(const store::Scope& scope,
                                               const std::string& id) override {
    return real_->pendingSession(scope, id);
  }
  Result<std::vector<model::Session>> unfinishedSessions() override {
    return real_->unfinishedSessions();
  }
  Result<std::vector<store::Mismatch>> sessionMismatches(uint64_t after, uint32_t limit) override {
    return real_->sessionMismatches(after, limit);
  }
  Result<std::optional<store::KeyRecord>> keyByHash(const std::string& sha256) override {
    return real_->keyByHash(sha256);
  }
  Result<std::vector<store::KeyRecord>> keys(const store::Scope& scope) override {
    return real_->keys(scope);
  }
  Result<std::vector<store::KeyRecord>> successors(const std::string& id, int64_t now,
                                                   uint32_t limit) override {
    return real_->successors(id, now, limit);
  }
  Result<store::KeyRecord> key(const store::Scope& scope, const std::string& id) override {
    return real_->key(scope, id);
  }
  Result<std::vector<model::AuditEntry>> audit(const store::Scope& scope, uint64_t after,
                                               uint32_t limit) override {
    return real_->audit(scope, after, limit);
  }
  Result<store::AuditPage> searchAudit(const store::Scope& scope,
                                       const store::AuditSearch& search) override {
    return real_->searchAudit(scope, search);
  }
  void redact(store::Scope scope, uint64_t position, std::string member, model::AuditEvent event,
              store::Done<void> done) override {
    real_->redact(std::move(scope), position, std::move(member), std::move(event), std::move(done));
  }
  Result<std::optional<store::Checkpoint>> head() override { return real_->head(); }
  Result<std::vector<store::Mismatch>> mismatches(uint64_t after, uint32_t limit) override {
    return real_->mismatches(after, limit);
  }
  store::Escalations& escalations() override { return real_->escalations(); }
  Result<> health() override {
    if (full) return fail(Code::kNoSpace, "the disk is full");
    return real_->health();
  }

 private:
  template <class T>
  bool refuse(const store::Done<T>& done) {
    if (!full) return false;
    refused++;
    done(fail(Code::kNoSpace, "writing the ledger: No space left on device"));
    return true;
  }

  void orLater(std::function<void()> write) {
    if (!slow) return write();
    held_.push_back(std::move(write));
  }

  std::unique_ptr<store::Store> real_;
  std::vector<std::function<void()>> held_;
};

}  // namespace cloister::orchestrator
