// SPDX-License-Identifier: Apache-2.0
// Escalations in the SQLite ledger: its writer, its readers, its syncer.
#pragma once

#include <map>

#include "store/escalations.h"
#include "store/sql/readers.h"
#include "store/sql/syncer.h"
#include "store/sql/writer.h"

namespace cloister::store {

class SqliteEscalations final : public Escalations {
 public:
  // All three outlive it.
  SqliteEscalations(Writer& writer, Readers& readers, Syncer& syncer)
      : writer_(writer), readers_(readers), syncer_(syncer) {}

  void add(NewEscalation asked, Done<model::Escalation> done) override;
  void change(EscalationChange change, Done<model::Escalation> done) override;
  void changeWith(EscalationChange change, model::Execution execution, model::AuditEvent event,
                  Done<model::Escalation> done) override;
  void putPolicy(std::string tenant, model::EscalationPolicy policy, model::AuditEvent event,
                 Done<void> done) override;
  void finish(uint64_t seq, std::optional<model::AuditEvent> event, Done<void> done) override;
  void retry(uint64_t seq, int64_t due_at, Done<void> done) override;

  Result<model::Escalation> get(const Scope& scope, const std::string& id) override;
  Result<std::vector<model::Escalation>> list(const Scope& scope,
                                              const EscalationQuery& query) override;
  Result<std::optional<model::Escalation>> ofExecution(const Scope& scope,
                                                       const std::string& id) override;
  Result<std::optional<int64_t>> usualWait(const Scope& scope) override;
  Result<model::EscalationPolicy> policy(const std::string& tenant,
                                         const std::string& agent) override;
  Result<std::map<model::EscalationStatus, uint64_t>> count() override;
  Result<std::vector<model::Escalation>> dueEscalations(int64_t now, uint32_t limit) override;
  Result<std::vector<Notification>> dueNotifications(const std::string& channel, int64_t now,
                                                     uint32_t limit) override;
  Result<std::vector<Mismatch>> mismatches(uint64_t after, uint32_t limit) override;
  Result<std::string> request(const model::Escalation& escalation) override;
  Result<std::string> workspace(const model::Escalation& escalation) override;
  Result<Pending> pending(const Scope& scope, const std::string& execution_id) override;

 private:
  template <class T>
  void submit(std::string subject, typename WriteOf<T>::Work work, Done<T> done);
  template <class Read>
  auto read(Read read) -> decltype(read(std::declval<Database&>()));

  Writer& writer_;
  Readers& readers_;
  Syncer& syncer_;
};

}  // namespace cloister::store
