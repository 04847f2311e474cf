// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite_escalations.h"

#include "store/rows/escalation_rows.h"
#include "store/rows/executions.h"
#include "store/rows/proof.h"

namespace cloister::store {

template <class T>
void SqliteEscalations::submit(std::string subject, typename WriteOf<T>::Work work, Done<T> done) {
  auto write = std::make_unique<WriteOf<T>>(std::move(work), std::move(done));
  write->subject = std::move(subject);
  writer_.submit(std::move(write));
}

// What is read is shown only once it is as durable as an acknowledgement.
template <class Read>
auto SqliteEscalations::read(Read read) -> decltype(read(std::declval<Database&>())) {
  auto result = readers_.with(read);
  TRY(syncer_.settle(""));
  return result;
}

void SqliteEscalations::add(NewEscalation asked, Done<model::Escalation> done) {
  submit<model::Escalation>(
      {}, [asked = std::move(asked)](Transaction tx) { return addEscalationRow(tx, asked); },
      std::move(done));
}

void SqliteEscalations::change(EscalationChange change, Done<model::Escalation> done) {
  submit<model::Escalation>(
      {}, [change = std::move(change)](Transaction tx) { return changeEscalationRow(tx, change); },
      std::move(done));
}

void SqliteEscalations::changeWith(EscalationChange change, model::Execution execution,
                                   model::AuditEvent event, Done<model::Escalation> done) {
  std::string subject = execution.id;
  submit<model::Escalation>(
      std::move(subject),
      [change = std::move(change), execution = std::move(execution),
       event = std::move(event)](Transaction tx) -> Result<model::Escalation> {
        model::Escalation changed = TRY(changeEscalationRow(tx, change));
        TRY(updateExecution(tx, execution, event));
        return changed;
      },
      std::move(done));
}

void SqliteEscalations::putPolicy(std::string tenant, model::EscalationPolicy policy,
                                  model::AuditEvent event, Done<void> done) {
  submit<void>(
      {},
      [tenant = std::move(tenant), policy = std::move(policy), event = std::move(event)](
          Transaction tx) { return putEscalationPolicyRow(tx, tenant, policy, event); },
      std::move(done));
}

void SqliteEscalations::finish(uint64_t seq, std::optional<model::AuditEvent> event,
                               Done<void> done) {
  submit<void>(
      {},
      [seq, event = std::move(event)](Transaction tx) {
        return finishNotificationRow(tx, seq, event);
      },
      std::move(done));
}

void SqliteEscalations::retry(uint64_t seq, int64_t due_at, Done<void> done) {
  submit<void>(
      {}, [seq, due_at](Transaction tx) { return retryNotificationRow(tx, seq, due_at); },
      std::move(done));
}

Result<model::Escalation> SqliteEscalations::get(const Scope& scope, const std::string& id) {
  return read([&](Database& db) { return getEscalation(db, scope, id); });
}

Result<std::vector<model::Escalation>> SqliteEscalations::list(const Scope& scope,
                                                               const EscalationQuery& query) {
  return read([&](Database& db) { return listEscalations(db, scope, query); });
}

Result<std::optional<model::Escalation>> SqliteEscalations::ofExecution(const Scope& scope,
                                                                        const std::string& id) {
  return read([&](Database& db) { return escalationOfExecution(db, scope, id); });
}

Result<std::optional<int64_t>> SqliteEscalations::usualWait(const Scope& scope) {
  return read([&](Database& db) { return store::usualWait(db, scope); });
}

Result<model::EscalationPolicy> SqliteEscalations::policy(const std::string& tenant,
                                                          const std::string& agent) {
  return read([&](Database& db) { return getEscalationPolicy(db, tenant, agent); });
}

Result<std::map<model::EscalationStatus, uint64_t>> SqliteEscalations::count() {
  return read([](Database& db) { return countEscalations(db); });
}

Result<std::vector<model::Escalation>> SqliteEscalations::dueEscalations(int64_t now,
                                                                         uint32_t limit) {
  return read([&](Database& db) { return dueEscalationRows(db, now, limit); });
}

Result<std::vector<Notification>> SqliteEscalations::dueNotifications(const std::string& channel,
                                                                      int64_t now, uint32_t limit) {
  return read([&](Database& db) { return dueNotificationRows(db, channel, now, limit); });
}

Result<std::vector<Mismatch>> SqliteEscalations::mismatches(uint64_t after, uint32_t limit) {
  return read([&](Database& db) { return findEscalationMismatches(db, after, limit); });
}

Result<std::string> SqliteEscalations::request(const model::Escalation& escalation) {
  return read([&](Database& db) { return getEscalationRequest(db, escalation); });
}

Result<std::string> SqliteEscalations::workspace(const model::Escalation& escalation) {
  return read([&](Database& db) { return getEscalationWorkspace(db, escalation); });
}

Result<Pending> SqliteEscalations::pending(const Scope& scope, const std::string& execution_id) {
  return read([&](Database& db) { return getPending(db, scope, execution_id); });
}

}  // namespace cloister::store
