// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/sessions/session_events.h"

#include <utility>

#include "orchestrator/runs/events.h"

namespace cloister::orchestrator {
namespace {

namespace error_type = model::error_type;
namespace json = base::json;

SessionEnd end(std::string_view type, std::string message, Cause programs, Code code,
               bool retryable) {
  return {.reason = {std::string(type), std::move(message), {}, retryable},
          .programs = programs,
          .code = code};
}

model::AuditEvent about(std::string_view action, const model::Session& session,
                        json::object details) {
  return {std::string(action), session.id, session.principal, std::move(details)};
}

// Whole numbers only: the ledger keeps no others.
json::object limitOf(const std::string& name, Millis time) {
  const bool whole = time.count() % 1000 == 0;
  return {{"limit", name},
          {"value", whole ? time.count() / 1000 : time.count()},
          {"unit", whole ? "s" : "ms"}};
}

std::string shown(Millis time) {
  const int64_t ms = time.count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

}  // namespace

SessionEnd endOnRequest() {
  return end(error_type::kCancelled, "the session was ended on request", Cause::kSessionEnded,
             Code::kConflict, false);
}

SessionEnd endOfLease(const model::Session& session, Lease::Limit limit) {
  const bool ttl = limit == Lease::Limit::kTtl;
  const Millis time = ttl ? session.ttl : session.idle_ttl;
  const std::string name = ttl ? "ttl" : "idle_ttl";
  SessionEnd made =
      end(error_type::kTimeout,
          (ttl ? "the session lived for its " + shown(time) + " since it was made or renewed"
               : "no program ran in the session for " + shown(time)) +
              "; renew it in time, or ask for a longer " + name + "_seconds",
          Cause::kSessionExpired, Code::kConflict, false);
  made.reason.details = limitOf(name, time);
  return made;
}

SessionEnd endOfSandbox(const model::SandboxEnd& sandbox, const model::Limits& limits) {
  switch (sandbox.kind) {
    case model::SandboxEnd::Kind::kMemory: {
      SessionEnd made = end(error_type::kResourceLimit,
                            "the session's sandbox was ended at its memory limit of " +
                                std::to_string(limits.memory_bytes >> 20) + " MiB; raise memory_mb",
                            Cause::kSessionMemory, Code::kConflict, false);
      made.reason.details = {
          {"limit", model::limit_name::kMemory}, {"value", limits.memory_bytes}, {"unit", "bytes"}};
      return made;
    }
    case model::SandboxEnd::Kind::kFileLocks: {
      SessionEnd made =
          end(error_type::kResourceLimit,
              "the session's sandbox was ended at its file lock limit: " + sandbox.message +
                  "; hold fewer at once, or ask the operator for a larger "
                  "node.file_locks",
              Cause::kSessionLocks, Code::kConflict, false);
      made.reason.details = {{"limit", model::limit_name::kFileLocks}};
      return made;
    }
    case model::SandboxEnd::Kind::kNodeLost:
      return endOfNode(sandbox.message);
    case model::SandboxEnd::Kind::kRunnerLost:
    case model::SandboxEnd::Kind::kTornDown:
      break;
  }
  return end(error_type::kRunnerLost, "the session's sandbox was lost: " + sandbox.message,
             Cause::kSessionLost, Code::kConflict, true);
}

SessionEnd endOfNode(const std::string& message) {
  return end(error_type::kNodeLost, "the node that had the session was lost: " + message,
             Cause::kNodeLost, Code::kUnavailable, true);
}

SessionEnd endOfService() {
  return end(error_type::kServerRestart, "the service was stopped while the session was there",
             Cause::kStopping, Code::kUnavailable, true);
}

SessionEnd endByDenial(const policy::Denied& denied) {
  std::string message = denied.reason;
  if (!denied.remedy.empty()) message += "; " + denied.remedy;
  const auto type =
      denied.for_approval ? error_type::kApprovalRequired : error_type::kPermissionDenied;
  SessionEnd made = end(type, std::move(message), Cause::kSessionLost, Code::kDenied, false);
  if (!denied.rule.empty()) made.reason.details["rule"] = denied.rule;
  return made;
}

SessionEnd endByApproval(model::RunError reason) {
  return {.reason = std::move(reason), .programs = Cause::kSessionLost, .code = Code::kDenied};
}

SessionEnd endByFault(const Error& fault) {
  if (fault.code == Code::kUnavailable) return endOfNode(fault.message);
  const bool retryable = fault.code != Code::kUnsupported && fault.code != Code::kDenied;
  // A sandbox that died during its start is no error of the service: the caller may ask for
  // another.
  const Code answered = fault.code == Code::kInternal ? Code::kUnavailable : fault.code;
  return end(error_type::kStartupFailed, fault.message, Cause::kSessionLost, answered, retryable);
}

SessionEnd endByQuota(const Error& over) {
  SessionEnd made = end(error_type::kQuotaExceeded,
                        over.message + ", and processes that no execution waits for went on in it",
                        Cause::kSessionQuota, Code::kConflict, false);
  made.reason.details["limit"] = kCpuQuota;
  return made;
}

SessionEnd endByRules(const Error& fault) {
  return end(error_type::kPermissionDenied,
             "the rules of its agent have changed, and no sandbox that holds them could be made: " +
                 fault.message,
             Cause::kRevoked, Code::kDenied, false);
}

SessionEnd endByCredential(const model::Session& session) {
  const std::string& credential = session.principal.key_id;
  SessionEnd made = end(error_type::kPermissionDenied, lostCredential("made it", credential),
                        Cause::kSessionCredential, Code::kDenied, false);
  made.reason.details["reason"] = "credential_revoked";
  made.reason.details["credential"] = credential;
  return made;
}

Error endedError(const std::string& doing, const model::RunError& reason) {
  return {Code::kConflict, doing + ": the session has ended: " + reason.message, {}};
}

model::AuditEvent createdEvent(const model::Session& session, const std::string& request_sha256,
                               const std::string& rule) {
  model::AuditEvent event = about("session.created", session,
                                  {{"request_sha256", request_sha256},
                                   {"language", session.language},
                                   {"limits", toJsonObject(session.limits)},
                                   {"ttl_ms", session.ttl.count()},
                                   {"idle_ttl_ms", session.idle_ttl.count()},
                                   {"policy", session.provenance.policy_id},
                                   {"rule", rule}});
  if (session.nested) event.details["nested"] = true;
  if (!session.from_snapshot.empty()) event.details["from_snapshot"] = session.from_snapshot;
  return event;
}

model::AuditEvent resumedEvent(const model::Session& session, const std::string& escalation) {
  return about("session.resumed", session, {{"escalation", escalation}});
}

model::AuditEvent startedEvent(const model::Session& session) {
  const model::Provenance& provenance = session.provenance;
  return about("session.started", session,
               {{"permit", provenance.permit_id},
                {"policy", provenance.policy_id},
                {"node", provenance.node},
                {"image", provenance.image},
                {"image_digest", provenance.image_digest},
                {"weakened", json::array(provenance.weakened.begin(), provenance.weakened.end())}});
}

model::AuditEvent movedEvent(const char* action, const model::Session& session,
                             const std::string& from, const model::Principal& by) {
  model::AuditEvent event = startedEvent(session);
  event.action = action;
  event.principal = by;
  event.details["from"] = from;
  event.details["to"] = session.provenance.runtime;
  event.details["of_tenant"] = session.principal.tenant;
  return event;
}

model::AuditEvent imageVerifiedEvent(const model::Session& session) {
  return about(
      "session.image_verified", session,
      {{"image", session.provenance.image}, {"image_digest", session.provenance.image_digest}});
}

model::AuditEvent renewedEvent(const model::Session& session, const model::Principal& by) {
  model::AuditEvent event = about("session.renewed", session,
                                  {{"ttl_ms", session.ttl.count()},
                                   {"idle_ttl_ms", session.idle_ttl.count()},
                                   {"expires_at", base::formatTime(session.expires_at)},
                                   {"of_tenant", session.principal.tenant}});
  event.principal = by;
  return event;
}

model::AuditEvent amendedEvent(const model::Session& session, const model::Principal& by,
                               const json::array& changed) {
  model::AuditEvent event = about("session.amended", session,
                                  {{"changed", changed}, {"of_tenant", session.principal.tenant}});
  event.details["network_policy"] = model::toJsonObject(session.network);
  event.principal = by;
  return event;
}

model::AuditEvent endedEvent(const model::Session& session, const model::Principal& by) {
  model::AuditEvent event =
      about("session.ended", session, {{"of_tenant", session.principal.tenant}});
  if (session.end) {
    event.details["reason"] = session.end->type;
    const json::value* limit = session.end->details.if_contains("limit");
    if (limit != nullptr) event.details["limit"] = *limit;
  }
  event.principal = by;
  return event;
}

}  // namespace cloister::orchestrator
