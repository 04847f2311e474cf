// SPDX-License-Identifier: Apache-2.0
#include "bin/admin_key.h"

#include <algorithm>

#include "auth/auth.h"
#include "base/file.h"
#include "base/log.h"
#include "bin/settings.h"
#include "store/commit.h"
#include "store/rows/keys.h"

namespace cloister {

Result<> ensureAdminKey(const std::string& path) {
  const auto secret = readLine(path);
  if (secret && !secret->empty()) return checkAdminKey(*secret, path);
  if (!secret && secret.error().code != Code::kNotFound) return std::unexpected(secret.error());
  return base::writeFileAtomic(path, auth::makeKey({}, "", 0).secret + "\n", 0600);
}

Result<> enrolAdminKey(store::Store& store, const std::string& secret) {
  model::Principal admin;
  admin.tenant = "default";
  admin.user = "admin";
  admin.roles = model::Role::kAdmin;
  const store::KeyRecord wanted = auth::recordFor(secret, admin, std::string(auth::kAdminKeyName));
  const auto event = [&](std::string_view action, const std::string& id) {
    return model::AuditEvent{.action = std::string(action),
                             .subject = id,
                             .principal = admin,
                             .details = {{"name", auth::kAdminKeyName}}};
  };
  const auto keys = TRY(store.keys(store::Scope::allTenants()));
  const auto known = std::ranges::find(keys, wanted.sha256, &store::KeyRecord::sha256);
  if (known != keys.end() && known->revoked_at != 0) {
    base::log(base::Level::kWarn, "the key in admin.key is revoked; remove the file to get another",
              {{"key", known->id}});
  }
  if (known == keys.end()) {
    TRY(store::commit(store, store::putKey, wanted, event("key.created", wanted.id)));
  }
  for (const store::KeyRecord& key : keys) {
    if (key.name != auth::kAdminKeyName || key.revoked_at != 0) continue;
    if (key.sha256 == wanted.sha256) continue;
    TRY(store::commit(store, store::revokeKey, store::Scope::allTenants(), key.id,
                      event("key.revoked", key.id)));
  }
  return {};
}

}  // namespace cloister
