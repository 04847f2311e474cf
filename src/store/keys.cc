// SPDX-License-Identifier: Apache-2.0
#include "store/keys.h"

#include "base/clock.h"

namespace cloister::store {
namespace {

constexpr char kInsert[] = "INSERT INTO api_keys VALUES (?,?,?,?,?,?,?,?,?,?,?)";
constexpr char kState[] =
    "SELECT revoked_at FROM api_keys WHERE id=?1 AND (?2 IS NULL OR tenant=?2)";
constexpr char kRevoke[] = "UPDATE api_keys SET revoked_at=? WHERE id=?";
constexpr char kByHash[] = "SELECT * FROM api_keys WHERE sha256=?";
constexpr char kList[] =
    "SELECT * FROM api_keys WHERE (?1 IS NULL OR tenant=?1) ORDER BY created_at, id";

KeyRecord readKey(const Statement& row) {
  return {.id = row.text(0),
          .sha256 = row.text(1),
          .name = row.text(2),
          .principal = {.tenant = row.text(3),
                        .app = row.text(4),
                        .agent = row.text(5),
                        .user = row.text(6),
                        .role = row.integer(7) != 0 ? model::Role::kAdmin : model::Role::kAgent,
                        .key_id = row.text(0)},
          .created_at = row.integer(8),
          .expires_at = row.integer(9),
          .revoked_at = row.integer(10)};
}

}  // namespace

Result<void> insertKey(Transaction tx, const KeyRecord& key, const model::AuditEvent& event) {
  const model::Principal& who = key.principal;
  if (key.id.empty() || key.sha256.empty() || who.tenant.empty()) {
    return fail(Code::kInvalid, "storing a key: it lacks its id, digest or tenant");
  }
  Statement insert = TRY(tx.db.use(kInsert));
  insert.bind(key.id, key.sha256, key.name, who.tenant, who.app, who.agent, who.user,
              who.isAdmin() ? 1 : 0, key.created_at, key.expires_at, key.revoked_at);
  if (auto inserted = insert.run(); !inserted) {
    return std::unexpected(std::move(inserted).error().within("storing key " + key.id));
  }
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<void> revokeKeyRow(Transaction tx, const Scope& scope, const std::string& id,
                          const model::AuditEvent& event) {
  Statement state = TRY(tx.db.use(kState));
  if (!TRY(state.bind(id, scope.tenant()).step())) {
    return fail(Code::kNotFound, "there is no key " + id);
  }
  if (state.integer(0) != 0) return {};  // it is revoked, and the log has it
  Statement revoke = TRY(tx.db.use(kRevoke));
  TRY(revoke.bind(base::wallMicros(), id).run());
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<std::optional<KeyRecord>> findKey(Database& db, const std::string& sha256) {
  Statement row = TRY(db.use(kByHash));
  if (!TRY(row.bind(sha256).step())) return std::nullopt;
  return readKey(row);
}

Result<std::vector<KeyRecord>> listKeys(Database& db, const Scope& scope) {
  Statement row = TRY(db.use(kList));
  row.bind(scope.tenant());
  std::vector<KeyRecord> out;
  while (TRY(row.step()))
    out.push_back(readKey(row));
  return out;
}

}  // namespace cloister::store
