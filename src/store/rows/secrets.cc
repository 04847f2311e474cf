// SPDX-License-Identifier: Apache-2.0
#include "store/rows/secrets.h"

#include <algorithm>

#include "store/agent_store.h"
#include "store/sql/chain.h"

namespace cloister::store {
namespace {

constexpr char kOtherSecrets[] =
    "SELECT count(*) FROM secrets WHERE tenant=? AND name<>? AND deleted_at=0";
constexpr char kPutSecret[] =
    "INSERT INTO secrets(tenant, name, version, created_at, updated_at, updated_by, expires_at,"
    " last_used_at, deleted_at, encrypted, value)"
    " VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, 0, 0, encrypts(),"
    " encrypt(?1, 'secret ' || ?2 || ' ' || ?3, ?7))"
    " ON CONFLICT(tenant, name) DO UPDATE SET version=excluded.version,"
    " created_at=CASE WHEN deleted_at>0 THEN excluded.created_at ELSE created_at END,"
    " last_used_at=CASE WHEN deleted_at>0 THEN 0 ELSE last_used_at END,"
    " updated_at=excluded.updated_at, updated_by=excluded.updated_by,"
    " expires_at=excluded.expires_at, deleted_at=0, encrypted=excluded.encrypted,"
    " value=excluded.value";
constexpr char kVersion[] = "SELECT version FROM secrets WHERE tenant=? AND name=?";
constexpr char kRemoveSecret[] =
    "UPDATE secrets SET deleted_at=?, encrypted=encrypts(), value=x''"
    " WHERE tenant=? AND name=? AND deleted_at=0";
// The rows of deleted secrets are bounded as well.
constexpr char kForget[] =
    "DELETE FROM secrets WHERE tenant=?1 AND name IN (SELECT name FROM secrets"
    " WHERE tenant=?1 AND deleted_at>0 ORDER BY deleted_at DESC LIMIT -1 OFFSET ?2)";
constexpr char kUsed[] =
    "UPDATE secrets SET last_used_at=max(last_used_at, ?)"
    " WHERE tenant=? AND name=? AND deleted_at=0";
#define CLOISTER_SECRET_COLUMNS \
  "name, version, created_at, updated_at, updated_by, expires_at, last_used_at"
constexpr char kListSecrets[] = "SELECT " CLOISTER_SECRET_COLUMNS
                                " FROM secrets WHERE tenant=? AND deleted_at=0 AND name>?"
                                " ORDER BY name LIMIT ?";
constexpr char kGetInfo[] =
    "SELECT " CLOISTER_SECRET_COLUMNS " FROM secrets WHERE tenant=? AND name=? AND deleted_at=0";
constexpr char kGetSecret[] =
    "SELECT " CLOISTER_SECRET_COLUMNS
    ", decrypted(encrypted, tenant, 'secret ' || name || ' ' || version, value)"
    " FROM secrets WHERE tenant=? AND name=? AND deleted_at=0";
#undef CLOISTER_SECRET_COLUMNS
constexpr uint32_t kMaxSecrets = 1000;

std::unexpected<Error> noSecret(const std::string& name) {
  return fail(Code::kNotFound, "there is no secret " + name);
}

SecretInfo infoOf(const Statement& row) {
  return {.name = row.text(0),
          .version = row.natural(1),
          .created_at = row.integer(2),
          .updated_at = row.integer(3),
          .updated_by = row.text(4),
          .expires_at = row.integer(5),
          .last_used_at = row.integer(6)};
}

Result<uint64_t> nextVersion(Database& db, const SecretName& of) {
  Statement row = TRY(db.use(kVersion));
  const bool known = TRY(row.bind(of.tenant, of.name).step());
  return known ? row.natural(0) + 1 : 1;
}

}  // namespace

std::string secretSubject(const SecretName& of) {
  const std::string subject = agentSubject({of.tenant, of.name});
  return "secret:" + subject.substr(subject.find(':') + 1);
}

Result<SecretInfo> putSecret(Transaction tx, const NewSecret& secret, uint64_t most,
                             const model::AuditEvent& event) {
  const SecretName& of = secret.of;
  {
    Statement others = TRY(tx.db.use(kOtherSecrets));
    TRY(others.bind(of.tenant, of.name).step());
    if (others.natural(0) >= most) {
      return fail(Code::kQuota, "the tenant has " + std::to_string(others.natural(0)) +
                                    " other secrets, and may have " + std::to_string(most) +
                                    " in all (secrets.per_tenant); delete some");
    }
  }
  const uint64_t version = TRY(nextVersion(tx.db, of));
  {
    Statement put = TRY(tx.db.use(kPutSecret));
    TRY(put.bind(of.tenant, of.name, version, secret.at, event.principal.key_id, secret.expires_at,
                 Blob{secret.value})
            .run());
  }
  model::AuditEvent row = event;
  row.details["version"] = version;
  TRY(tx.chain.append(tx.db, row));
  return getSecretInfo(tx.db, of);
}

Result<void> removeSecret(Transaction tx, const SecretName& of, int64_t at,
                          const model::AuditEvent& event) {
  {
    Statement remove = TRY(tx.db.use(kRemoveSecret));
    TRY(remove.bind(at, of.tenant, of.name).run());
  }
  if (tx.db.changes() == 0) return noSecret(of.name);
  Statement forget = TRY(tx.db.use(kForget));
  TRY(forget.bind(of.tenant, kMaxSecrets).run());
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<void> noteSecretsUsed(Transaction tx, const std::string& tenant,
                             const std::vector<std::string>& names, int64_t at,
                             const model::AuditEvent& event) {
  for (const std::string& name : names) {
    Statement used = TRY(tx.db.use(kUsed));
    TRY(used.bind(at, tenant, name).run());
  }
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<std::vector<SecretInfo>> listSecrets(Database& db, const std::string& tenant,
                                            const std::string& after, uint32_t limit) {
  Statement row = TRY(db.use(kListSecrets));
  row.bind(tenant, after, std::clamp(limit, 1U, kMaxSecrets));
  std::vector<SecretInfo> secrets;
  while (TRY(row.step()))
    secrets.push_back(infoOf(row));
  return secrets;
}

Result<SecretInfo> getSecretInfo(Database& db, const SecretName& of) {
  Statement row = TRY(db.use(kGetInfo));
  if (!TRY(row.bind(of.tenant, of.name).step())) return noSecret(of.name);
  return infoOf(row);
}

Result<StoredSecret> getSecret(Database& db, const SecretName& of) {
  Statement row = TRY(db.use(kGetSecret));
  if (!TRY(row.bind(of.tenant, of.name).step())) return noSecret(of.name);
  return StoredSecret{.info = infoOf(row), .value = row.text(7)};
}

}  // namespace cloister::store
