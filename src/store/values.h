// SPDX-License-Identifier: Apache-2.0
// The ledger's arguments and results (store.h).
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

// A start recorded together with the acceptance, with the record in kRunning.
struct NewStart {
  model::Execution execution;
  model::AuditEvent event;
};

// An accepted request: the record, the request, and the spec for the node.
struct NewExecution {
  model::Execution execution;     // kQueued, kBlocked or kDenied; seq is given by the ledger
  std::string request_json;       // canonical
  std::string spec;               // encoded ExecSpec, for a run after a restart
  std::string idempotency_key;    // "" if none
  std::optional<NewStart> start;  // there was nothing to wait for
  // Made with the execution: the escalation that a kBlocked execution waits for, or that a kDenied
  // execution lacks. The record's error is given the escalation's id.
  std::optional<NewEscalation> escalation = {};
  std::optional<EscalationChange> approval = {};  // used up by the request
  std::string request_sha256 = {};                // of `request_json`; set by the ledger
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

// Result of accept(): the stored row, or the earlier execution of the same idempotency key.
struct Accepted {
  model::Execution execution;
  bool replayed = false;  // same key, same request: nothing was written
};

// A requested session: the record and the request.
struct NewSession {
  model::Session session;       // kCreating or kBlocked; seq is given by the ledger
  std::string request_json;     // canonical; only the digest is kept once unblocked
  std::string idempotency_key;  // "" if none
  std::optional<NewEscalation> escalation = {};  // for a kBlocked session; as NewExecution
  std::string request_sha256 = {};               // of `request_json`; set by the ledger
};

inline void tell(About& about, NewSession& request) {
  about.subject = request.session.id;
  about.bytes = request.request_json.size();
  request.request_sha256 = base::sha256Hex(request.request_json);
}
inline void tell(About& about, model::Session& session) {
  about.subject = session.id;
}

// A blocked session with its request.
struct PendingSession {
  model::Session session;
  std::string request_json;
};

// Result of createSession(): as Accepted.
struct Created {
  model::Session session;
  bool replayed = false;
};

// A queued or blocked execution after a restart.
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
  std::optional<model::Escalation> approval;    // used or requested by the execution
  std::optional<model::AuditEntry> image = {};  // entry with a later binding of the image's digest
};

// A snapshot with its distinct chunks.
struct NewSnapshot {
  model::Snapshot snapshot;
  std::vector<model::SnapshotChunk> chunks;
};

inline void tell(About& about, NewSnapshot& made) {
  about.subject = made.snapshot.id;
  about.bytes = made.chunks.size() * sizeof(model::SnapshotChunk);
}

// Rules of retention, applied oldest first; unfinished executions are never touched. Artifacts are
// deleted at their expiry, or with their execution.
struct Retention {
  int64_t archive_after_us = 0;  // from the end to deleting output and request; 0: never
  int64_t delete_after_us = 0;   // from the end to deleting the record, not audit rows; 0: never
  uint64_t keep_at_most = 0;     // finished executions; the oldest go first; 0: no bound
  std::vector<model::BlobName> removed = {};  // returned blobs removed meanwhile
};  // ended sessions go by delete_after_us alone

// Result of a retain().
struct Retained {
  uint64_t archived = 0;
  uint64_t deleted = 0;
  uint64_t sessions = 0;               // deleted
  uint64_t artifacts = 0;              // expired
  uint64_t escalations = 0;            // deleted
  std::vector<model::BlobName> blobs;  // to remove; returned again until listed in `removed`

  [[nodiscard]] bool any() const {
    return archived + deleted + sessions + artifacts + escalations > 0;
  }
};

// A record that does not match the audit log.
struct Mismatch {
  uint64_t seq = 0;  // of the execution
  std::string id;
  std::string problem;
};

inline void tell(About& about, NewPolicy& policy) {
  about.bytes = policy.policy.document.size();
}

}  // namespace cloister::store
