// SPDX-License-Identifier: Apache-2.0
// The ledger's reads. A read answers what is as durable as an acknowledgement; with
// Durability::kPower a read therefore waits for the sync of its results, and an engine beyond a
// network waits for an answer. So the thread of a service never calls these methods itself. The
// thread awaits a function over them:
//
//   co_await store.reading(&store::Reads::get, scope, id);
//   co_await store.reading(&store::AgentStore::stats, scope, name);
//   co_await store.reading([&](store::Reads& ledger) { … });
//
// store.h has the rules. Several reads in one function are one wait, which is cheaper than a wait
// for each. Start-up, programs of a single task and tests call the methods directly.
//
// Thread-safe: each call has a connection of its own for as long as it lasts.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "model/artifact.h"
#include "model/audit_entry.h"
#include "model/dependency.h"
#include "model/execution.h"
#include "model/principal.h"
#include "model/session.h"
#include "model/snapshot.h"
#include "store/audit_search.h"
#include "store/escalations.h"
#include "store/policy_version.h"
#include "store/query.h"
#include "store/records/key_record.h"
#include "store/records/ui_session.h"
#include "store/scope.h"
#include "store/values.h"

namespace cloister::store {

class AgentStore;
class Engine;
class MemoryStore;
class QuotaStore;
class SecretStore;

class Reads {
 public:
  explicit Reads(Engine& engine);
  Reads(Reads&&) noexcept;
  ~Reads();

  AgentStore& agents();    // store/agent_store.h
  MemoryStore& memory();   // store/memory_store.h
  QuotaStore& quotas();    // store/quota_store.h
  SecretStore& secrets();  // store/secret_store.h

  // With its kept output; an archived execution has no output left, and is marked truncated.
  Result<model::Execution> get(const Scope& scope, const std::string& id);
  // Newest first, without output bytes (totals and flags are there).
  Result<std::vector<model::Execution>> list(const Scope& scope, const ListQuery& query);
  // kConflict if a record does not match the audit log: somebody changed the record.
  Result<Recorded> recorded(const Scope& scope, const std::string& id);
  // An unexpired artifact within `scope`: an upload, one of an execution's `artifacts`, or the
  // whole of an output (KeptOutput::artifact). An output missing from `artifacts` has the name
  // `stdout` or `stderr` and the digest of the stream in provenance.
  Result<model::Artifact> artifact(const Scope& scope, const std::string& id);
  // The same, newest first.
  Result<std::vector<model::Artifact>> artifacts(const Scope& scope, const ArtifactQuery& query);
  // Artifacts kept by a tenant, including expired artifacts until their collection.
  Result<model::ArtifactQuota> artifactUsage(const std::string& tenant);
  // As artifact() and artifacts().
  Result<model::Snapshot> snapshot(const Scope& scope, const std::string& id);
  Result<std::vector<model::Snapshot>> snapshots(const Scope& scope, const ArtifactQuery& query);
  // How many a tenant keeps.
  Result<uint64_t> snapshotCount(const std::string& tenant);
  // True if any artifact or snapshot has this blob.
  Result<bool> isNamed(const model::BlobName& blob);
  // Every execution without a terminal state, oldest first. For start-up.
  Result<std::vector<Pending>> unfinished();
  Result<model::Session> session(const Scope& scope, const std::string& id);
  // The id of a session with this name among those that `by` sees: of its own agent if there is
  // one, not ended if there is one, and the newest.
  Result<std::string> sessionNamed(const model::Principal& by, const std::string& name);
  // The result of an earlier committed request with the same idempotency key; errors as of
  // accept().
  Result<std::optional<model::Execution>> earlier(const NewExecution& request);
  Result<std::optional<model::Session>> earlier(const NewSession& request);
  // Newest first.
  Result<std::vector<model::Session>> sessions(const Scope& scope, const SessionQuery& query);
  // All unfinished sessions, oldest first. For start-up.
  Result<std::vector<model::Session>> unfinishedSessions();
  // kNotFound without a blocked session of this id; kConflict if the record or the request does not
  // match the audit log.
  Result<PendingSession> pendingSession(const Scope& scope, const std::string& id);
  Result<std::optional<KeyRecord>> keyByHash(const std::string& sha256);
  Result<std::vector<KeyRecord>> keys(const Scope& scope);
  Result<KeyRecord> key(const Scope& scope, const std::string& id);
  // Keys that the key `id` was rotated to, directly or through keys that have expired by `now`
  // unrevoked; in no order, and at most `limit`.
  Result<std::vector<KeyRecord>> successors(const std::string& id, int64_t now, uint32_t limit);
  // A session of the web interface, by the digest of its cookie or by its id, even an ended one;
  // nullopt: there is none.
  Result<std::optional<UiSession>> uiSessionByHash(const std::string& sha256);
  Result<std::optional<UiSession>> uiSession(const std::string& id);
  // Newest first, ended ones included until their removal.
  Result<std::vector<UiSession>> uiSessions(const Scope& scope, uint32_t limit);
  // A version with its document, the newest for 0; nullopt: there is none.
  Result<std::optional<PolicyVersion>> policyVersion(int64_t version);
  // Newest first, without documents.
  Result<std::vector<PolicyVersion>> policyVersions(const PolicyQuery& query);
  // All dependency layers.
  Result<std::vector<model::DependencyLayer>> layers();
  // The bill of materials with this SHA-256, as JSON; nullopt: there is none.
  Result<std::optional<std::string>> bill(const std::string& sha256);
  // The accepted request of an execution. kNotFound too if the request is not kept any more.
  Result<RecordedRequest> request(const Scope& scope, const std::string& execution);
  // Kept requests, newest first, at most `limit` (1..1000).
  Result<std::vector<RecordedRequest>> requests(const Scope& scope, uint32_t limit);
  // Entries with a number (numberFor() of `scope`) above `after`; oldest first, at most `limit`
  // (1..1000).
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
  // Requests to exceed one's permissions; lives as long as the store.
  Escalations& escalations();

 private:
  struct Parts;

  Engine* engine_;
  std::unique_ptr<Parts> parts_;
};

// The part of the ledger that a read belongs to. Parts without an overload here have theirs beside
// their class.
inline Reads& partOf(Reads& ledger, std::type_identity<Reads> /*which*/) {
  return ledger;
}
inline AgentStore& partOf(Reads& ledger, std::type_identity<AgentStore> /*which*/) {
  return ledger.agents();
}
inline MemoryStore& partOf(Reads& ledger, std::type_identity<MemoryStore> /*which*/) {
  return ledger.memory();
}
inline QuotaStore& partOf(Reads& ledger, std::type_identity<QuotaStore> /*which*/) {
  return ledger.quotas();
}
inline SecretStore& partOf(Reads& ledger, std::type_identity<SecretStore> /*which*/) {
  return ledger.secrets();
}
inline Escalations& partOf(Reads& ledger, std::type_identity<Escalations> /*which*/) {
  return ledger.escalations();
}

// Calls a method of Reads or of a part, or a function whose first parameter is Reads&.
template <class Part, class T, class... Parameters, class... Values>
T callRead(T (Part::*read)(Parameters...), Reads& ledger, const Values&... values) {
  return (partOf(ledger, std::type_identity<Part>{}).*read)(values...);
}
template <class Read, class... Values>
  requires std::invocable<Read&, Reads&, const Values&...> &&
           (!std::is_member_function_pointer_v<Read>)
auto callRead(Read& read, Reads& ledger, const Values&... values) {
  return std::invoke(read, ledger, values...);
}

// Bound on the successors checked per key. Beyond the bound a key holds only if one of the checked
// successors is good.
inline constexpr uint32_t kMostSuccessors = 100;
// Checks that a credential is still good, for work that outlasts its request. kDenied: the
// credential is revoked, or has expired without a good successor. A credential other than a key,
// such as a token, is checked only at the start.
Result<> stillHolds(Reads& ledger, const std::string& credential);
Result<> stillHolds(Reads& ledger, const model::Principal& principal);  // its own
// True for a revoked credential; for a key expired after its rotation, the successors decide.
// Expiry alone does not invalidate earlier requests.
Result<bool> isRevoked(Reads& ledger, const std::string& credential);

}  // namespace cloister::store
