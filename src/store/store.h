// SPDX-License-Identifier: Apache-2.0
// The ledger: executions, sessions, kept output, the audit log, keys. One write transaction holds a
// record and its audit row; a status that a client has seen is durable (see Durability).
//
// A write is a function beside its rows (write.h); a read is a method here, or of one of the parts.
// Writes go through one writer thread that commits many at a time (group commit). `done` runs on a
// thread of the ledger after the commit (and, with Durability::kPower, after fdatasync), or with
// the error when the transaction failed: then nothing of that write happened. When the queue is
// full `done` runs at once on the caller's thread, with kQuota. It must be quick and must not read
// the store: post elsewhere what is more. A failed fdatasync leaves in doubt what it was for; from
// then on every write is refused until the ledger is opened anew. Reads are synchronous on the
// calling thread, from a small pool of connections; with kPower a read waits for the sync of what
// it shows. Thread-safe; destroy it from one thread when no other uses it: it writes what is queued
// first. store_suite.h holds every engine to this.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "model/artifact.h"
#include "model/audit_entry.h"
#include "model/execution.h"
#include "model/principal.h"
#include "model/session.h"
#include "model/snapshot.h"
#include "store/audit_search.h"
#include "store/escalations.h"
#include "store/policy_version.h"
#include "store/query.h"
#include "store/records/key_record.h"
#include "store/scope.h"
#include "store/values.h"
#include "store/write.h"

namespace cloister::store {

class AgentStore;
class Engine;
class MemoryStore;
class QuotaStore;

class Store {
 public:
  explicit Store(std::unique_ptr<Engine> engine);
  Store(Store&&) noexcept;
  ~Store();

  // store.write(writing(updateExecution, execution, event), done);
  template <class T>
  void write(Write<T> write, std::type_identity_t<Done<T>> done) {
    submit(std::make_unique<QueuedWriteOf<T>>(std::move(write), std::move(done)));
  }
  // For tests; before any write. The gate outlives the ledger.
  void setGate(WriteGate& gate);
  // A write that the gate has kept.
  void pass(std::unique_ptr<QueuedWrite> write);

  AgentStore& agents();   // store/agent_store.h
  MemoryStore& memory();  // store/memory_store.h
  QuotaStore& quotas();   // store/quota_store.h

  // With its kept output; an archived one has none left, and says it is truncated.
  Result<model::Execution> get(const Scope& scope, const std::string& id);
  // Newest first, without output bytes (totals and flags are there).
  Result<std::vector<model::Execution>> list(const Scope& scope, const ListQuery& query);
  // kConflict where a record is not the one that the audit log tells of: somebody changed it.
  Result<Recorded> recorded(const Scope& scope, const std::string& id);
  // An artifact within `scope` that has not expired: an upload, one of an execution's `artifacts`,
  // or the whole of an output (KeptOutput::artifact; unless `artifacts` lists it too, it is
  // `stdout` or `stderr` with the digest that provenance has of that stream).
  Result<model::Artifact> artifact(const Scope& scope, const std::string& id);
  // The same, newest first.
  Result<std::vector<model::Artifact>> artifacts(const Scope& scope, const ArtifactQuery& query);
  // What a tenant keeps, expired artifacts that are not collected yet too.
  Result<model::ArtifactQuota> artifactUsage(const std::string& tenant);
  // As artifact() and artifacts().
  Result<model::Snapshot> snapshot(const Scope& scope, const std::string& id);
  Result<std::vector<model::Snapshot>> snapshots(const Scope& scope, const ArtifactQuery& query);
  // How many a tenant keeps.
  Result<uint64_t> snapshotCount(const std::string& tenant);
  // Whether any artifact or snapshot has this blob.
  Result<bool> isNamed(const model::BlobName& blob);
  // Every execution without a terminal state, oldest first. For start-up.
  Result<std::vector<Pending>> unfinished();
  Result<model::Session> session(const Scope& scope, const std::string& id);
  // What a committed request of the same idempotency key gave; errors as of accept().
  Result<std::optional<model::Execution>> earlier(const NewExecution& request);
  Result<std::optional<model::Session>> earlier(const NewSession& request);
  // Newest first.
  Result<std::vector<model::Session>> sessions(const Scope& scope, const SessionQuery& query);
  // Every session that has not ended, oldest first. For start-up.
  Result<std::vector<model::Session>> unfinishedSessions();
  // kNotFound for none that is blocked; kConflict where the record or the request is not the one
  // that the audit log tells of.
  Result<PendingSession> pendingSession(const Scope& scope, const std::string& id);
  Result<std::optional<KeyRecord>> keyByHash(const std::string& sha256);
  Result<std::vector<KeyRecord>> keys(const Scope& scope);
  Result<KeyRecord> key(const Scope& scope, const std::string& id);
  // Those that the key `id` was rotated to, directly or through others that have expired by `now`
  // unrevoked; in no order, and at most `limit`.
  Result<std::vector<KeyRecord>> successors(const std::string& id, int64_t now, uint32_t limit);
  // A version with its document, the newest for 0; nullopt: there is none.
  Result<std::optional<PolicyVersion>> policyVersion(int64_t version);
  // Newest first, without documents.
  Result<std::vector<PolicyVersion>> policyVersions(const PolicyQuery& query);
  // Requests that are kept, newest first, at most `limit` (1..1000).
  Result<std::vector<RecordedRequest>> requests(const Scope& scope, uint32_t limit);
  // Entries whose number, as readers of `scope` count them (numberFor()), is > after; oldest first,
  // at most `limit` (1..1000).
  Result<std::vector<model::AuditEntry>> audit(const Scope& scope, uint64_t after, uint32_t limit);
  Result<AuditPage> searchAudit(const Scope& scope, const AuditSearch& search);
  // The signed head of the audit chain, written by the transaction that made its last entry; none
  // while there is no entry (or no signing key).
  Result<std::optional<Checkpoint>> head();
  // Records with seq > after that the audit log does not bear out (no row of their acceptance or
  // their present state, or other contents than were recorded), at most `limit`.
  Result<std::vector<Mismatch>> mismatches(uint64_t after, uint32_t limit);
  // The same of sessions.
  Result<std::vector<Mismatch>> sessionMismatches(uint64_t after, uint32_t limit);
  // Requests to exceed what one may do; as long as the store.
  Escalations& escalations();
  // An error, with the reason, when the last write failed (disk full, damage).
  Result<> health();

 private:
  struct Parts;
  void submit(std::unique_ptr<QueuedWrite> write);

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Parts> parts_;
};

// How many successors of a key are looked at; one that was rotated more often does not hold unless
// one of these is good.
inline constexpr uint32_t kMostSuccessors = 100;
// Whether a credential is still good, for what outlasts the request that it came with; kDenied: it
// is revoked, or has expired without a successor that is good. One that is no key, as a token, was
// good at the start.
Result<> stillHolds(Store& store, const std::string& credential);
Result<> stillHolds(Store& store, const model::Principal& principal);  // its own
// Whether it was revoked; of a key that expired after its rotation: its successors. Expiry alone
// takes back nothing that was said before.
Result<bool> isRevoked(Store& store, const std::string& credential);

}  // namespace cloister::store
