// SPDX-License-Identifier: Apache-2.0
#include "audit/rights.h"

#include "store/rows/ui_sessions.h"

namespace cloister::audit {
namespace {

constexpr uint32_t kMost = UINT32_MAX;

std::string told(const model::AuditEntry& entry, std::string_view name) {
  const base::json::value* value = entry.event.details.if_contains(name);
  return value == nullptr ? std::string() : model::canonicalJson(*value);
}

std::string entryName(uint64_t seq) {
  return "audit entry " + std::to_string(seq);
}

}  // namespace

Result<Rights> Rights::read(store::Store& store) {
  constexpr uint32_t kPage = 500;
  Rights rights;
  for (const store::KeyRecord& key : TRY(store.keys(store::Scope::allTenants())))
    rights.ids_.insert(key.id);
  for (const store::UiSession& session : TRY(store.uiSessions(store::Scope::allTenants(), kMost)))
    rights.ids_.insert(session.id);
  store::PolicyQuery query{.limit = kPage, .before = 0};
  for (size_t read = kPage; read == kPage;) {
    const auto page = TRY(store.policyVersions(query));
    read = page.size();
    if (read > 0) query.before = page.back().version;
    for (const store::PolicyVersion& version : page)
      rights.digests_[version.version] = model::canonicalJson(base::json::string(version.sha256));
  }
  return rights;
}

void Rights::note(const model::AuditEntry& entry) {
  const std::string& action = entry.event.action;
  const base::json::value* version = entry.event.details.if_contains("version");
  if (action == "key.created" || action == "key.rotated") {
    keys_[entry.event.subject] = {
        .made = entry.position, .revoked = 0, .roles = told(entry, "roles")};
  } else if (action == "key.revoked") {
    keys_[entry.event.subject].revoked = entry.position;
  } else if (action == "ui.signed_in") {
    SignIn& sign_in = sign_ins_[entry.event.subject];
    sign_in.made = entry.position;
    sign_in.rights = told(entry, store::kSessionRights);
  } else if (action == "ui.signed_out" || action == "ui.sign_in_ended") {
    sign_ins_[entry.event.subject].ended = entry.position;
  } else if (action.starts_with("policy.") && version != nullptr && version->is_int64()) {
    applications_[version->get_int64()] = {entry.position, told(entry, "sha256")};
  }
}

std::string Rights::problemOf(const store::KeyRecord& key) const {
  const auto found = keys_.find(key.id);
  if (found == keys_.end() || found->second.made == 0) {
    return "no audit entry tells that it was made";
  }
  const Key& log = found->second;
  if (log.revoked != 0 && key.revoked_at == 0) {
    return "it is good, though " + entryName(log.revoked) + " revoked it";
  }
  const auto names = model::names(key.principal.roles);
  const base::json::array roles(names.begin(), names.end());
  if (log.roles.empty() || log.roles == model::canonicalJson(roles)) return "";
  return "its roles are not those of " + entryName(log.made);
}

std::string Rights::problemOf(const store::UiSession& session) const {
  const auto found = sign_ins_.find(session.id);
  if (found == sign_ins_.end() || found->second.made == 0) {
    return "no audit entry tells that it was begun";
  }
  const SignIn& log = found->second;
  if (log.ended != 0) return "it is open, though " + entryName(log.ended) + " ended it";
  if (log.rights == model::canonicalJson(store::rightsOf(session))) return "";
  return "its rights are not those of " + entryName(log.made);
}

Result<std::string> Rights::problem(store::Store& store) const {
  for (const store::KeyRecord& key : TRY(store.keys(store::Scope::allTenants()))) {
    const std::string wrong = ids_.contains(key.id) ? problemOf(key) : "";
    if (!wrong.empty()) return "key " + key.id + ": " + wrong;
  }
  const auto sessions = TRY(store.uiSessions(store::Scope::allTenants(), kMost));
  for (const store::UiSession& session : sessions) {
    const std::string wrong = ids_.contains(session.id) ? problemOf(session) : "";
    if (!wrong.empty()) return "sign-in " + session.id + ": " + wrong;
  }
  for (const auto& [version, digest] : digests_) {
    const std::string name = "policy version " + std::to_string(version);
    const auto applied = applications_.find(version);
    if (applied == applications_.end()) return name + ": no audit entry tells that it was applied";
    if (applied->second.second != digest) {
      return name + ": it is not the document of " + entryName(applied->second.first);
    }
  }
  return std::string();
}

}  // namespace cloister::audit
