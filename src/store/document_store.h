// SPDX-License-Identifier: Apache-2.0
// The ledger's part for documents: named JSON objects of a kind, such as the source of a tool or
// the command of an MCP server. The service reads them; it never interprets one as a request
// without the checks of that request. Bodies are encrypted as the tenant's records. A change and
// its audit row are one transaction; no row has a body.
//
// A document belongs to a tenant and to the agent that made it; a document made without an agent
// belongs to the tenant, and all agents of the tenant see it. Threads, `done` and durability as in
// store.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "model/audit_entry.h"
#include "store/secret_store.h"
#include "store/store.h"

namespace cloister::store {

struct Document {
  uint64_t seq = 0;  // order of creation
  std::string id;
  std::string tenant;
  std::string agent;  // "": of the whole tenant
  std::string kind;
  std::string name;        // unique for a kind and an agent
  uint64_t version = 1;    // grows by one with each change
  int64_t created_at = 0;  // wall-clock microseconds, as the other
  int64_t updated_at = 0;
  std::string created_by;  // id of the credential
  std::string updated_by;
  std::string json;
};

struct NewDocument {
  std::string id;  // base::newId()
  std::string tenant;
  std::string agent;
  std::string kind;
  std::string name;
  std::string json;
  int64_t at = 0;
};

inline void tell(About& about, NewDocument& document) {
  about.bytes = document.json.size();
}

// The reader of documents, within a single tenant.
struct DocumentReader {
  std::string tenant;
  std::optional<std::string> agent = {};  // nullopt: every agent of the tenant
  std::string own = {};                   // the agent whose documents come first among equal names

  static DocumentReader of(const model::Principal& who) {
    DocumentReader reader{.tenant = who.tenant, .own = who.agent};
    if (who.seesItsOwn()) reader.agent = who.agent;
    return reader;
  }
};

struct DocumentQuery {
  std::string kind = {};
  uint32_t limit = 50;      // 1..1000
  std::string after = {};   // id of the document before the first wanted one; "": from the first
  std::string before = {};  // id of the document behind the last wanted one; "": to the last
  bool newest_first = false;
  std::string name = {};  // only documents of this name; "": all
};

class DocumentStore {
 public:
  explicit DocumentStore(Engine& engine) : engine_(engine) {}

  // kNotFound for an unknown id and for a document that the reader may not see.
  Result<Document> get(const DocumentReader& reader, const std::string& kind,
                       const std::string& id);
  // By name: the reader's own document comes before the tenant's. kNotFound as in get().
  Result<Document> named(const DocumentReader& reader, const std::string& kind,
                         const std::string& name);
  // In order of creation. An unknown `after` or `before` gives kNotFound.
  Result<std::vector<Document>> list(const DocumentReader& reader, const DocumentQuery& query);

 private:
  Engine& engine_;
};

inline DocumentStore partOf(Reads& ledger, std::type_identity<DocumentStore> /*which*/) {
  return DocumentStore(ledger.secrets().engine());
}

inline DocumentStore documents(Reads& ledger) {
  return DocumentStore(ledger.secrets().engine());
}

}  // namespace cloister::store
