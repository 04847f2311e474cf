// SPDX-License-Identifier: Apache-2.0
// The memory of sessions in the SQLite ledger: its writer, its readers, its syncer.
#pragma once

#include "store/memory_store.h"
#include "store/sql/readers.h"
#include "store/sql/syncer.h"
#include "store/sql/writer.h"

namespace cloister::store {

class SqliteMemory final : public MemoryStore {
 public:
  // All three outlive it.
  SqliteMemory(Writer& writer, Readers& readers, Syncer& syncer)
      : writer_(writer), readers_(readers), syncer_(syncer) {}

  void put(const Scope& scope, NewMemory value, model::MemoryBounds bounds, model::AuditEvent event,
           Done<model::MemoryItem> done) override;
  void remove(const Scope& scope, std::string session, std::string key, model::AuditEvent event,
              Done<void> done) override;
  Result<model::MemoryValue> get(const Scope& scope, const std::string& session,
                                 const std::string& key) override;
  Result<std::vector<model::MemoryItem>> list(const Scope& scope,
                                              const MemoryQuery& query) override;

 private:
  Writer& writer_;
  Readers& readers_;
  Syncer& syncer_;
};

}  // namespace cloister::store
