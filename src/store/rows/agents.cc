// SPDX-License-Identifier: Apache-2.0
#include "store/rows/agents.h"

#include <algorithm>

#include "base/json.h"
#include "store/rows/queries.h"
#include "store/sql/chain.h"

namespace cloister::store {
namespace {

constexpr uint32_t kMaxList = 500;

constexpr char kGet[] =
    "SELECT record FROM agent_sandboxes WHERE tenant=?1 AND agent=?2"
    " AND (?3 IS NULL OR tenant=?3) AND (?4 IS NULL OR agent=?4)";
constexpr char kPut[] =
    "INSERT INTO agent_sandboxes(tenant, agent, version, record) VALUES (?,?,?,?)"
    " ON CONFLICT(tenant, agent) DO UPDATE SET version=excluded.version, record=excluded.record";
constexpr char kCount[] = "SELECT count(*) FROM agent_sandboxes WHERE tenant=?";
constexpr char kRemove[] = "DELETE FROM agent_sandboxes WHERE tenant=? AND agent=?";
constexpr char kList[] =
    "SELECT record FROM agent_sandboxes WHERE (tenant, agent) > (?1, ?2)"
    " AND (?3 IS NULL OR tenant=?3) AND (?4 = '' OR tenant=?4)"
    " AND (?5 IS NULL OR agent=?5) ORDER BY tenant, agent LIMIT ?6";
constexpr char kAddViolation[] =
    "INSERT INTO violations(id, tenant, agent, at, level, operation, what, outcome, rule, reason,"
    " words, subject, encrypted) VALUES (?1,?2,?3,?4,?5,?6,"
    " encrypt(?2, 'violation what ' || ?1, ?7),?8,?9,"
    " encrypt(?2, 'violation reason ' || ?1, ?10), encrypt(?2, 'violation words ' || ?1, ?11),?12,"
    " encrypts())";
constexpr char kRecent[] =
    "SELECT count(*) FROM violations WHERE tenant=? AND agent=? AND at>?"
    " AND outcome<>'agent_boundary'";
constexpr char kViolations[] =
    "SELECT seq, id, tenant, agent, at, level, operation, what, outcome, rule, reason, words,"
    " subject FROM plain_violations WHERE tenant=?1 AND agent=?2 AND (?3 IS NULL OR tenant=?3)"
    " AND (?4 IS NULL OR agent=?4) AND seq<?5 ORDER BY seq DESC LIMIT ?6";
// Finds rows about the agent by subject, because the actor may be of another tenant.
constexpr char kAudit[] =
    "SELECT seq, at, action, subject, tenant, app, agent, user, key_id, details, prev, hash,"
    " ifnull(number, seq) FROM audit WHERE seq IN ("
    " SELECT seq FROM (SELECT seq FROM audit WHERE tenant=?1 AND agent=?2 AND agent<>''"
    "  AND at>=?4 AND seq<?5 ORDER BY seq DESC LIMIT ?6)"
    " UNION SELECT seq FROM (SELECT seq FROM audit WHERE subject=?3 AND action LIKE 'agent.%'"
    "  AND at>=?4 AND seq<?5 ORDER BY seq DESC LIMIT ?6))"
    " ORDER BY seq DESC LIMIT ?6";
constexpr char kStatuses[] =
    "SELECT status, count(*) FROM executions WHERE tenant=? AND agent=? GROUP BY status";
constexpr char kCountSessions[] = "SELECT count(*) FROM sessions WHERE tenant=? AND agent=?";
constexpr char kViolationStats[] =
    "SELECT count(*), coalesce(max(at), 0) FROM violations WHERE tenant=? AND agent=?"
    " AND outcome<>'agent_boundary'";

// The same message for a missing agent and for an agent beyond the scope.
std::unexpected<Error> noSandbox(const std::string& agent) {
  return fail(Code::kNotFound, "agent " + agent + " has no sandbox");
}

uint64_t bounded(uint64_t before) {
  return before == 0 ? uint64_t{INT64_MAX} : std::min(before, uint64_t{INT64_MAX});
}

Result<model::AgentSandbox> decode(const std::string& text) {
  const base::json::value value = TRY(base::parseJson(text));
  if (!value.is_object()) return fail(Code::kInternal, "reading an agent's sandbox: no object");
  return model::parseAgentRecord(value.get_object());
}

Result<> write(Transaction tx, const model::AgentSandbox& sandbox) {
  const std::string record = base::toJson(model::toRecord(sandbox));
  Statement put = TRY(tx.db.use(kPut));
  return put.bind(sandbox.tenant, sandbox.agent, sandbox.version, record).run();
}

Result<uint64_t> violationsSince(Database& db, const model::AgentSandbox& sandbox, int64_t since) {
  Statement count = TRY(db.use(kRecent));
  TRY(count.bind(sandbox.tenant, sandbox.agent, since).step());
  return count.natural(0);
}

// The rule that lowers the level now; null for none.
Result<const Lowering*> dueLowering(Database& db, const model::AgentSandbox& sandbox, int64_t now,
                                    const std::vector<Lowering>& rules) {
  for (const Lowering& rule : rules) {
    if (rule.from != sandbox.level) continue;
    const int64_t since = std::max(sandbox.level_since, now - rule.within_us);
    if (TRY(violationsSince(db, sandbox, since)) >= rule.after) return &rule;
  }
  return nullptr;
}

model::AuditEvent violationEvent(const model::Violation& v, const model::Principal& by) {
  return {.action = "agent.violation",
          .subject = agentSubject({v.tenant, v.agent}),
          .principal = by,
          .details = {{"violation", v.id},
                      {"level", v.level},
                      {"operation", v.operation},
                      {"what", v.what},
                      {"outcome", v.outcome},
                      {"rule", v.rule},
                      {"reason", v.reason},
                      {"of", v.subject}}};
}

}  // namespace

std::string agentSubject(const AgentName& name) {
  std::string tenant;
  for (const char c : name.tenant)
    tenant += c == '/' ? "%2F" : c == '%' ? "%25" : std::string(1, c);
  return "agent:" + tenant + "/" + name.agent;
}

Result<model::AgentSandbox> putAgent(Transaction tx, const Scope& scope,
                                     model::AgentSandbox sandbox, uint64_t expected, uint64_t most,
                                     const model::AuditEvent& event) {
  if (!scope.has(sandbox.tenant, sandbox.agent)) return noSandbox(sandbox.agent);
  const auto known = getAgent(tx.db, scope, {sandbox.tenant, sandbox.agent});
  if (!known && known.error().code != Code::kNotFound) return std::unexpected(known.error());
  const uint64_t version = known ? known->version : 0;
  if (version != expected) {
    return fail(Code::kConflict, expected == 0 ? "agent " + sandbox.agent +
                                                     " has a sandbox already; update it "
                                                     "(cloister agent update), or delete it first"
                                               : "the sandbox of agent " + sandbox.agent +
                                                     " was changed meanwhile; try again");
  }
  if (expected == 0) {
    Statement count = TRY(tx.db.use(kCount));
    TRY(count.bind(sandbox.tenant).step());
    if (count.natural(0) >= most) {
      return fail(Code::kQuota, "the tenant has " + std::to_string(most) +
                                    " agents with a sandbox already (agents.per_tenant); delete "
                                    "those that are not used");
    }
  }
  sandbox.version = version + 1;
  TRY(write(tx, sandbox));
  TRY(tx.chain.append(tx.db, event));
  return sandbox;
}

Result<void> removeAgent(Transaction tx, const Scope& scope, const AgentName& name,
                         const model::AuditEvent& event) {
  TRY(getAgent(tx.db, scope, name));
  Statement remove = TRY(tx.db.use(kRemove));
  TRY(remove.bind(name.tenant, name.agent).run());
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<AfterViolation> addViolation(Transaction tx, const model::Violation& v,
                                    const std::vector<Lowering>& rules,
                                    const model::Principal& by) {
  Statement add = TRY(tx.db.use(kAddViolation));
  TRY(add.bind(v.id, v.tenant, v.agent, v.at, v.level, v.operation, v.what, v.outcome, v.rule,
               v.reason, v.words, v.subject)
          .run());
  TRY(tx.chain.append(tx.db, violationEvent(v, by)));
  if (v.outcome == model::Violation::kBoundary) return AfterViolation{};
  auto known = getAgent(tx.db, Scope::of(by), {v.tenant, v.agent});
  if (!known && known.error().code == Code::kNotFound) return AfterViolation{};
  if (!known) return std::unexpected(known.error());
  AfterViolation after{.sandbox = *std::move(known), .lowered_from = {}};
  model::AgentSandbox& sandbox = *after.sandbox;
  sandbox.violation_count++;
  sandbox.version++;
  if (const Lowering* rule = TRY(dueLowering(tx.db, sandbox, v.at, rules))) {
    after.lowered_from = sandbox.level;
    sandbox.level = rule->to;
    sandbox.level_since = v.at;
    sandbox.last_modified = std::max(v.at, sandbox.last_modified);
    TRY(tx.chain.append(tx.db, {.action = "agent.lowered",
                                .subject = agentSubject({v.tenant, v.agent}),
                                .principal = by,
                                .details = {{"from", rule->from},
                                            {"to", rule->to},
                                            {"violations", sandbox.violation_count},
                                            {"after", rule->after},
                                            {"why", rule->why}}}));
  }
  TRY(write(tx, sandbox));
  return after;
}

Result<model::AgentSandbox> getAgent(Database& db, const Scope& scope, const AgentName& name) {
  Statement row = TRY(db.use(kGet));
  if (TRY(row.bind(name.tenant, name.agent, scope.tenant(), scope.agent()).step()))
    return decode(row.text(0));
  return noSandbox(name.agent);
}

Result<std::vector<model::AgentSandbox>> listAgents(Database& db, const Scope& scope,
                                                    const AgentQuery& query) {
  Statement row = TRY(db.use(kList));
  row.bind(query.after.tenant, query.after.agent, scope.tenant(), query.tenant, scope.agent(),
           std::clamp(query.limit, 1U, kMaxList));
  std::vector<model::AgentSandbox> out;
  while (TRY(row.step()))
    out.push_back(TRY(decode(row.text(0))));
  return out;
}

Result<std::vector<model::Violation>> listViolations(Database& db, const Scope& scope,
                                                     const ViolationQuery& query) {
  Statement row = TRY(db.use(kViolations));
  row.bind(query.of.tenant, query.of.agent, scope.tenant(), scope.agent(),
           bounded(query.before_seq), std::clamp(query.limit, 1U, kMaxList));
  std::vector<model::Violation> out;
  while (TRY(row.step())) {
    model::Violation v;
    v.seq = row.natural(0);
    v.at = row.integer(4);
    using Text = std::string model::Violation::*;
    constexpr std::pair<int, Text> kTexts[] = {
        {1, &model::Violation::id},        {2, &model::Violation::tenant},
        {3, &model::Violation::agent},     {5, &model::Violation::level},
        {6, &model::Violation::operation}, {7, &model::Violation::what},
        {8, &model::Violation::outcome},   {9, &model::Violation::rule},
        {10, &model::Violation::reason},   {11, &model::Violation::words},
        {12, &model::Violation::subject}};
    for (const auto& [column, member] : kTexts)
      v.*member = row.text(column);
    out.push_back(std::move(v));
  }
  return out;
}

Result<std::vector<model::AuditEntry>> readAgentAudit(Database& db, const Scope& scope,
                                                      const AgentAuditQuery& query) {
  if (!scope.has(query.of.tenant, query.of.agent)) return std::vector<model::AuditEntry>{};
  const std::string subject = agentSubject(query.of);
  Statement row = TRY(db.use(kAudit));
  row.bind(query.of.tenant, query.of.agent, subject, query.since, bounded(query.before_seq),
           std::clamp(query.limit, 1U, kMaxList));
  return readAuditRows(db, row);
}

Result<AgentStats> readAgentStats(Database& db, const Scope& scope, const AgentName& name) {
  AgentStats stats;
  if (!scope.has(name.tenant, name.agent)) return stats;
  Statement statuses = TRY(db.use(kStatuses));
  statuses.bind(name.tenant, name.agent);
  while (TRY(statuses.step()))
    stats.executions[statuses.text(0)] = statuses.natural(1);
  Statement sessions = TRY(db.use(kCountSessions));
  TRY(sessions.bind(name.tenant, name.agent).step());
  stats.sessions = sessions.natural(0);
  Statement violations = TRY(db.use(kViolationStats));
  TRY(violations.bind(name.tenant, name.agent).step());
  stats.violations = violations.natural(0);
  stats.last_violation = violations.integer(1);
  return stats;
}

}  // namespace cloister::store
