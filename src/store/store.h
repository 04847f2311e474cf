// SPDX-License-Identifier: Apache-2.0
// The ledger: executions, sessions, kept output, the audit log, keys. One write transaction holds a
// record and its audit row; a status that a client has seen is durable (see Durability).
//
// Writes go through one writer thread that commits many at a time (group commit). `done` runs on a
// thread of the ledger after the commit (and, with Durability::kPower, after fdatasync), or with
// the error when the transaction failed: then nothing of that write happened. When the queue is
// full it runs at once on the caller's thread, with kQuota. It must be quick and must not read the
// store: post elsewhere what is more. A failed fdatasync leaves what it was for in doubt; from then
// on every write is refused until the ledger is opened anew. Reads are synchronous on the calling
// thread, from a small pool of connections; with kPower a read waits for the sync of what it shows.
// Thread-safe; destroy it from one thread when no other uses it: it writes what is queued first.
// Implementations pass store_suite.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
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
class ImageStore;
class MemoryStore;
class QuotaStore;

class Store {
 public:
  explicit Store(std::unique_ptr<Engine> engine);
  Store(Store&&) noexcept;
  ~Store();

  // Does a write: see write.h. When the queue is full `done` is called here and now.
  template <class T>
  void write(Write<T> write, Done<T> done) {
    submit(std::make_unique<QueuedWriteOf<T>>(std::move(write), std::move(done)));
  }
  // For tests; before any write. The gate outlives the ledger.
  void setGate(WriteGate& gate);
  // A write that the gate has kept.
  void pass(std::unique_ptr<QueuedWrite> write);

  AgentStore& agents();   // store/agent_store.h
  ImageStore& images();   // store/image_store.h
  MemoryStore& memory();  // store/memory_store.h
  QuotaStore& quotas();   // store/quota_store.h

  // Writes the record and its audit row: its subject is the execution, and to its details the
  // ledger adds `status` and `record_sha256`, which verification holds the record to. With `start`
  // both states get their audit rows, and the record begins as running. A known
  // idempotency key of this principal with the same request gives the earlier execution (replayed);
  // with another request, kConflict.
  void accept(NewExecution request, model::AuditEvent event, Done<Accepted> done);
  // Moves a record to `execution.status`, storing all its fields. kConflict if the stored status
  // may not become it (model::mayBecome): the first terminal state stays. Who asked, the request
  // and `created_at` stay as accepted. The audit row is as with accept().
  void update(model::Execution execution, model::AuditEvent event, Done<void> done);
  // The same for sessions: a session begins kCreating or kBlocked, and one that has ended stays so.
  // A renewal is an update from kRunning to kRunning.
  void createSession(NewSession request, model::AuditEvent event, Done<Created> done);
  void updateSession(model::Session session, model::AuditEvent event, Done<void> done);
  // An audit row alone.
  void append(model::AuditEvent event, Done<void> done);
  // An upload and its audit row. kQuota if its tenant would keep more than `quota`.
  void addArtifact(model::Artifact artifact, model::ArtifactQuota quota, model::AuditEvent event,
                   Done<void> done);
  // Removes one, with an audit row; gives its blob if no artifact has it any more, for the caller
  // to remove. An execution's record goes on naming its artifacts.
  void removeArtifact(const Scope& scope, std::string id, model::AuditEvent event,
                      Done<std::vector<model::BlobName>> done);
  // All of a tenant's; gives their number.
  void removeArtifacts(std::string tenant, model::AuditEvent event, Done<uint64_t> done);
  // A snapshot and its audit row; gives it with what it added. Its manifest is an artifact, though
  // artifact() and artifacts() do not show it; chunks that another snapshot of the tenant uses
  // count once. kQuota beyond `quota`.
  void addSnapshot(NewSnapshot snapshot, model::SnapshotQuota quota, model::AuditEvent event,
                   Done<model::Snapshot> done);
  // As removeArtifact(): gives the blobs that nothing uses any more.
  void removeSnapshot(const Scope& scope, std::string id, model::AuditEvent event,
                      Done<std::vector<model::BlobName>> done);
  // Notes a blob that is about to be written: retain() gives it back unless something names it.
  void noteBlob(model::BlobName blob, Done<void> done);
  void putKey(KeyRecord key, model::AuditEvent event, Done<void> done);
  // kConflict for the last valid key of an administrator.
  void revokeKey(const Scope& scope, std::string id, model::AuditEvent event, Done<void> done);
  // Stores `key`, the successor of the valid key `key.replaces`, which ends at `ends_at` unless it
  // ends before; its audit row too.
  void rotateKey(const Scope& scope, KeyRecord key, int64_t ends_at, model::AuditEvent event,
                 Done<void> done);
  // A version and its audit row, whose subject and details the ledger completes; gives its number.
  // kConflict where another than `expected` is in force.
  void putPolicy(NewPolicy policy, model::AuditEvent event, Done<int64_t> done);
  // Notes that a key was used. No audit row: what was done with it has one.
  void noteKeyUse(std::string id, int64_t at, Done<void> done);
  // Applies retention to a few hundred records, with an audit row; call again while it did any.
  void retain(const Retention& rules, Done<Retained> done);

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
  // Forgets what the entry at `position` has sealed as `member`, which `event` tells of in the log;
  // the entry itself stays as it is. kNotFound: not within the scope, not sealed, or redacted
  // before.
  void redact(Scope scope, uint64_t position, std::string member, model::AuditEvent event,
              Done<void> done);
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
