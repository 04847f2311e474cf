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

namespace cloister::store {

enum class Durability {
  kProcess,  // survives kill -9 of every process of ours
  kPower,    // fdatasync before any acknowledgement
};

// A start that is recorded together with the acceptance: the record as it is then (kRunning).
struct NewStart {
  model::Execution execution;
  model::AuditEvent event;
};

// An accepted request: the record, what was asked, and what it was asked with.
struct NewExecution {
  model::Execution execution;     // kQueued, kBlocked or kDenied; seq is given by the ledger
  std::string request_json;       // canonical
  std::string spec;               // encoded ExecSpec, to run it after a restart
  std::string idempotency_key;    // "" if none
  std::optional<NewStart> start;  // there was nothing to wait for
  // Made with it: what a kBlocked one waits for, or a kDenied one lacks. The record's error is
  // given its id.
  std::optional<NewEscalation> escalation = {};
  std::optional<EscalationChange> approval = {};  // that it uses up
};

// What accept() came to: the row as stored, or the earlier execution of the same idempotency key.
struct Accepted {
  model::Execution execution;
  bool replayed = false;  // same key, same request: nothing was written
};

// A session asked for: the record, what was asked, and what it was asked with.
struct NewSession {
  model::Session session;       // kCreating or kBlocked; seq is given by the ledger
  std::string request_json;     // canonical; its digest is kept, and all of it while it is blocked
  std::string idempotency_key;  // "" if none
  std::optional<NewEscalation> escalation = {};  // what a kBlocked one waits for; as NewExecution
};

// A blocked session, with what it was asked with.
struct PendingSession {
  model::Session session;
  std::string request_json;
};

// What createSession() came to: as Accepted.
struct Created {
  model::Session session;
  bool replayed = false;
};

// A queued or blocked execution that a restart found.
struct Pending {
  model::Execution execution;
  std::string request_json;
  std::string spec;
};

// An execution with the audit entries of its acceptance and of its present state.
struct Recorded {
  model::Execution execution;  // without output bytes
  model::AuditEntry accepted;
  model::AuditEntry state;
  std::optional<model::Escalation> approval;    // that it has used, or asked for
  std::optional<model::AuditEntry> image = {};  // that bound its image's digest later
};

// A snapshot, and the chunks it uses, each once.
struct NewSnapshot {
  model::Snapshot snapshot;
  std::vector<model::SnapshotChunk> chunks;
};

// What retention does, oldest first; it never touches an execution that has not ended. Artifacts go
// when they expire, or with their execution.
struct Retention {
  int64_t archive_after_us = 0;  // finished this long ago: the output and the request go; 0: never
  int64_t delete_after_us = 0;   // and this long ago: the record too (audit rows stay); 0: never
  uint64_t keep_at_most = 0;     // finished executions; the oldest go first; 0: no bound
  std::vector<model::BlobName> removed = {};  // of the blobs that were given to be removed
};  // ended sessions go by delete_after_us alone

// What one retain() did.
struct Retained {
  uint64_t archived = 0;
  uint64_t deleted = 0;
  uint64_t sessions = 0;               // deleted
  uint64_t artifacts = 0;              // that had expired
  uint64_t escalations = 0;            // deleted
  std::vector<model::BlobName> blobs;  // to remove; given again until they are among `removed`

  [[nodiscard]] bool any() const {
    return archived + deleted + sessions + artifacts + escalations > 0;
  }
};

// A record that the audit log does not bear out.
struct Mismatch {
  uint64_t seq = 0;  // of the execution
  std::string id;
  std::string problem;
};

class AgentStore;
class ImageStore;
class MemoryStore;
class QuotaStore;

class Store {
 public:
  virtual ~Store() = default;
  virtual AgentStore& agents() = 0;   // store/agent_store.h
  virtual ImageStore& images() = 0;   // store/image_store.h
  virtual MemoryStore& memory() = 0;  // store/memory_store.h
  virtual QuotaStore& quotas() = 0;   // store/quota_store.h

  // Writes the record and its audit row: its subject is the execution, and to its details the
  // ledger adds `status` and `record_sha256`, which verification holds the record to. With `start`
  // both states get their audit rows, and the record begins as running. A known
  // idempotency key of this principal with the same request gives the earlier execution (replayed);
  // with another request, kConflict.
  virtual void accept(NewExecution request, model::AuditEvent event, Done<Accepted> done) = 0;
  // Moves a record to `execution.status`, storing all its fields. kConflict if the stored status
  // may not become it (model::mayBecome): the first terminal state stays. Who asked, the request
  // and `created_at` stay as accepted. The audit row is as with accept().
  virtual void update(model::Execution execution, model::AuditEvent event, Done<void> done) = 0;
  // The same for sessions: a session begins kCreating or kBlocked, and one that has ended stays so.
  // A renewal is an update from kRunning to kRunning.
  virtual void createSession(NewSession request, model::AuditEvent event, Done<Created> done) = 0;
  virtual void updateSession(model::Session session, model::AuditEvent event, Done<void> done) = 0;
  // An audit row alone.
  virtual void append(model::AuditEvent event, Done<void> done) = 0;
  // An upload and its audit row. kQuota if its tenant would keep more than `quota`.
  virtual void addArtifact(model::Artifact artifact, model::ArtifactQuota quota,
                           model::AuditEvent event, Done<void> done) = 0;
  // Removes one, with an audit row; gives its blob if no artifact has it any more, for the caller
  // to remove. An execution's record goes on naming its artifacts.
  virtual void removeArtifact(const Scope& scope, std::string id, model::AuditEvent event,
                              Done<std::vector<model::BlobName>> done) = 0;
  // All of a tenant's; gives their number.
  virtual void removeArtifacts(std::string tenant, model::AuditEvent event,
                               Done<uint64_t> done) = 0;
  // A snapshot and its audit row; gives it with what it added. Its manifest is an artifact, though
  // artifact() and artifacts() do not show it; chunks that another snapshot of the tenant uses
  // count once. kQuota beyond `quota`.
  virtual void addSnapshot(NewSnapshot snapshot, model::SnapshotQuota quota,
                           model::AuditEvent event, Done<model::Snapshot> done) = 0;
  // As removeArtifact(): gives the blobs that nothing uses any more.
  virtual void removeSnapshot(const Scope& scope, std::string id, model::AuditEvent event,
                              Done<std::vector<model::BlobName>> done) = 0;
  // Notes a blob that is about to be written: retain() gives it back unless something names it.
  virtual void noteBlob(model::BlobName blob, Done<void> done) = 0;
  virtual void putKey(KeyRecord key, model::AuditEvent event, Done<void> done) = 0;
  // kConflict for the last valid key of an administrator.
  virtual void revokeKey(const Scope& scope, std::string id, model::AuditEvent event,
                         Done<void> done) = 0;
  // Stores `key`, the successor of the valid key `key.replaces`, which ends at `ends_at` unless it
  // ends before; its audit row too.
  virtual void rotateKey(const Scope& scope, KeyRecord key, int64_t ends_at,
                         model::AuditEvent event, Done<void> done) = 0;
  // A version and its audit row, whose subject and details the ledger completes; gives its number.
  // kConflict where another than `expected` is in force.
  virtual void putPolicy(NewPolicy policy, model::AuditEvent event, Done<int64_t> done) = 0;
  // Notes that a key was used. No audit row: what was done with it has one.
  virtual void noteKeyUse(std::string id, int64_t at, Done<void> done) = 0;
  // Applies retention to a few hundred records, with an audit row; call again while it did any.
  virtual void retain(const Retention& rules, Done<Retained> done) = 0;

  // With its kept output; an archived one has none left, and says it is truncated.
  virtual Result<model::Execution> get(const Scope& scope, const std::string& id) = 0;
  // Newest first, without output bytes (totals and flags are there).
  virtual Result<std::vector<model::Execution>> list(const Scope& scope,
                                                     const ListQuery& query) = 0;
  // kConflict where a record is not the one that the audit log tells of: somebody changed it.
  virtual Result<Recorded> recorded(const Scope& scope, const std::string& id) = 0;
  // An artifact within `scope` that has not expired: an upload, one of an execution's `artifacts`,
  // or the whole of an output (KeptOutput::artifact; unless `artifacts` lists it too, it is
  // `stdout` or `stderr` with the digest that provenance has of that stream).
  virtual Result<model::Artifact> artifact(const Scope& scope, const std::string& id) = 0;
  // The same, newest first.
  virtual Result<std::vector<model::Artifact>> artifacts(const Scope& scope,
                                                         const ArtifactQuery& query) = 0;
  // What a tenant keeps, expired artifacts that are not collected yet too.
  virtual Result<model::ArtifactQuota> artifactUsage(const std::string& tenant) = 0;
  // As artifact() and artifacts().
  virtual Result<model::Snapshot> snapshot(const Scope& scope, const std::string& id) = 0;
  virtual Result<std::vector<model::Snapshot>> snapshots(const Scope& scope,
                                                         const ArtifactQuery& query) = 0;
  // How many a tenant keeps.
  virtual Result<uint64_t> snapshotCount(const std::string& tenant) = 0;
  // Whether any artifact or snapshot has this blob.
  virtual Result<bool> isNamed(const model::BlobName& blob) = 0;
  // Every execution without a terminal state, oldest first. For start-up.
  virtual Result<std::vector<Pending>> unfinished() = 0;
  virtual Result<model::Session> session(const Scope& scope, const std::string& id) = 0;
  // What a committed request of the same idempotency key gave; errors as of accept().
  virtual Result<std::optional<model::Execution>> earlier(const NewExecution& request) = 0;
  virtual Result<std::optional<model::Session>> earlier(const NewSession& request) = 0;
  // Newest first.
  virtual Result<std::vector<model::Session>> sessions(const Scope& scope,
                                                       const SessionQuery& query) = 0;
  // Every session that has not ended, oldest first. For start-up.
  virtual Result<std::vector<model::Session>> unfinishedSessions() = 0;
  // kNotFound for none that is blocked; kConflict where the record or the request is not the one
  // that the audit log tells of.
  virtual Result<PendingSession> pendingSession(const Scope& scope, const std::string& id) = 0;
  virtual Result<std::optional<KeyRecord>> keyByHash(const std::string& sha256) = 0;
  virtual Result<std::vector<KeyRecord>> keys(const Scope& scope) = 0;
  virtual Result<KeyRecord> key(const Scope& scope, const std::string& id) = 0;
  // Those that the key `id` was rotated to, directly or through others that have expired by `now`
  // unrevoked; in no order, and at most `limit`.
  virtual Result<std::vector<KeyRecord>> successors(const std::string& id, int64_t now,
                                                    uint32_t limit) = 0;
  // A version with its document, the newest for 0; nullopt: there is none.
  virtual Result<std::optional<PolicyVersion>> policyVersion(int64_t version) = 0;
  // Newest first, without documents.
  virtual Result<std::vector<PolicyVersion>> policyVersions(const PolicyQuery& query) = 0;
  // Requests that are kept, newest first, at most `limit` (1..1000).
  virtual Result<std::vector<RecordedRequest>> requests(const Scope& scope, uint32_t limit) = 0;
  // Entries whose number, as readers of `scope` count them (numberFor()), is > after; oldest first,
  // at most `limit` (1..1000).
  virtual Result<std::vector<model::AuditEntry>> audit(const Scope& scope, uint64_t after,
                                                       uint32_t limit) = 0;
  virtual Result<AuditPage> searchAudit(const Scope& scope, const AuditSearch& search) = 0;
  // Forgets what the entry at `position` has sealed as `member`, which `event` tells of in the log;
  // the entry itself stays as it is. kNotFound: not within the scope, not sealed, or redacted
  // before.
  virtual void redact(Scope scope, uint64_t position, std::string member, model::AuditEvent event,
                      Done<void> done) = 0;
  // The signed head of the audit chain, written by the transaction that made its last entry; none
  // while there is no entry (or no signing key).
  virtual Result<std::optional<Checkpoint>> head() = 0;
  // Records with seq > after that the audit log does not bear out (no row of their acceptance or
  // their present state, or other contents than were recorded), at most `limit`.
  virtual Result<std::vector<Mismatch>> mismatches(uint64_t after, uint32_t limit) = 0;
  // The same of sessions.
  virtual Result<std::vector<Mismatch>> sessionMismatches(uint64_t after, uint32_t limit) = 0;
  // Requests to exceed what one may do; as long as the store.
  virtual Escalations& escalations() = 0;
  // An error, with the reason, when the last write failed (disk full, damage).
  virtual Result<> health() = 0;
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
