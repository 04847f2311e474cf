// SPDX-License-Identifier: Apache-2.0
#include "store/rows/keys.h"

#include <algorithm>
#include <sstream>

#include "base/clock.h"
#include "store/sql/chain.h"

namespace cloister::store {
namespace {

// Columns are named, because the table's own order follows its migrations.
#define KEY_COLUMNS                                                            \
  "id, sha256, name, tenant, app, agent, user, roles, created_at, expires_at," \
  " revoked_at, networks, last_used_at, replaces"
#define READ_COLUMNS KEY_COLUMNS ", ifnull(given_expires_at, expires_at)"
constexpr char kInsert[] =
    "INSERT INTO api_keys(" KEY_COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
constexpr char kOne[] =
    "SELECT " READ_COLUMNS " FROM api_keys WHERE id=?1 AND (?2 IS NULL OR tenant=?2)";
constexpr char kByHash[] = "SELECT " READ_COLUMNS " FROM api_keys WHERE sha256=?";
constexpr char kList[] =
    "SELECT " READ_COLUMNS " FROM api_keys WHERE (?1 IS NULL OR tenant=?1) ORDER BY created_at, id";
// Keys that a key was rotated to, directly or through unrevoked expired keys.
constexpr char kSuccessors[] =
    "WITH RECURSIVE rotated(id) AS ("
    "SELECT id FROM api_keys WHERE replaces=?1 AND replaces<>''"
    " UNION SELECT next.id FROM rotated JOIN api_keys old ON old.id=rotated.id"
    " JOIN api_keys next ON next.replaces=old.id AND next.replaces<>''"
    " WHERE old.revoked_at=0 AND old.expires_at<>0 AND old.expires_at<=?2 LIMIT ?3)"
    "SELECT " READ_COLUMNS " FROM api_keys WHERE id IN (SELECT id FROM rotated)";
#undef READ_COLUMNS
#undef KEY_COLUMNS
constexpr char kRevoke[] = "UPDATE api_keys SET revoked_at=? WHERE id=?";
constexpr char kEnd[] =
    "UPDATE api_keys SET given_expires_at=ifnull(given_expires_at, expires_at), expires_at=?"
    " WHERE id=?";
constexpr char kUse[] = "UPDATE api_keys SET last_used_at=?1 WHERE id=?2 AND last_used_at<?1";
constexpr char kOtherAdmin[] =
    "SELECT 1 FROM api_keys WHERE roles='admin' AND id<>?1 AND revoked_at=0"
    " AND (expires_at=0 OR expires_at>?2) LIMIT 1";

std::string rolesText(model::Roles roles) {
  std::string text;
  for (const std::string_view name : model::names(roles))
    text += (text.empty() ? "" : " ") + std::string(name);
  return text;
}

std::string networksText(const std::vector<base::Network>& networks) {
  std::string text;
  for (const base::Network& network : networks)
    text += (text.empty() ? "" : " ") + network.text();
  return text;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;)
    out.push_back(word);
  return out;
}

Result<KeyRecord> readKey(const Statement& row) {
  KeyRecord key{.id = row.text(0),
                .sha256 = row.text(1),
                .name = row.text(2),
                .principal = {.tenant = row.text(3),
                              .app = row.text(4),
                              .agent = row.text(5),
                              .user = row.text(6),
                              .roles = {},
                              .key_id = row.text(0)},
                .created_at = row.integer(8),
                .expires_at = row.integer(9),
                .revoked_at = row.integer(10),
                .networks = {},
                .last_used_at = row.integer(12),
                .replaces = row.text(13),
                .given_expires_at = row.integer(14)};
  // Unreadable roles or networks are an error: unreadable text must grant neither a role nor a
  // wider range.
  auto roles = model::rolesFromNames(words(row.text(7)));
  if (!roles) return std::unexpected(std::move(roles).error().within("reading key " + key.id));
  key.principal.roles = *roles;
  for (const std::string& range : words(row.text(11))) {
    auto network = base::Network::parse(range);
    if (!network) {
      return std::unexpected(std::move(network).error().within("reading key " + key.id));
    }
    key.networks.push_back(*network);
  }
  return key;
}

bool isValid(const KeyRecord& key, int64_t now) {
  return key.revoked_at == 0 && (key.expires_at == 0 || key.expires_at > now);
}

// "; rotate key_…, which succeeded it", or "".
Result<std::string> successorToRotate(Database& db, const std::string& id, int64_t now) {
  for (const KeyRecord& key : TRY(successorRows(db, id, now, kMostSuccessors))) {
    if (isValid(key, now)) return "; rotate " + key.id + ", which succeeded it";
  }
  return std::string();
}

}  // namespace

Result<void> putKey(Transaction tx, const KeyRecord& key, const model::AuditEvent& event) {
  const model::Principal& who = key.principal;
  if (key.id.empty() || key.sha256.empty() || who.tenant.empty() || who.roles.empty()) {
    return fail(Code::kInvalid, "storing a key: it lacks its id, digest, tenant or roles");
  }
  Statement insert = TRY(tx.db.use(kInsert));
  const std::string roles = rolesText(who.roles);
  const std::string networks = networksText(key.networks);
  insert.bind(key.id, key.sha256, key.name, who.tenant, who.app, who.agent, who.user, roles,
              key.created_at, key.expires_at, key.revoked_at, networks, key.last_used_at,
              key.replaces);
  if (auto inserted = insert.run(); !inserted) {
    return std::unexpected(std::move(inserted).error().within("storing key " + key.id));
  }
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<void> revokeKey(Transaction tx, const Scope& scope, const std::string& id,
                       const model::AuditEvent& event) {
  const KeyRecord key = TRY(getKey(tx.db, scope, id));
  if (key.revoked_at != 0) return {};  // revoked already, with an audit row
  const int64_t now = base::wallMicros();
  if (key.principal.isAdmin() && isValid(key, now)) {
    Statement other = TRY(tx.db.use(kOtherAdmin));
    if (!TRY(other.bind(id, now).step())) {
      return fail(Code::kConflict, "revoking key " + id +
                                       ": it is the last valid key of an administrator; make "
                                       "another first");
    }
  }
  Statement revoke = TRY(tx.db.use(kRevoke));
  TRY(revoke.bind(std::max(now, key.created_at), id).run());
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<void> rotateKey(Transaction tx, const Scope& scope, const KeyRecord& key, int64_t ends_at,
                       const model::AuditEvent& event) {
  const KeyRecord old = TRY(getKey(tx.db, scope, key.replaces));
  if (const int64_t now = base::wallMicros(); !isValid(old, now)) {
    return fail(Code::kConflict, "rotating key " + old.id + ": it is revoked or has expired" +
                                     TRY(successorToRotate(tx.db, old.id, now)));
  }
  TRY(putKey(tx, key, event));
  if (old.expires_at != 0 && old.expires_at <= ends_at) return {};
  Statement end = TRY(tx.db.use(kEnd));
  return end.bind(ends_at, old.id).run();
}

Result<void> noteKeyUse(Transaction tx, const std::string& id, int64_t at) {
  Statement use = TRY(tx.db.use(kUse));
  return use.bind(at, id).run();
}

Result<KeyRecord> getKey(Database& db, const Scope& scope, const std::string& id) {
  Statement row = TRY(db.use(kOne));
  if (!TRY(row.bind(id, scope.tenant()).step())) {
    return fail(Code::kNotFound, "there is no key " + id);
  }
  return readKey(row);
}

Result<std::optional<KeyRecord>> findKey(Database& db, const std::string& sha256) {
  Statement row = TRY(db.use(kByHash));
  if (!TRY(row.bind(sha256).step())) return std::nullopt;
  return TRY(readKey(row));
}

Result<std::vector<KeyRecord>> successorRows(Database& db, const std::string& id, int64_t now,
                                             uint32_t limit) {
  Statement row = TRY(db.use(kSuccessors));
  row.bind(id, now, static_cast<int64_t>(limit));
  std::vector<KeyRecord> out;
  while (TRY(row.step()))
    out.push_back(TRY(readKey(row)));
  return out;
}

Result<std::vector<KeyRecord>> listKeys(Database& db, const Scope& scope) {
  Statement row = TRY(db.use(kList));
  row.bind(scope.tenant());
  std::vector<KeyRecord> out;
  while (TRY(row.step()))
    out.push_back(TRY(readKey(row)));
  return out;
}

}  // namespace cloister::store
