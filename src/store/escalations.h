// SPDX-License-Identifier: Apache-2.0
// The ledger's part about escalations: requests to exceed what one may do, who decided on them, the
// policies of agents, and the notifications that are still to be delivered. Threads, durability and
// `done` are as store.h has them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/audit_entry.h"
#include "model/escalation.h"
#include "model/execution.h"
#include "store/query.h"
#include "store/scope.h"
#include "store/write.h"

namespace cloister::store {

class Engine;
struct Mismatch;
struct Pending;

// What is to be told, and how: one row for each channel, kept until it was delivered or given up.
struct Notification {
  uint64_t seq = 0;  // given by the ledger
  std::string channel;
  std::string tenant;
  std::string escalation;
  std::string event;  // "escalation.requested", "escalation.approved", …
  uint32_t attempts = 0;
  int64_t created_at = 0;
  int64_t due_at = 0;
};

// How much may wait.
struct EscalationBounds {
  uint32_t pending_per_tenant = 256;  // then kQuota
  uint32_t notifications = 10'000;    // then they are left out, and the escalation says so
};

// An escalation to be made; its id is the ledger's to give.
struct NewEscalation {
  model::Escalation escalation;
  model::AuditEvent event;            // its subject and `id` are filled in
  std::vector<std::string> channels;  // who are told
  EscalationBounds bounds;
  std::string request_json = {};    // what is asked for, where no execution of the ledger has it
  std::string workspace_json = {};  // what its session's workspace had in it; "" if it has none
};

// A change of one: read, altered, written and audited within one transaction. `apply` is called on
// the ledger's thread, perhaps twice; it must be pure. An error changes nothing.
struct EscalationChange {
  std::string tenant;
  std::string id;
  std::function<Result<model::AuditEvent>(model::Escalation&)> apply;
  std::vector<std::string> channels;
  std::string notification;  // what they are told
  uint32_t notifications = 10'000;
};

class Escalations {
 public:
  explicit Escalations(Engine& engine) : engine_(engine) {}

  // kConflict where several tenants have one of that id and `scope` is all of them.
  Result<model::Escalation> get(const Scope& scope, const std::string& id);
  // Newest first.
  Result<std::vector<model::Escalation>> list(const Scope& scope, const EscalationQuery& query);
  Result<std::optional<model::Escalation>> ofExecution(const Scope& scope, const std::string& id);
  // Seconds from request to decision, the mean of the last ones; nullopt while there are none.
  Result<std::optional<int64_t>> usualWait(const Scope& scope);
  // The default where none was set.
  Result<model::EscalationPolicy> policy(const std::string& tenant, const std::string& agent);
  // How many there are in each status, of every tenant.
  Result<std::map<model::EscalationStatus, uint64_t>> count();
  // Of every tenant: those whose status is to change by itself, the first first.
  Result<std::vector<model::Escalation>> dueEscalations(int64_t now, uint32_t limit);
  // `channel`: "" for all of them.
  Result<std::vector<Notification>> dueNotifications(const std::string& channel, int64_t now,
                                                     uint32_t limit);
  // As Store::mismatches().
  Result<std::vector<Mismatch>> mismatches(uint64_t after, uint32_t limit);
  // What it asks for, as it was accepted; kNotFound where that is not kept any more, kConflict
  // where it is not what the record says.
  Result<std::string> request(const model::Escalation& escalation);
  // What its session's workspace had in it when it was asked for, as it was given; kNotFound where
  // nothing of that is kept, kConflict as of request().
  Result<std::string> workspace(const model::Escalation& escalation);
  // An execution that has not ended, with what it was asked with; kNotFound otherwise.
  Result<Pending> pending(const Scope& scope, const std::string& execution_id);

 private:
  Engine& engine_;
};

}  // namespace cloister::store
