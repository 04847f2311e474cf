// SPDX-License-Identifier: Apache-2.0
#include "store/sql/encryption.h"

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <sqlite3.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "store/sql/sqlite.h"

namespace cloister::store {
namespace {

// Views of the connection, not of the file: SQL in the file runs no function of ours.
constexpr char kViews[] = R"sql(
CREATE TEMP VIEW plain_executions AS SELECT seq, id, status, tenant, app, agent, user, session_id,
  idempotency_key, request_sha256, finished_at, archived_at, accepted_row, state_row,
  decrypted(encrypted, tenant, 'record ' || id, record) AS record FROM main.executions;
CREATE TEMP VIEW plain_sessions AS SELECT seq, id, status, tenant, app, agent, user, idempotency_key,
  ended_at, created_row, state_row,
  decrypted(encrypted, tenant, 'session ' || id, record) AS record FROM main.sessions;
CREATE TEMP VIEW plain_escalations AS SELECT seq, id, tenant, status, agent, execution, due_at, waited,
  ended_at, created_row, state_row,
  decrypted(encrypted, tenant, 'escalation ' || id, record) AS record FROM main.escalations;
CREATE TEMP VIEW plain_violations AS SELECT seq, id, tenant, agent, at, level, operation, outcome, rule,
  subject, decrypted(encrypted, tenant, 'violation what ' || id, what) AS what,
  decrypted(encrypted, tenant, 'violation reason ' || id, reason) AS reason,
  decrypted(encrypted, tenant, 'violation words ' || id, words) AS words FROM main.violations;
)sql";

// A batch of one table's plain rows. Tables with large rows have small batches.
struct Step {
  const char* sql;
  int rows;
};

constexpr Step kSteps[] = {
    {"UPDATE executions SET encrypted=1, record=encrypt(tenant, 'record ' || id, record)"
     " WHERE seq IN (SELECT seq FROM executions WHERE encrypted=0 LIMIT ?)",
     200},
    {"UPDATE requests SET encrypted=1, body=coalesce((SELECT encrypt(e.tenant, 'request ' || e.id, "
     "body)"
     " FROM executions e WHERE e.seq=execution), '')"
     " WHERE execution IN (SELECT execution FROM requests WHERE encrypted=0 LIMIT ?)",
     16},
    {"UPDATE specs SET encrypted=1, spec=coalesce((SELECT encrypt(e.tenant, 'spec ' || e.id, spec)"
     " FROM executions e WHERE e.seq=execution), x'')"
     " WHERE execution IN (SELECT execution FROM specs WHERE encrypted=0 LIMIT ?)",
     16},
    {"DELETE FROM outputs WHERE execution IN (SELECT execution FROM outputs o WHERE encrypted=0"
     " AND NOT EXISTS (SELECT 1 FROM executions e WHERE e.seq=o.execution) LIMIT ?)",
     16},
    {"UPDATE outputs SET encrypted=1, (out, err, compile_out, compile_err)=("
     " SELECT encrypt(e.tenant, 'out ' || e.id, out), encrypt(e.tenant, 'err ' || e.id, err),"
     " encrypt(e.tenant, 'compile_out ' || e.id, compile_out),"
     " encrypt(e.tenant, 'compile_err ' || e.id, compile_err)"
     " FROM executions e WHERE e.seq=execution)"
     " WHERE execution IN (SELECT execution FROM outputs WHERE encrypted=0 LIMIT ?)",
     16},
    {"UPDATE sessions SET encrypted=1, record=encrypt(tenant, 'session ' || id, record)"
     " WHERE seq IN (SELECT seq FROM sessions WHERE encrypted=0 LIMIT ?)",
     200},
    {"UPDATE violations SET encrypted=1, what=encrypt(tenant, 'violation what ' || id, what),"
     " reason=encrypt(tenant, 'violation reason ' || id, reason),"
     " words=encrypt(tenant, 'violation words ' || id, words)"
     " WHERE seq IN (SELECT seq FROM violations WHERE encrypted=0 LIMIT ?)",
     200},
    {"UPDATE escalations SET encrypted=1, record=encrypt(tenant, 'escalation ' || id, record)"
     " WHERE seq IN (SELECT seq FROM escalations WHERE encrypted=0 LIMIT ?)",
     100},
    {"UPDATE escalation_requests SET encrypted=1, body=coalesce(("
     "SELECT encrypt(e.tenant, 'escalation request ' || e.id, body)"
     " FROM escalations e WHERE e.seq=escalation), '')"
     " WHERE escalation IN (SELECT escalation FROM escalation_requests WHERE encrypted=0 LIMIT ?)",
     16},
    {"UPDATE escalation_workspaces SET encrypted=1, body=coalesce(("
     "SELECT encrypt(e.tenant, 'escalation workspace ' || e.id, body)"
     " FROM escalations e WHERE e.seq=escalation), '')"
     " WHERE escalation IN"
     " (SELECT escalation FROM escalation_workspaces WHERE encrypted=0 LIMIT ?)",
     16},
    {"UPDATE audit_sealed SET encrypted=1, (salt, value)=("
     " SELECT encrypt(a.tenant, 'salt ' || a.seq || ' ' || name, salt),"
     " encrypt(a.tenant, 'sealed ' || a.seq || ' ' || name, value)"
     " FROM audit a WHERE a.seq=audit_sealed.seq)"
     " WHERE (seq, name) IN (SELECT seq, name FROM audit_sealed WHERE encrypted=0 LIMIT ?)",
     200},
    {"UPDATE session_memory SET encrypted=1, value=coalesce(("
     "SELECT encrypt(s.tenant, 'memory ' || s.id || ' ' || key, value)"
     " FROM sessions s WHERE s.seq=session), x'')"
     " WHERE (session, key) IN (SELECT session, key FROM session_memory WHERE encrypted=0 LIMIT ?)",
     16},
    {"UPDATE secrets SET encrypted=1,"
     " value=encrypt(tenant, 'secret ' || name || ' ' || version, value)"
     " WHERE (tenant, name) IN (SELECT tenant, name FROM secrets WHERE encrypted=0 LIMIT ?)",
     16},
    {"UPDATE documents SET encrypted=1,"
     " body=encrypt(tenant, 'document ' || id || ' ' || version, body)"
     " WHERE seq IN (SELECT seq FROM documents WHERE encrypted=0 LIMIT ?)",
     16},
};

// Each table has an index that begins with the tenant.
constexpr const char* kTables[] = {"executions",  "sessions", "violations",
                                   "escalations", "secrets",  "documents"};

// Tenants with encrypted rows in `table`: steps from tenant to tenant instead of scanning all rows.
// A bare column of `t` would be read as the table's own column of the same name.
std::string tenantsIn(const std::string& table) {
  return "WITH RECURSIVE t(reached) AS (SELECT min(tenant) FROM " + table +
         " UNION ALL SELECT (SELECT min(tenant) FROM " + table +
         " WHERE tenant>t.reached) FROM t WHERE t.reached IS NOT NULL)"
         " SELECT t.reached FROM t WHERE EXISTS (SELECT 1 FROM " +
         table + " WHERE tenant=t.reached AND encrypted=1)";
}

// The log seals for the tenant of the entry's actor.
constexpr char kSealedFor[] =
    "SELECT DISTINCT a.tenant FROM audit_sealed s JOIN audit a ON a.seq=s.seq"
    " WHERE s.encrypted=1";

std::string_view bytesOf(sqlite3_value* value) {
  const void* bytes = sqlite3_value_blob(value);
  const int size = sqlite3_value_bytes(value);
  return bytes == nullptr
             ? std::string_view()
             : std::string_view(static_cast<const char*>(bytes), static_cast<size_t>(size));
}

void give(sqlite3_context* context, int type, std::string_view bytes) {
  if (type == SQLITE_BLOB) {
    sqlite3_result_blob64(context, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
  } else {
    sqlite3_result_text64(context, bytes.data(), bytes.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  }
}

artifacts::TenantCipher* cipherOf(sqlite3_context* context) {
  return static_cast<std::shared_ptr<artifacts::TenantCipher>*>(sqlite3_user_data(context))->get();
}

void encrypt(sqlite3_context* context, int /*count*/, sqlite3_value** arguments) {
  artifacts::TenantCipher* cipher = cipherOf(context);
  const std::string_view plain = bytesOf(arguments[2]);
  if (cipher == nullptr || plain.empty()) return sqlite3_result_value(context, arguments[2]);
  const auto encrypted =
      cipher->encrypt(std::string(bytesOf(arguments[0])), bytesOf(arguments[1]), plain);
  if (!encrypted) return sqlite3_result_error(context, encrypted.error().message.c_str(), -1);
  const int type = sqlite3_value_type(arguments[2]);
  give(context, type, type == SQLITE_BLOB ? *encrypted : base::toBase64(*encrypted));
}

void encrypts(sqlite3_context* context, int /*count*/, sqlite3_value** /*arguments*/) {
  sqlite3_result_int(context, cipherOf(context) != nullptr ? 1 : 0);
}

Result<std::string> decryptedOf(artifacts::TenantCipher* cipher, sqlite3_value** arguments) {
  if (cipher == nullptr) return fail(Code::kInvalid, "decrypting: the ledger was opened without");
  if (sqlite3_value_int(arguments[0]) == 0) {
    return fail(Code::kInternal,
                "decrypting: a row is in plain text, which none is once the ledger is open");
  }
  const std::string tenant(bytesOf(arguments[1]));
  const std::string_view place = bytesOf(arguments[2]);
  const std::string_view value = bytesOf(arguments[3]);
  if (sqlite3_value_type(arguments[3]) == SQLITE_BLOB) return cipher->decrypt(tenant, place, value);
  const auto bytes = base::fromBase64(value);
  if (!bytes) return fail(Code::kInternal, "decrypting " + std::string(place) + ": no base64");
  return cipher->decrypt(tenant, place, *bytes);
}

void decrypted(sqlite3_context* context, sqlite3_value** arguments, bool or_null) {
  const bool plain = sqlite3_value_int(arguments[0]) == 0 && cipherOf(context) == nullptr;
  if (plain || sqlite3_value_bytes(arguments[3]) == 0) {
    return sqlite3_result_value(context, arguments[3]);
  }
  const auto text = decryptedOf(cipherOf(context), arguments);
  if (text) return give(context, sqlite3_value_type(arguments[3]), *text);
  if (or_null) return sqlite3_result_null(context);
  sqlite3_result_error(context, text.error().message.c_str(), -1);
}

void decryptedOrError(sqlite3_context* context, int /*count*/, sqlite3_value** arguments) {
  decrypted(context, arguments, false);
}

void legible(sqlite3_context* context, int /*count*/, sqlite3_value** arguments) {
  decrypted(context, arguments, true);
}

struct Function {
  const char* name;
  int count;
  void (*call)(sqlite3_context*, int, sqlite3_value**);
};
constexpr Function kFunctions[] = {{"encrypt", 3, encrypt},
                                   {"encrypts", 0, encrypts},
                                   {"decrypted", 4, decryptedOrError},
                                   {"legible", 4, legible}};

void forget(void* cipher) {
  delete static_cast<std::shared_ptr<artifacts::TenantCipher>*>(cipher);
}

Result<> checkKeys(Database& db, artifacts::TenantCipher* cipher) {
  std::vector<std::string> looks = {kSealedFor};
  for (const char* table : kTables)
    looks.push_back(tenantsIn(table));
  for (const std::string& look : looks) {
    Statement row = TRY(db.use(look));
    while (TRY(row.step())) {
      const std::string tenant = row.text(0);
      if (cipher == nullptr) {
        return fail(Code::kInvalid,
                    "opening the ledger: it is encrypted, and there is no key for it");
      }
      if (cipher->has(tenant)) continue;
      return fail(Code::kInvalid, "opening the ledger: the key of tenant \"" + tenant +
                                      "\" is missing; put the directory keys beside the ledger "
                                      "back from a backup");
    }
  }
  return {};
}

// Encrypts at most step.rows rows and returns their number. Sets `owed`, because the plain texts
// must still be removed from the file.
Result<int64_t> encryptSome(Database& db, const Step& step) {
  TRY(db.run("BEGIN IMMEDIATE"));
  auto done = [&]() -> Result<int64_t> {
    Statement statement = TRY(db.use(step.sql));
    TRY(statement.bind(step.rows).run());
    const int64_t rows = db.changes();
    if (rows > 0) TRY(db.run("UPDATE encryption SET owed=1"));
    TRY(db.run("COMMIT"));
    return rows;
  }();
  if (!done) db.rollBack();
  return done;
}

// kUnavailable while a reader uses the log.
Result<> emptyLog(Database& db) {
  bool lost_sync = false;
  if (TRY(sqlite::moveLog(db, sqlite::Move::kTruncate, lost_sync)).all) return {};
  return fail(Code::kUnavailable, "emptying the ledger's log: somebody reads it");
}

Result<int64_t> encryptRows(Database& db) {
  int64_t all = 0;
  for (const Step& step : kSteps) {
    while (const int64_t rows = TRY(encryptSome(db, step))) {
      all += rows;
      std::ignore = emptyLog(db);  // keeps the log short
    }
  }
  return all;
}

// Split and freed pages may still hold parts of the plain text.
Result<> writeAnew(Database& db) {
  TRY(db.run("VACUUM"));
  TRY(emptyLog(db));
  return db.run("UPDATE encryption SET owed=0");
}

// Places SQLite's temporary copy beside the ledger: the copy may be larger than memory.
class CopyBeside {
 public:
  explicit CopyBeside(const std::string& path) {
    sqlite3_temp_directory = sqlite3_mprintf("%s", path.substr(0, path.rfind('/')).c_str());
  }
  CopyBeside(const CopyBeside&) = delete;
  CopyBeside& operator=(const CopyBeside&) = delete;
  ~CopyBeside() {
    sqlite3_free(sqlite3_temp_directory);
    sqlite3_temp_directory = nullptr;
  }
};

}  // namespace

Result<Database> openWithCipher(const std::string& path,
                                const std::shared_ptr<artifacts::TenantCipher>& cipher) {
  Database db = TRY(sqlite::open(path));
  sqlite3* handle = sqlite::handleOf(db);
  for (const Function& each : kFunctions) {
    auto* shared = new std::shared_ptr<artifacts::TenantCipher>(cipher);
    if (sqlite3_create_function_v2(handle, each.name, each.count, SQLITE_UTF8, shared, each.call,
                                   nullptr, nullptr, forget) != SQLITE_OK) {
      return std::unexpected(sqlite::error(handle, "adding encryption to the ledger"));
    }
  }
  TRY(db.run(kViews));
  return db;
}

Result<> encryptAll(const std::string& path,
                    const std::shared_ptr<artifacts::TenantCipher>& cipher) {
  Database db = TRY(openWithCipher(path, cipher));
  TRY(checkKeys(db, cipher.get()));
  if (!cipher) return {};
  const auto begun = base::monotonicNow();
  const int64_t rows = TRY(encryptRows(db));
  if (TRY(db.value("SELECT owed FROM encryption")) != "1") return {};
  const CopyBeside beside(path);
  TRY(db.run("PRAGMA temp_store=FILE"));
  if (auto written = writeAnew(db); !written) {
    const Code code = written.error().code;
    if (code != Code::kNoSpace && code != Code::kUnavailable) return written;
    base::log(base::Level::kWarn,
              "ledger encrypted, but its file may still have old text; the next start tries again "
              "to write it anew",
              {{"error", written.error().message}});
    return {};
  }
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(base::monotonicNow() - begun);
  base::log(base::Level::kInfo, "ledger encrypted", {{"rows", rows}, {"ms", took.count()}});
  return {};
}

}  // namespace cloister::store
