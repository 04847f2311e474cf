// SPDX-License-Identifier: Apache-2.0
#include "store/rows/documents.h"

#include <algorithm>

#include "store/sql/chain.h"

namespace cloister::store {
namespace {

#define CLOISTER_DOCUMENT                                                                   \
  "SELECT seq, id, tenant, agent, kind, name, version, created_at, updated_at, created_by," \
  " updated_by, decrypted(encrypted, tenant, 'document ' || id || ' ' || version, body)"    \
  " FROM documents WHERE tenant=?1 AND kind=?2 AND (?3 IS NULL OR agent=?3 OR agent='')"
constexpr char kGet[] = CLOISTER_DOCUMENT " AND id=?4";
constexpr char kNamed[] =
    CLOISTER_DOCUMENT " AND name=?4 ORDER BY agent<>?5, agent<>'', seq LIMIT 1";
constexpr char kList[] =
    CLOISTER_DOCUMENT " AND seq>?4 AND seq<?5 AND (?6='' OR name=?6) ORDER BY seq LIMIT ?7";
constexpr char kListNewest[] =
    CLOISTER_DOCUMENT " AND seq>?4 AND seq<?5 AND (?6='' OR name=?6) ORDER BY seq DESC LIMIT ?7";
#undef CLOISTER_DOCUMENT
constexpr char kCount[] = "SELECT count(*) FROM documents WHERE tenant=? AND kind=?";
constexpr char kOwn[] =
    "SELECT id, version FROM documents WHERE tenant=? AND kind=? AND agent=? AND name=?";
constexpr char kInsert[] =
    "INSERT INTO documents(id, tenant, agent, kind, name, version, created_at, updated_at,"
    " created_by, updated_by, encrypted, body)"
    " VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?6, ?7, ?7, encrypts(),"
    " encrypt(?2, 'document ' || ?1 || ' 1', ?8))";
constexpr char kChange[] =
    "UPDATE documents SET version=version+1, name=?2, updated_at=?3, updated_by=?4,"
    " encrypted=encrypts(),"
    " body=encrypt(tenant, 'document ' || id || ' ' || (version+1), ?5) WHERE id=?1";
constexpr char kMayChange[] =
    "SELECT agent, version FROM documents WHERE tenant=?1 AND kind=?2"
    " AND (?3 IS NULL OR agent=?3) AND id=?4";
constexpr char kRemove[] = "DELETE FROM documents WHERE id=?";
constexpr uint32_t kMaxList = 1000;

std::unexpected<Error> none(const std::string& kind, const std::string& id) {
  return fail(Code::kNotFound, "there is no " + kind + " " + id);
}

Document documentOf(const Statement& row) {
  return {.seq = row.natural(0),
          .id = row.text(1),
          .tenant = row.text(2),
          .agent = row.text(3),
          .kind = row.text(4),
          .name = row.text(5),
          .version = row.natural(6),
          .created_at = row.integer(7),
          .updated_at = row.integer(8),
          .created_by = row.text(9),
          .updated_by = row.text(10),
          .json = row.text(11)};
}

Result<> record(Transaction tx, model::AuditEvent event, const Document& document) {
  event.details["name"] = document.name;
  event.details["version"] = document.version;
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<Document> readBack(Transaction tx, const std::string& tenant, const std::string& kind,
                          const std::string& id, const model::AuditEvent& event) {
  Document stored = TRY(getDocument(tx.db, {.tenant = tenant}, kind, id));
  model::AuditEvent row = event;
  row.subject = stored.id;
  TRY(record(tx, std::move(row), stored));
  return stored;
}

// The id of the agent's document of this name; "": none.
Result<std::string> ownNamed(Database& db, const std::string& tenant, const std::string& kind,
                             const std::string& agent, const std::string& name) {
  Statement row = TRY(db.use(kOwn));
  return TRY(row.bind(tenant, kind, agent, name).step()) ? row.text(0) : std::string();
}

Result<> checkRoom(Database& db, const NewDocument& document, uint64_t most) {
  Statement row = TRY(db.use(kCount));
  TRY(row.bind(document.tenant, document.kind).step());
  if (row.natural(0) < most) return {};
  return fail(Code::kQuota, "the tenant has " + std::to_string(row.natural(0)) + " of the kind " +
                                document.kind + ", and may have " + std::to_string(most) +
                                "; delete some");
}

Result<> insert(Database& db, const NewDocument& document, const std::string& by) {
  Statement put = TRY(db.use(kInsert));
  return put
      .bind(document.id, document.tenant, document.agent, document.kind, document.name, document.at,
            by, Blob{document.json})
      .run();
}

Result<> replace(Database& db, const std::string& id, const std::string& name,
                 const std::string& json, int64_t at, const std::string& by) {
  Statement put = TRY(db.use(kChange));
  return put.bind(id, name, at, by, Blob{json}).run();
}

struct Found {
  std::string agent;
  uint64_t version = 0;
};

// The document that the reader may change.
Result<Found> changeable(Database& db, const DocumentReader& by, const std::string& kind,
                         const std::string& id) {
  Statement row = TRY(db.use(kMayChange));
  if (!TRY(row.bind(by.tenant, kind, by.agent, id).step())) return none(kind, id);
  return Found{.agent = row.text(0), .version = row.natural(1)};
}

// The number of the document `id`; `otherwise` for "".
Result<uint64_t> seqOf(Database& db, const DocumentReader& reader, const std::string& kind,
                       const std::string& id, uint64_t otherwise) {
  if (id.empty()) return otherwise;
  return TRY(getDocument(db, reader, kind, id)).seq;
}

}  // namespace

Result<Document> createDocument(Transaction tx, const NewDocument& document, uint64_t most,
                                const model::AuditEvent& event) {
  const std::string taken =
      TRY(ownNamed(tx.db, document.tenant, document.kind, document.agent, document.name));
  if (!taken.empty()) {
    return fail(Code::kConflict,
                "name: " + taken + " has the name " + document.name +
                    " already; change it, or choose another name",
                "name");
  }
  TRY(checkRoom(tx.db, document, most));
  TRY(insert(tx.db, document, event.principal.key_id));
  return readBack(tx, document.tenant, document.kind, document.id, event);
}

Result<Document> putDocument(Transaction tx, const NewDocument& document, uint64_t most,
                             const model::AuditEvent& event) {
  const std::string id =
      TRY(ownNamed(tx.db, document.tenant, document.kind, document.agent, document.name));
  if (id.empty()) return createDocument(tx, document, most, event);
  TRY(replace(tx.db, id, document.name, document.json, document.at, event.principal.key_id));
  return readBack(tx, document.tenant, document.kind, id, event);
}

Result<Document> changeDocument(Transaction tx, const DocumentChange& change,
                                const model::AuditEvent& event) {
  const Found found = TRY(changeable(tx.db, change.by, change.kind, change.id));
  const std::string taken =
      TRY(ownNamed(tx.db, change.by.tenant, change.kind, found.agent, change.name));
  if (!taken.empty() && taken != change.id) {
    return fail(Code::kConflict, "name: " + taken + " has the name " + change.name + " already",
                "name");
  }
  TRY(replace(tx.db, change.id, change.name, change.json, change.at, event.principal.key_id));
  return readBack(tx, change.by.tenant, change.kind, change.id, event);
}

Result<void> removeDocument(Transaction tx, const DocumentKey& of, const model::AuditEvent& event) {
  TRY(changeable(tx.db, of.by, of.kind, of.id));
  const Document last = TRY(getDocument(tx.db, {.tenant = of.by.tenant}, of.kind, of.id));
  Statement remove = TRY(tx.db.use(kRemove));
  TRY(remove.bind(of.id).run());
  model::AuditEvent row = event;
  row.subject = of.id;
  return record(tx, std::move(row), last);
}

Result<void> noteDocumentUse(Transaction tx, const model::AuditEvent& event) {
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<Document> getDocument(Database& db, const DocumentReader& reader, const std::string& kind,
                             const std::string& id) {
  Statement row = TRY(db.use(kGet));
  if (!TRY(row.bind(reader.tenant, kind, reader.agent, id).step())) return none(kind, id);
  return documentOf(row);
}

Result<Document> documentNamed(Database& db, const DocumentReader& reader, const std::string& kind,
                               const std::string& name) {
  Statement row = TRY(db.use(kNamed));
  if (!TRY(row.bind(reader.tenant, kind, reader.agent, name, reader.own).step()))
    return none(kind, name);
  return documentOf(row);
}

Result<std::vector<Document>> listDocuments(Database& db, const DocumentReader& reader,
                                            const DocumentQuery& query) {
  const uint64_t after = TRY(seqOf(db, reader, query.kind, query.after, 0));
  const uint64_t before = TRY(seqOf(db, reader, query.kind, query.before, INT64_MAX));
  Statement row = TRY(db.use(query.newest_first ? kListNewest : kList));
  row.bind(reader.tenant, query.kind, reader.agent, after, before, query.name,
           std::clamp(query.limit, 1U, kMaxList));
  std::vector<Document> found;
  while (TRY(row.step()))
    found.push_back(documentOf(row));
  return found;
}

}  // namespace cloister::store
