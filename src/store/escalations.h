// SPDX-License-Identifier: Apache-2.0
// The ledger's part for escalations: requests to exceed one's permissions, decisions on requests,
// policies of agents, and pending notifications. Threads, durability and `done` as in store.h.
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

// A pending notification: one row for each channel, kept until delivered or given up.
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
  uint32_t notifications = 10'000;    // more are left out, as noted in the escalation
};

// An escalation to be made; its id is the ledger's to give.
struct NewEscalation {
  model::Escalation escalation;
  model::AuditEvent event;            // its subject and `id` are filled in
  std::vector<std::string> channels;  // channels to notify
  EscalationBounds bounds;
  std::string request_json = {};    // the request, if no execution of the ledger has it
  std::string workspace_json = {};  // the session's workspace at the request; "" if none
  // A rule approved the request at once: a second row, filled in like the first.
  std::optional<model::AuditEvent> approval = {};
};

// A change of an escalation: read, altered, written and audited within one transaction. `apply` is
// called on the ledger's thread, perhaps twice, and must be pure. An error changes nothing.
struct EscalationChange {
  std::string tenant;
  std::string id;
  std::function<Result<model::AuditEvent>(model::Escalation&)> apply;
  std::vector<std::string> channels;
  std::string notification;  // text of the notification
  uint32_t notifications = 10'000;
};

class Escalations {
 public:
  explicit Escalations(Engine& engine) : engine_(engine) {}

  // kConflict if `scope` is all tenants and several tenants have an escalation of this id.
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
  // Due changes of status without a person's action, in all tenants, in order of their time.
  Result<std::vector<model::Escalation>> dueEscalations(int64_t now, uint32_t limit);
  // `channel`: "" for all channels.
  Result<std::vector<Notification>> dueNotifications(const std::string& channel, int64_t now,
                                                     uint32_t limit);
  // As Store::mismatches().
  Result<std::vector<Mismatch>> mismatches(uint64_t after, uint32_t limit);
  // The accepted request; kNotFound if no longer kept, kConflict if the request does not match the
  // record.
  Result<std::string> request(const model::Escalation& escalation);
  // The session's workspace at the request, as stored; kNotFound if not kept, kConflict as in
  // request().
  Result<std::string> workspace(const model::Escalation& escalation);
  // An unfinished execution, with its request and spec; kNotFound otherwise.
  Result<Pending> pending(const Scope& scope, const std::string& execution_id);

 private:
  Engine& engine_;
};

}  // namespace cloister::store
