// SPDX-License-Identifier: Apache-2.0
// Documents in the ledger. A reader with an agent changes the agent's own documents alone;
// kNotFound for others.
#pragma once

#include <string>
#include <vector>

#include "store/document_store.h"
#include "store/sql/db.h"
#include "store/write.h"

namespace cloister::store {

// kConflict if the agent has a document of this kind and name, kQuota if the tenant has `most`
// documents of the kind. `event`, as below, is completed with the document's name and version.
Result<Document> createDocument(Transaction tx, const NewDocument& document, uint64_t most,
                                const model::AuditEvent& event);
// Replaces the agent's document of this kind and name, or creates it.
Result<Document> putDocument(Transaction tx, const NewDocument& document, uint64_t most,
                             const model::AuditEvent& event);

// A change of a document.
struct DocumentChange {
  DocumentReader by;
  std::string kind;
  std::string id;
  std::string name;  // the new name
  std::string json;
  int64_t at = 0;
};

inline void tell(About& about, DocumentChange& change) {
  about.bytes = change.json.size();
}

// kConflict if another document has the new name.
Result<Document> changeDocument(Transaction tx, const DocumentChange& change,
                                const model::AuditEvent& event);

// Names a document.
struct DocumentKey {
  DocumentReader by;
  std::string kind;
  std::string id;
};

Result<void> removeDocument(Transaction tx, const DocumentKey& of, const model::AuditEvent& event);

// Records a use of a document.
Result<void> noteDocumentUse(Transaction tx, const model::AuditEvent& event);

Result<Document> getDocument(Database& db, const DocumentReader& reader, const std::string& kind,
                             const std::string& id);
Result<Document> documentNamed(Database& db, const DocumentReader& reader, const std::string& kind,
                               const std::string& name);
Result<std::vector<Document>> listDocuments(Database& db, const DocumentReader& reader,
                                            const DocumentQuery& query);

}  // namespace cloister::store
