// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite_memory.h"

#include <memory>
#include <utility>

#include "store/rows/memory.h"

namespace cloister::store {

void SqliteMemory::put(const Scope& scope, NewMemory value, model::MemoryBounds bounds,
                       model::AuditEvent event, Done<model::MemoryItem> done) {
  std::string subject = value.session;
  const size_t bytes = value.json.size();
  auto write = std::make_unique<WriteOf<model::MemoryItem>>(
      [scope, value = std::move(value), bounds, event = std::move(event)](Transaction tx) {
        return putMemoryRow(tx, scope, value, bounds, event);
      },
      std::move(done));
  write->subject = std::move(subject);
  write->bytes = bytes;
  writer_.submit(std::move(write));
}

void SqliteMemory::remove(const Scope& scope, std::string session, std::string key,
                          model::AuditEvent event, Done<void> done) {
  std::string subject = session;
  auto write = std::make_unique<WriteOf<void>>(
      [scope, session = std::move(session), key = std::move(key), event = std::move(event)](
          Transaction tx) { return removeMemoryRow(tx, scope, session, key, event); },
      std::move(done));
  write->subject = std::move(subject);
  writer_.submit(std::move(write));
}

// What is read is shown only once it is as durable as an acknowledgement.
Result<model::MemoryValue> SqliteMemory::get(const Scope& scope, const std::string& session,
                                             const std::string& key) {
  auto value = readers_.with([&](Database& db) { return getMemory(db, scope, session, key); });
  TRY(syncer_.settle(session));
  return value;
}

Result<std::vector<model::MemoryItem>> SqliteMemory::list(const Scope& scope,
                                                          const MemoryQuery& query) {
  auto items = readers_.with([&](Database& db) { return listMemory(db, scope, query); });
  TRY(syncer_.settle(query.session));
  return items;
}

}  // namespace cloister::store
