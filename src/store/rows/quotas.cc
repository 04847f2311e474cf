// SPDX-License-Identifier: Apache-2.0
#include "store/rows/quotas.h"

#include <map>

#include "base/json.h"
#include "store/agent_store.h"
#include "store/rows/queries.h"
#include "store/sql/chain.h"

namespace cloister::store {
namespace {

constexpr char kPut[] =
    "INSERT INTO quotas(tenant, agent, record) VALUES (?,?,?)"
    " ON CONFLICT(tenant, agent) DO UPDATE SET record=excluded.record";
constexpr char kRemove[] = "DELETE FROM quotas WHERE tenant=? AND agent=?";
constexpr char kOthers[] =
    "SELECT count(*) FROM quotas WHERE tenant=?1 AND agent<>'' AND agent<>?2";
constexpr char kAll[] = "SELECT tenant, agent, record FROM quotas";
constexpr char kCpu[] =
    "SELECT tenant, agent, sum(json_extract(legible(encrypted, tenant, 'record ' || id, record),"
    " '$.usage.cpu_ms')) FROM executions"
    " WHERE finished_at>0 AND finished_at>=? GROUP BY tenant, agent";
// Processor time of sessions' sandboxes beyond the time of their executions.
constexpr char kSessionCpu[] =
    "SELECT s.tenant, s.agent, sum(max(0,"
    " coalesce(json_extract(legible(s.encrypted, s.tenant, 'session ' || s.id, s.record),"
    " '$.usage.cpu_ms'), 0)"
    " - (SELECT coalesce(sum(json_extract(legible(e.encrypted, e.tenant, 'record ' || e.id,"
    " e.record), '$.usage.cpu_ms')), 0) FROM executions e"
    " WHERE e.session_id<>'' AND e.session_id=s.id)))"
    " FROM sessions s WHERE s.ended_at>0 AND s.ended_at>=? GROUP BY s.tenant, s.agent";

Result<> write(Transaction tx, const model::QuotaRecord& record) {
  if (record.quota == model::Quota{}) {
    Statement remove = TRY(tx.db.use(kRemove));
    return remove.bind(record.scope.tenant, record.scope.agent).run();
  }
  const std::string text = base::toJson(model::toJsonObject(record.quota));
  Statement put = TRY(tx.db.use(kPut));
  return put.bind(record.scope.tenant, record.scope.agent, text).run();
}

}  // namespace

std::string quotaSubject(const model::QuotaScope& scope) {
  const std::string subject = agentSubject({scope.tenant, scope.agent});
  const std::string name = subject.substr(subject.find(':') + 1);
  return "quota:" + (scope.agent.empty() ? name.substr(0, name.size() - 1) : name);
}

Result<void> putQuota(Transaction tx, const model::QuotaRecord& record, uint64_t most,
                      const model::AuditEvent& event) {
  if (!record.scope.agent.empty()) {
    Statement others = TRY(tx.db.use(kOthers));
    TRY(others.bind(record.scope.tenant, record.scope.agent).step());
    if (others.natural(0) >= most) {
      return fail(Code::kQuota, "the tenant has quotas for " + std::to_string(most) +
                                    " agents already (agents.per_tenant); remove some");
    }
  }
  TRY(write(tx, record));
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<std::vector<model::QuotaRecord>> readQuotas(Database& db) {
  Statement all = TRY(db.use(kAll));
  std::vector<model::QuotaRecord> records;
  while (TRY(all.step())) {
    model::QuotaRecord record{{std::string(all.text(0)), std::string(all.text(1))}, {}};
    const base::json::value value = TRY(base::parseJson(all.text(2)));
    if (!value.is_object()) return fail(Code::kInternal, "reading a quota: no object");
    record.quota = TRY(model::parseQuota(value.get_object(), "quota", !record.scope.agent.empty()));
    records.push_back(std::move(record));
  }
  return records;
}

Result<std::vector<CpuUse>> readCpuSince(Database& db, int64_t since) {
  std::map<model::QuotaScope, uint64_t> sums;
  for (const char* sql : {kCpu, kSessionCpu}) {
    Statement cpu = TRY(db.use(sql));
    cpu.bind(since);
    while (TRY(cpu.step()))
      sums[{std::string(cpu.text(0)), std::string(cpu.text(1))}] += cpu.natural(2);
  }
  std::vector<CpuUse> uses;
  for (const auto& [scope, cpu_ms] : sums)
    uses.push_back({scope, cpu_ms});
  return uses;
}

}  // namespace cloister::store
