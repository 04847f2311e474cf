// SPDX-License-Identifier: Apache-2.0
#include "store/rows/memory.h"

#include <algorithm>

#include "store/sql/chain.h"

namespace cloister::store {
namespace {

constexpr char kSession[] =
    "SELECT seq, ended_at FROM sessions WHERE id=?1 AND (?2 IS NULL OR tenant=?2)"
    " AND (?3 IS NULL OR agent=?3)";
constexpr char kOthers[] =
    "SELECT count(*), coalesce(sum(size), 0) FROM session_memory WHERE session=? AND key<>?";
constexpr char kPut[] =
    "INSERT INTO session_memory(session, key, size, created_at, updated_at, encrypted, value)"
    " SELECT seq, ?2, ?3, ?4, ?4, encrypts(), encrypt(tenant, 'memory ' || id || ' ' || ?2, ?5)"
    " FROM sessions WHERE seq=?1"
    " ON CONFLICT(session, key) DO UPDATE SET size=excluded.size, updated_at=excluded.updated_at,"
    " encrypted=excluded.encrypted, value=excluded.value";
constexpr char kRemove[] = "DELETE FROM session_memory WHERE session=? AND key=?";
constexpr char kItem[] =
    "SELECT key, size, created_at, updated_at FROM session_memory WHERE session=? AND key=?";
constexpr char kGet[] =
    "SELECT m.key, m.size, m.created_at, m.updated_at,"
    " decrypted(m.encrypted, s.tenant, 'memory ' || s.id || ' ' || m.key, m.value)"
    " FROM session_memory m JOIN sessions s ON s.seq=m.session WHERE m.session=? AND m.key=?";
constexpr char kList[] =
    "SELECT key, size, created_at, updated_at FROM session_memory WHERE session=? AND key>?"
    " ORDER BY key LIMIT ?";
constexpr uint32_t kMaxList = 500;

struct Owner {
  uint64_t seq = 0;
  bool ended = false;
};

// The same message for a missing session and for a session beyond the scope.
Result<Owner> ownerOf(Database& db, const Scope& scope, const std::string& session) {
  Statement row = TRY(db.use(kSession));
  if (!TRY(row.bind(session, scope.tenant(), scope.agent()).step())) {
    return fail(Code::kNotFound, "there is no session " + session);
  }
  return Owner{.seq = row.natural(0), .ended = row.integer(1) > 0};
}

std::unexpected<Error> noKey(const std::string& key) {
  return fail(Code::kNotFound, "the session's memory has no key " + key);
}

model::MemoryItem itemOf(const Statement& row) {
  return {.key = row.text(0),
          .size = row.natural(1),
          .created_at = row.integer(2),
          .updated_at = row.integer(3)};
}

// Checks that the other values leave room for the new value.
Result<> checkRoom(Database& db, uint64_t session, const NewMemory& value,
                   const model::MemoryBounds& bounds) {
  Statement others = TRY(db.use(kOthers));
  TRY(others.bind(session, value.key).step());
  const std::string about = "memory key " + value.key + ": the session ";
  if (others.natural(0) >= bounds.keys) {
    return fail(Code::kQuota, about + "has " + std::to_string(others.natural(0)) +
                                  " other keys, and may have " + std::to_string(bounds.keys) +
                                  " in all (session.memory.max_keys); delete some");
  }
  if (others.natural(1) + value.json.size() > bounds.bytes) {
    return fail(Code::kQuota, about + "would keep " +
                                  std::to_string(others.natural(1) + value.json.size()) +
                                  " bytes, and may keep " + std::to_string(bounds.bytes) +
                                  " (session.memory.max_bytes); delete some");
  }
  return {};
}

}  // namespace

Result<model::MemoryItem> putMemory(Transaction tx, const Scope& scope, const NewMemory& value,
                                    const model::MemoryBounds& bounds,
                                    const model::AuditEvent& event) {
  const Owner owner = TRY(ownerOf(tx.db, scope, value.session));
  if (owner.ended) {
    return fail(Code::kConflict, "session " + value.session +
                                     " has ended: its memory can be read and deleted, not changed");
  }
  TRY(checkRoom(tx.db, owner.seq, value, bounds));
  Statement put = TRY(tx.db.use(kPut));
  const uint64_t size = value.json.size();
  TRY(put.bind(owner.seq, value.key, size, value.at, Blob{value.json}).run());
  model::AuditEvent row = event;
  row.details["key"] = value.key;
  row.details["size"] = size;
  TRY(tx.chain.append(tx.db, row));
  Statement item = TRY(tx.db.use(kItem));
  TRY(item.bind(owner.seq, value.key).step());
  return itemOf(item);
}

Result<void> removeMemory(Transaction tx, const Scope& scope, const MemoryKey& of,
                          const model::AuditEvent& event) {
  const Owner owner = TRY(ownerOf(tx.db, scope, of.session));
  Statement remove = TRY(tx.db.use(kRemove));
  TRY(remove.bind(owner.seq, of.key).run());
  if (tx.db.changes() == 0) return noKey(of.key);
  model::AuditEvent row = event;
  row.details["key"] = of.key;
  TRY(tx.chain.append(tx.db, row));
  return {};
}

Result<model::MemoryValue> getMemory(Database& db, const Scope& scope, const std::string& session,
                                     const std::string& key) {
  const Owner owner = TRY(ownerOf(db, scope, session));
  Statement row = TRY(db.use(kGet));
  if (!TRY(row.bind(owner.seq, key).step())) return noKey(key);
  return model::MemoryValue{.item = itemOf(row), .json = row.text(4)};
}

Result<std::vector<model::MemoryItem>> listMemory(Database& db, const Scope& scope,
                                                  const MemoryQuery& query) {
  const Owner owner = TRY(ownerOf(db, scope, query.session));
  Statement row = TRY(db.use(kList));
  row.bind(owner.seq, query.after_key, std::clamp(query.limit, 1U, kMaxList));
  std::vector<model::MemoryItem> items;
  while (TRY(row.step()))
    items.push_back(itemOf(row));
  return items;
}

}  // namespace cloister::store
