// SPDX-License-Identifier: Apache-2.0
#include "store/records/session_record.h"

#include "store/records/archive.h"
#include "store/records/shared.h"

namespace cloister::store {

// `network_tier` is the whole policy in the records of earlier versions, and in the records of
// sessions that named the tier alone.
template <class A, Of<model::NetworkRequest> T>
void describeNetwork(A& a, T& v) {
  a.text("network_tier", v.tier);
  json::object policy;
  if constexpr (!A::kReads) policy = model::toJsonObject(v);
  const bool more = !v.allow.empty() || v.on_denied != model::OnDenied::kDeny;
  a.when(more).object("network_policy", policy);
  if constexpr (A::kReads) {
    if (policy.empty()) return;
    auto read = model::readNetworkRequest(policy, "network_policy");
    if (!read || read->tier != v.tier) return a.refuse();
    v = *std::move(read);
  }
}

template <class A, Of<SessionRecord> T>
void describe(A& a, T& v) {
  auto& s = v.session;
  a.text("id", s.id);
  a.choice(
      "status", s.status, [](model::SessionStatus each) { return model::statusName(each); },
      model::sessionStatusFromName);
  a.in("principal", s.principal);
  a.text("request_sha256", v.request_sha256);
  a.text("language", s.language);
  a.map("env", s.env);
  a.text("cwd", s.cwd);
  a.object("metadata", s.metadata);
  describeNetwork(a, s.network);
  a.in("limits", s.limits);
  a.time("ttl_ms", s.ttl);
  a.time("idle_ttl_ms", s.idle_ttl);
  a.in("provenance", s.provenance);
  a.maybe("end", s.end);
  a.number("created_at", s.created_at);
  a.number("last_used_at", s.last_used_at);
  a.number("expires_at", s.expires_at);
  a.number("ended_at", s.ended_at);
  a.when(!s.name.empty()).text("name", s.name);
  a.when(s.nested).flag("nested", s.nested);
  a.when(s.usage != model::Usage{}).in("usage", s.usage);
  a.when(!s.from_snapshot.empty()).text("from_snapshot", s.from_snapshot);
  a.when(!s.capabilities.empty()).texts("capabilities", s.capabilities);
  a.when(!s.deps.empty()).texts("deps", s.deps);
  a.when(s.error.has_value()).maybe("error", s.error);
  a.when(!v.request.empty()).text("request", v.request);
}

std::string encodeSession(const SessionRecord& record) {
  return recordText(record);
}

Result<SessionRecord> decodeSession(std::string_view text) {
  return recordValue<SessionRecord>(text, size_t{1} << 30, "a session's record");
}

}  // namespace cloister::store
