// SPDX-License-Identifier: Apache-2.0
// The ledger's part for the memory of sessions: values under names, encrypted like the session's
// record. The memory belongs to one session: copies of the session do not get the values, and the
// values are deleted with the session's record. A change and its audit row are one transaction; the
// ledger adds the key and the size to the row's details. Threads, `done` and durability as in
// store.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/audit_entry.h"
#include "model/session_memory.h"
#include "store/store.h"

namespace cloister::store {

// A value to keep.
struct NewMemory {
  std::string session;  // id
  std::string key;      // model::checkMemoryKey()
  std::string json;     // model::checkMemoryValue()
  int64_t at = 0;       // wall-clock microseconds
};

inline void tell(About& about, NewMemory& value) {
  about.subject = value.session;
  about.bytes = value.json.size();
}

// The key of a stored value.
struct MemoryKey {
  std::string session;  // id
  std::string key;
};

inline void tell(About& about, MemoryKey& of) {
  about.subject = of.session;
}

struct MemoryQuery {
  std::string session;         // id
  uint32_t limit = 50;         // 1..500
  std::string after_key = {};  // in the order of keys; "": from the first
};

class MemoryStore {
 public:
  explicit MemoryStore(Engine& engine) : engine_(engine) {}

  // Both are kNotFound if the session is missing or beyond `scope`.
  //
  // get() is also kNotFound for an unknown key.
  Result<model::MemoryValue> get(const Scope& scope, const std::string& session,
                                 const std::string& key);
  Result<std::vector<model::MemoryItem>> list(const Scope& scope, const MemoryQuery& query);

 private:
  Engine& engine_;
};

}  // namespace cloister::store
