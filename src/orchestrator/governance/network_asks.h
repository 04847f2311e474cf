// SPDX-License-Identifier: Apache-2.0
// NetworkAsks: destinations that a door refused, and that approvers may allow. A refused attempt
// whose verdict says so (OnDenied) becomes an escalation of the operation network. While the
// escalation is approved, its destination is a rule of the door's plan; denial, expiry and revoked
// votes take the rule away again. The escalation in the ledger is the truth.
//
// Also counts the refused attempts of agents with rules as violations, one for each destination of
// a door.
//
// On the executor of Control (one thread). Always in a shared_ptr.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/network.h"
#include "orchestrator/core/control.h"
#include "orchestrator/egress/doors.h"
#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/runs/approvals.h"

namespace cloister::orchestrator {

class NetworkAsks final : public Doors::Asker, public std::enable_shared_from_this<NetworkAsks> {
 public:
  // `agents`: what agents are held to; null: nothing. The parts outlive the executor's context.
  NetworkAsks(std::shared_ptr<Control> control, std::shared_ptr<Approvals> approvals,
              const AgentGuard* agents)
      : control_(std::move(control)), approvals_(std::move(approvals)), agents_(agents) {}

  void wanted(const wire::egress::Wanted& wanted, const DoorOwner& owner) override;
  std::vector<model::PlanRule> granted(const std::string& permit) override;
  void refused(const DoorOwner& owner, const wire::egress::Attempts& attempt) override;
  void closed(const std::string& permit) override { asked_.erase(permit); }

  static constexpr size_t kMostOfDoor = 32;  // destinations asked for
  static constexpr size_t kMostAtOnce = 64;  // questions under way, of all doors

 private:
  struct Asked {
    std::string tenant;
    model::NetworkEntry entry;
    std::string escalation;  // its id; "" until it is made
  };
  using Destinations = std::map<std::pair<std::string, uint16_t>, Asked>;

  static Task<void> ask(std::shared_ptr<NetworkAsks> self, wire::egress::Wanted wanted,
                        DoorOwner owner);
  Task<Result<std::string>> escalate(const wire::egress::Wanted& wanted, const DoorOwner& owner);
  [[nodiscard]] Result<model::Escalation> drawUp(const wire::egress::Wanted& wanted,
                                                 const DoorOwner& owner) const;
  [[nodiscard]] Result<std::string> pendingLike(const model::Escalation& e) const;
  static Task<void> note(std::shared_ptr<NetworkAsks> self, model::Violation violation,
                         model::Principal by);

  std::shared_ptr<Control> control_;
  std::shared_ptr<Approvals> approvals_;
  const AgentGuard* const agents_;
  std::map<std::string, Destinations> asked_;  // by permit
  size_t asking_ = 0;
};

}  // namespace cloister::orchestrator
