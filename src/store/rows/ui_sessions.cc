// SPDX-License-Identifier: Apache-2.0
#include "store/rows/ui_sessions.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "store/sql/chain.h"

namespace cloister::store {
namespace {

#define UI_COLUMNS                                                                       \
  "id, sha256, person, issuer, credential, tenant, app, agent, user, roles, created_at," \
  " used_at, ends_at"
constexpr char kInsert[] =
    "INSERT INTO ui_sessions(" UI_COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)";
constexpr char kByHash[] = "SELECT " UI_COLUMNS " FROM ui_sessions WHERE sha256=?";
constexpr char kById[] = "SELECT " UI_COLUMNS " FROM ui_sessions WHERE id=?";
constexpr char kList[] = "SELECT " UI_COLUMNS
                         " FROM ui_sessions WHERE ?1 IS NULL OR tenant=?1"
                         " ORDER BY created_at DESC, id DESC LIMIT ?2";
#undef UI_COLUMNS
constexpr char kRemoveEnded[] = "DELETE FROM ui_sessions WHERE ends_at<=?1 OR used_at<?2";
constexpr char kMakeRoom[] =
    "DELETE FROM ui_sessions WHERE id IN (SELECT id FROM ui_sessions WHERE person=?1"
    " ORDER BY used_at DESC, created_at DESC LIMIT -1 OFFSET ?2)";
constexpr char kCount[] =
    "SELECT count(*) FROM ui_sessions WHERE ends_at>?1 AND used_at>=?2 AND person<>?3";
constexpr char kCountOfTenant[] =
    "SELECT count(*) FROM ui_sessions WHERE ends_at>?1 AND used_at>=?2 AND person<>?3 AND "
    "tenant=?4";
constexpr char kRemove[] = "DELETE FROM ui_sessions WHERE id=? RETURNING 1";
constexpr char kUse[] = "UPDATE ui_sessions SET used_at=?1 WHERE id=?2 AND used_at<?1";

std::string rolesText(model::Roles roles) {
  std::string text;
  for (const std::string_view name : model::names(roles))
    text += (text.empty() ? "" : " ") + std::string(name);
  return text;
}

Result<UiSession> readSession(const Statement& row) {
  UiSession session{.id = row.text(0),
                    .sha256 = row.text(1),
                    .person = row.text(2),
                    .issuer = row.text(3),
                    .principal = {.tenant = row.text(5),
                                  .app = row.text(6),
                                  .agent = row.text(7),
                                  .user = row.text(8),
                                  .roles = {},
                                  .key_id = row.text(4)},
                    .created_at = row.integer(10),
                    .used_at = row.integer(11),
                    .ends_at = row.integer(12)};
  std::istringstream in(row.text(9));
  std::vector<std::string> names;
  for (std::string name; in >> name;)
    names.push_back(name);
  auto roles = model::rolesFromNames(names);
  if (!roles) return std::unexpected(std::move(roles).error().within("reading " + session.id));
  session.principal.roles = *roles;
  return session;
}

Result<std::optional<UiSession>> one(Database& db, const char* sql, const std::string& value) {
  Statement row = TRY(db.use(sql));
  if (!TRY(row.bind(value).step())) return std::nullopt;
  return TRY(readSession(row));
}

// A quarter of the places is not for the tenants that have the most: one tenant, and the next,
// leave places to others. Administrators always find a place.
Result<> checkRoom(Database& db, const UiSession& session, const UiSessionRoom& room,
                   uint64_t others) {
  if (session.principal.isAdmin()) return {};
  Statement count = TRY(db.use(kCountOfTenant));
  TRY(count.bind(session.created_at, room.unused_since, session.person, session.principal.tenant)
          .step());
  const uint64_t of_tenant = count.natural(0);
  const uint64_t left = room.most - std::min(room.most, others - std::min(others, of_tenant));
  if (of_tenant < left - left / 4) return {};
  return fail(Code::kQuota, "ui.sessions: " + std::to_string(others) +
                                " sessions of other people are open, " + std::to_string(of_tenant) +
                                " of this tenant; retry after one has ended, or raise ui.sessions");
}

}  // namespace

base::json::object rightsOf(const UiSession& session) {
  const model::Principal& who = session.principal;
  const auto names = model::names(who.roles);
  return {{"session_sha256", session.sha256},
          {"issuer", session.issuer},
          {"credential", who.key_id},
          {"tenant", who.tenant},
          {"app", who.app},
          {"agent", who.agent},
          {"user", who.user},
          {"roles", base::json::array(names.begin(), names.end())},
          {"ends_at", session.ends_at}};
}

Result<void> putUiSession(Transaction tx, const UiSession& session, const UiSessionRoom& room,
                          const model::AuditEvent& event) {
  const model::Principal& who = session.principal;
  if (session.sha256.empty() || session.person.empty() || who.tenant.empty() || who.roles.empty()) {
    return fail(Code::kInvalid, "storing a session: it lacks its digest, person, tenant or roles");
  }
  Statement count = TRY(tx.db.use(kCount));
  TRY(count.bind(session.created_at, room.unused_since, session.person).step());
  const uint64_t others = count.natural(0);
  TRY(checkRoom(tx.db, session, room, others));
  Statement ended = TRY(tx.db.use(kRemoveEnded));
  TRY(ended.bind(session.created_at, room.unused_since).run());
  Statement make_room = TRY(tx.db.use(kMakeRoom));
  const uint64_t left = room.most - std::min(room.most, others);
  const uint64_t own = std::max<uint64_t>(1, std::min(room.per_person, left));
  TRY(make_room.bind(session.person, own - 1).run());
  Statement insert = TRY(tx.db.use(kInsert));
  const std::string roles = rolesText(who.roles);
  TRY(insert
          .bind(session.id, session.sha256, session.person, session.issuer, who.key_id, who.tenant,
                who.app, who.agent, who.user, roles, session.created_at, session.used_at,
                session.ends_at)
          .run());
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<void> removeUiSession(Transaction tx, const std::string& id,
                             const model::AuditEvent& event) {
  Statement remove = TRY(tx.db.use(kRemove));
  if (!TRY(remove.bind(id).step())) return {};
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<void> noteUiSessionUse(Transaction tx, const std::string& id, int64_t at) {
  Statement use = TRY(tx.db.use(kUse));
  return use.bind(at, id).run();
}

Result<void> noteUiRefusal(Transaction tx, const model::AuditEvent& event) {
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<std::optional<UiSession>> findUiSession(Database& db, const std::string& sha256) {
  return one(db, kByHash, sha256);
}

Result<std::optional<UiSession>> getUiSession(Database& db, const std::string& id) {
  return one(db, kById, id);
}

Result<std::vector<UiSession>> listUiSessions(Database& db, const Scope& scope, uint32_t limit) {
  Statement row = TRY(db.use(kList));
  row.bind(scope.tenant(), limit);
  std::vector<UiSession> out;
  while (TRY(row.step()))
    out.push_back(TRY(readSession(row)));
  return out;
}

}  // namespace cloister::store
