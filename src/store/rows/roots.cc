// SPDX-License-Identifier: Apache-2.0
#include "store/rows/roots.h"

#include <algorithm>

#include "store/sql/engine.h"

namespace cloister::store {
namespace {

#define CLOISTER_ROOT                                                                            \
  "SELECT number, begins, ends, first_row, last_row, secret, root, log, prev, key_id, signature" \
  " FROM audit_roots"
constexpr char kNewestRoot[] = CLOISTER_ROOT " ORDER BY number DESC LIMIT 1";
constexpr char kListRoots[] = CLOISTER_ROOT " WHERE number>? ORDER BY number LIMIT ?";
constexpr char kCovering[] = CLOISTER_ROOT " WHERE last_row>=? ORDER BY last_row, number LIMIT 1";
#undef CLOISTER_ROOT
constexpr char kAddRoot[] = "INSERT INTO audit_roots VALUES (?,?,?,?,?,?,?,?,?,?,?)";
constexpr char kDropRoots[] = "DELETE FROM audit_roots WHERE number<=?";
constexpr char kHashes[] = "SELECT seq, hash FROM audit WHERE seq>? ORDER BY seq LIMIT ?";
constexpr uint32_t kMaxRoots = 1000;
constexpr uint32_t kMaxHashes = 10'000;

StoredRoot rootOf(const Statement& row) {
  return {.root = {.number = row.natural(0),
                   .begins = row.integer(1),
                   .ends = row.integer(2),
                   .root = row.text(6),
                   .log = row.text(7),
                   .prev = row.text(8),
                   .key_id = row.text(9),
                   .signature = row.text(10)},
          .first = row.natural(3),
          .last = row.natural(4),
          .secret = row.text(5)};
}

Result<std::optional<StoredRoot>> oneRoot(Statement row) {
  if (!TRY(row.step())) return std::nullopt;
  return rootOf(row);
}

}  // namespace

Result<void> putRoot(Transaction tx, const StoredRoot& made, uint64_t keep) {
  const auto before = TRY(newestRoot(tx.db));
  const model::AuditRoot& root = made.root;
  if (root.number != (before ? before->root.number + 1 : 1)) {
    return fail(Code::kConflict, "adding a root of the audit log: " + std::to_string(root.number) +
                                     " is not the next number");
  }
  {
    Statement add = TRY(tx.db.use(kAddRoot));
    TRY(add.bind(root.number, root.begins, root.ends, made.first, made.last, made.secret, root.root,
                 root.log, root.prev, root.key_id, root.signature)
            .run());
  }
  if (root.number <= keep) return {};
  Statement drop = TRY(tx.db.use(kDropRoots));
  return drop.bind(root.number - keep).run();
}

Result<std::optional<StoredRoot>> newestRoot(Database& db) {
  return oneRoot(TRY(db.use(kNewestRoot)));
}

Result<std::vector<StoredRoot>> listRoots(Database& db, uint64_t after, uint32_t limit) {
  Statement row = TRY(db.use(kListRoots));
  row.bind(after, std::clamp(limit, 1U, kMaxRoots));
  std::vector<StoredRoot> found;
  while (TRY(row.step()))
    found.push_back(rootOf(row));
  return found;
}

// Periods without entries end where the period before ended, so the first of these has the entry.
Result<std::optional<StoredRoot>> rootCovering(Database& db, uint64_t position) {
  Statement row = TRY(db.use(kCovering));
  row.bind(position);
  auto found = TRY(oneRoot(std::move(row)));
  return found && found->first <= position ? found : std::nullopt;
}

Result<std::vector<EntryHash>> entryHashes(Database& db, uint64_t after, uint32_t limit) {
  Statement row = TRY(db.use(kHashes));
  row.bind(after, std::clamp(limit, 1U, kMaxHashes));
  std::vector<EntryHash> found;
  while (TRY(row.step()))
    found.push_back({.position = row.natural(0), .hash = row.text(1)});
  return found;
}

Result<std::optional<StoredRoot>> RootStore::newest() {
  return engine_.read("", newestRoot);
}

Result<std::vector<StoredRoot>> RootStore::list(uint64_t after, uint32_t limit) {
  return engine_.read("", [&](Database& db) { return listRoots(db, after, limit); });
}

Result<std::optional<StoredRoot>> RootStore::covering(uint64_t position) {
  return engine_.read("", [&](Database& db) { return rootCovering(db, position); });
}

Result<std::vector<EntryHash>> RootStore::hashes(uint64_t after, uint32_t limit) {
  return engine_.read("", [&](Database& db) { return entryHashes(db, after, limit); });
}

}  // namespace cloister::store
