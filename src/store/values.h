// SPDX-License-Identifier: Apache-2.0
// What the ledger takes and gives (store.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "model/artifact.h"
#include "model/audit_entry.h"
#include "model/execution.h"
#include "model/session.h"
#include "model/snapshot.h"
#include "store/escalations.h"
#include "store/policy_version.h"
#include "store/write.h"

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
  std::string request_sha256 = {};                // of `request_json`; the ledger fills it in
};

inline void tell(About& about, NewExecution& request) {
  about.subject = request.execution.id;
  about.bytes = request.request_json.size() + request.spec.size() +
                (request.escalation ? request.escalation->workspace_json.size() : 0);
  request.request_sha256 = base::sha256Hex(request.request_json);
}
inline void tell(About& about, model::Execution& execution) {
  about.subject = execution.id;
  about.bytes = execution.out.bytes.size() + execution.err.bytes.size() + execution.results_bytes;
}

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
  std::string request_sha256 = {};               // of `request_json`; the ledger fills it in
};

inline void tell(About& about, NewSession& request) {
  about.subject = request.session.id;
  about.bytes = request.request_json.size();
  request.request_sha256 = base::sha256Hex(request.request_json);
}
inline void tell(About& about, model::Session& session) {
  about.subject = session.id;
}

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

inline void tell(About& about, NewSnapshot& made) {
  about.subject = made.snapshot.id;
  about.bytes = made.chunks.size() * sizeof(model::SnapshotChunk);
}

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

inline void tell(About& about, NewPolicy& policy) {
  about.bytes = policy.policy.document.size();
}

}  // namespace cloister::store
